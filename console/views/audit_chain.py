"""`/audit/chain`: the newest seal, to be kept elsewhere; and whether a range of the audit still fits its chain."""

from django.http import HttpRequest, HttpResponse

from console.audit_forms import Range
from console.commands import Shown, origin_of, read, tenure, terminal
from console.pages import page, show
from coordinator.selectors.audit_chain import MAX_VERIFIED, read_head, verify_chain
from coordinator.selectors.audit_watch import read_watch


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
        "watched": read_watch(),
        "most": MAX_VERIFIED,
        "terminal": terminal(_commands(form), origin_of(request)),
    }
    return show(
        request,
        "console/audit_chain.html",
        context,
        status=422 if form.is_bound and not form.is_valid() else 200,
    )


def _commands(form: Range) -> list[Shown]:
    """The very range, from a terminal."""
    seal = read("audit", "seal", cli=tenure("audit", "seal"))
    if not form.is_bound or not form.is_valid():
        return [read("audit", "verification", cli=tenure("audit", "verify")), seal]
    told = form.cleaned_data
    first, last, anchor = told["first"], told["last"], told["anchor"]
    start = ["--anchor", f"{first - 1}:{anchor}"] if anchor else ["--from", first]
    words = [*start, *(["--to", last] if last else [])]
    asked = {"first": str(first)} | ({"last": str(last)} if last else {})
    asked |= {"anchor": anchor} if anchor else {}
    return [read("audit", "verification", cli=tenure("audit", "verify", *words), **asked), seal]
