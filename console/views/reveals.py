"""Revealing what is masked: a reason is asked for, and the value stands once, in the answer (console design, 3.7)."""

from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.access_forms import take_faults
from console.filters import as_uuid
from console.forms import Reveal, new_action_key
from console.pages import forbid, page, refuse, show
from console.people import Permit, actor_of, permit
from console.readings import read_payload
from console.views.approvals import form_context
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import console_approval
from coordinator.selectors.downstreams import secret_pointers
from coordinator.services.reveals import reveal
from coordinator.services.stored_secrets import Part, Subject

#: No event has a greater one: bigints end there.
MAX_ID: Final = 10**18
MAX_DIGITS: Final = 18
_BOTH = ("GET", "HEAD", "POST")
#: Where a part of a task stands, and where one comes back to.
_TABS: Final[dict[str, str]] = {Part.CANDIDATE: "task-candidates", Part.ERROR: "task"}


@page(methods=_BOTH)
def approval(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    """The payload that is to be decided on, with the form beside it: what was seen is what is decided."""
    bound = console_approval.read_approval(
        approval_id, with_payload=bool(permit(request, "view_payload"))
    )
    if bound is None:
        return refuse(request, 404, {"what": str(approval_id)})
    back = reverse("console:approval", args=[approval_id])
    places = secret_pointers(bound.downstream)
    context = {"subject": bound.node_id, "back": back, **form_context(request, bound)}
    wanted = Subject(Part.PAYLOAD, effect_id=bound.effect_id)
    return _reveal(request, wanted, context, places)


@page(methods=_BOTH)
def effect(request: HttpRequest, effect_id: str, part: str) -> HttpResponse:
    """`part` is `payload`, `condition`, `receipt`, or `evidence` with `id` in the query."""
    if part not in (Part.PAYLOAD, Part.CONDITION, Part.RECEIPT, Part.EVIDENCE):
        return refuse(request, 404, {"what": part})
    back = reverse("console:effect", args=[effect_id])
    context = {"subject": effect_id[:12], "back": back}
    digits = request.GET.get("id", "")
    known = (
        int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else 0
    )
    wanted = Subject(Part(part), effect_id=effect_id, evidence_id=known)
    return _reveal(request, wanted, context)


@page(methods=_BOTH)
def task(request: HttpRequest, task_id: UUID, part: str) -> HttpResponse:
    """`part` is `input`, `result`, `candidate` with `attempt` and `digest` in the query, or `error` with `attempt`."""
    if part not in (Part.INPUT, Part.RESULT, Part.CANDIDATE, Part.ERROR):
        return refuse(request, 404, {"what": part})
    wanted = Subject(
        Part(part),
        task_id=task_id,
        attempt_id=as_uuid(request.GET.get("attempt")),
        digest=request.GET.get("digest", "")[:100],
    )
    back = reverse(f"console:{_TABS.get(part, 'task-input')}", args=[task_id])
    return _reveal(request, wanted, {"subject": str(task_id)[:8], "back": back})


@page(methods=_BOTH)
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    back = reverse("console:run", args=[run_id])
    context = {"subject": str(run_id)[:8], "back": back}
    return _reveal(request, Subject(Part.METADATA, run_id=run_id), context)


@page(methods=_BOTH)
def event(request: HttpRequest, event_id: int) -> HttpResponse:
    if event_id > MAX_ID:
        return refuse(request, 404, {"what": str(event_id)})
    back = f"{reverse('console:audit')}?before={event_id + 1}#e-{event_id}"
    context = {"subject": f"#{event_id}", "back": back}
    return _reveal(request, Subject(Part.EVENT, event_id=event_id), context)


def _reveal(
    request: HttpRequest, wanted: Subject, context: dict[str, Any], places: tuple[str, ...] = ()
) -> HttpResponse:
    allowed = _may(request)
    context |= {"part": wanted.part, "may_reveal": allowed, "reveal_key": new_action_key()}
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "reveal_secrets")
    form = Reveal(request.POST or None)
    if request.method == "POST" and form.is_valid():
        answer = reveal(subject=wanted, reason=form.cleaned_data["reason"], actor=actor_of(request))
        match answer:
            case Refusal(outcome=Outcome.NOT_FOUND):
                return refuse(request, 404, {"what": wanted.part})
            case Refusal():
                take_faults(form, answer)
            case _:
                way = str(request.POST.get("way", ""))
                reading = read_payload(answer.text, way, places, revealed=True)
                told = {"revealed": answer, "reading": reading}
                return show(request, "console/reveal.html", context | told)
    status = 422 if form.is_bound else 200
    return show(request, "console/reveal.html", context | {"reveal_form": form}, status=status)


def _may(request: HttpRequest) -> Permit:
    """Nobody is shown the secrets of what they may not see at all."""
    allowed = permit(request, "reveal_secrets")
    return allowed and permit(request, "view_payload")
