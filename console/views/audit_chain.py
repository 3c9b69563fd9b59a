"""`/audit/chain`: the newest seal, to be kept elsewhere; and whether a range of the audit still fits its chain."""

from django.http import HttpRequest, HttpResponse

from console.audit_forms import Range
from console.pages import page, show
from coordinator.selectors.audit_chain import MAX_VERIFIED, read_head, verify_chain


@page()
def chain(request: HttpRequest) -> HttpResponse:
    """A look is a GET: its address can be kept, and asked for again."""
    head = read_head()
    form = Range(request.GET if "first" in request.GET else None, head=head)
    found = None
    if form.is_bound and form.is_valid():
        told = form.cleaned_data
        found = verify_chain(first=told["first"], last=told["last"], anchor=told["anchor"] or None)
    context = {
        "head": head,
        "form": form,
        "found": found,
        "most": MAX_VERIFIED,
        "cli": _cli(form),
    }
    return show(
        request,
        "console/audit_chain.html",
        context,
        status=422 if form.is_bound and not form.is_valid() else 200,
    )


def _cli(form: Range) -> str:
    if not form.is_bound or not form.is_valid():
        return "tenure audit verify"
    told = form.cleaned_data
    words = ["tenure audit verify"]
    if told["anchor"]:
        words.append(f"--anchor {told['first'] - 1}:{told['anchor']}")
    else:
        words.append(f"--from {told['first']}")
    if told["last"]:
        words.append(f"--to {told['last']}")
    return " ".join(words)
