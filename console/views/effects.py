"""`/effects/unknown`, and one effect: what we know, asking the downstream, deciding (contract 8.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.exposure import Exposure, exposure_of
from console.forms import new_action_key
from console.guarantees import promise_of
from console.outlooks import if_wrong, key_ends, last_arrival_of, outlook_of
from console.pages import forbid, page, refuse, shell_of, show
from console.people import Permit, actor_of, permit
from console.service_words import in_words
from console.settling_forms import Absent, Asserted, Happened, StillUnknown
from console.stakes import plain_stake, stake_of
from console.visible import compact
from coordinator.outcomes import Outcome, Refusal
from coordinator.seals import Seal, sendable_at
from coordinator.secrets import mask_text, mask_value, unmask
from coordinator.selectors import console_effect, console_effects
from coordinator.selectors.console_effect import EffectFacts
from coordinator.selectors.console_effects import UnknownFilter, UnknownRow
from coordinator.selectors.downstreams import secret_pointers, secret_pointers_of
from coordinator.selectors.effects import group_effects
from coordinator.services import asking, reconciliation
from coordinator.services.reconciliation import Finding, Method, Settled, Verdict
from coordinator.site.adapters import registered_adapters
from coordinator.states import MAY_BE_OUT, EffectState

SHOWN: Final = 50
MAX_GROUPS: Final = 50
_BOTH = ("GET", "HEAD", "POST")
_NAMES: Final = ("downstream", "queue", "state")


@dataclass(frozen=True, slots=True)
class Weighed:
    """A row with what is at stake, heavier the older and the dearer it is."""

    row: UnknownRow
    exposure: Exposure
    weight: float


@page()
def unknown(request: HttpRequest) -> HttpResponse:
    typed = {name: request.GET[name][:200] for name in _NAMES if request.GET.get(name)}
    held = [each for each in request.GET.get("held", "").split(",") if _is_effect_id(each)]
    weighed = _weighed(request, UnknownFilter(**typed), held)
    start = 0 if held else _start(request)
    shown = weighed if held else weighed[start : start + SHOWN]
    context = {
        "typed": typed,
        "lines": shown,
        "total": len(weighed),
        "start": start,
        "next": start + SHOWN if not held and len(weighed) > start + SHOWN else None,
        "may_settle": _may_settle(request),
        "capped": len(weighed) >= console_effects.WEIGHED,
        "groups": [each for each in group_effects() if each.state in console_effects.OPEN][
            :MAX_GROUPS
        ],
        "adapters": {name for name, each in registered_adapters().items() if each.can_be_asked},
    }
    poll = {"held": ",".join(each.row.effect_id for each in shown)}
    return show(request, "console/unknown.html", context, every_seconds=10, poll=poll)


@page()
def effect(request: HttpRequest, effect_id: str) -> HttpResponse:
    found = _find(request, effect_id)
    return _show(request, found) if found else refuse(request, 404, {"what": effect_id})


@page(methods=("POST",))
def ask(request: HttpRequest, effect_id: str) -> HttpResponse:
    """The server asks the downstream; what it said is evidence. Reversible: nothing is settled by it."""
    allowed, found = _may_settle(request), _find(request, effect_id)
    if not allowed:
        return forbid(request, allowed, "start_look_up")
    if found is None:
        return refuse(request, 404, {"what": effect_id})
    adapter = registered_adapters().get(found.row.downstream)
    answer: object
    if request.POST.get("by") == "hand" or adapter is None or not adapter.can_be_asked:
        answer = reconciliation.start_look_up(effect_id=effect_id, actor=actor_of(request))
        told = _("Your look-up is stamped. Look now, by the exact key, and decide by what you see.")
    else:
        answer = asking.ask_downstream(
            effect_id=effect_id, adapter=adapter, actor=actor_of(request)
        )
        told = _("The downstream was asked. What it said stands under the evidence.")
    if isinstance(answer, Refusal):
        return _refused(request, found, answer, {})
    messages.success(request, told)
    return redirect("console:effect", effect_id=effect_id)


@page(methods=_BOTH)
def settle(request: HttpRequest, effect_id: str, how: str) -> HttpResponse:
    """`how` is happened, absent, asserted or unknown. GET leads back to the effect's page."""
    found = _find(request, effect_id)
    if found is None or how not in _FORMS:
        return refuse(request, 404, {"what": effect_id})
    if request.method != "POST":
        return redirect("console:effect", effect_id=effect_id)
    allowed = _may_settle(request)
    if allowed and how == "asserted":
        allowed = permit(request, "assert_absence")
    if not allowed:
        return forbid(request, allowed, "reconcile_effect")
    form = _form(how, found, request.POST)
    if form.is_valid() and how == "happened":
        _fill_in(form, found)
    if not form.is_valid():
        return _show(request, found, how=how, form=form)
    answer = _ACTS[how](request, effect_id, form.cleaned_data)
    if isinstance(answer, Refusal):
        if answer.outcome is Outcome.INVALID:
            for error in answer.errors:
                form.add_error(None, in_words(error.detail))
            return _show(request, found, how=how, form=form)
        return _refused(request, found, answer, form.cleaned_data)
    messages.success(request, _receipt(answer))
    return redirect("console:effect", effect_id=effect_id)


# --- deciding ---------------------------------------------------------------------------------


def _fill_in(form: Any, found: EffectFacts) -> None:
    """The receipt that was shown masked, as it is; a mask that was touched is a fault."""
    receipt, left = unmask(form.cleaned_data["receipt"], _found_receipt(found))
    form.cleaned_data["receipt"] = receipt
    if left:
        form.add_error("receipt", _("A masked value was changed or moved. Type the value itself."))


def _happened(request: HttpRequest, effect_id: str, told: dict[str, Any]) -> Any:
    verdict = Verdict(
        Finding.HAPPENED,
        told["dispatches"],
        Method.OPERATOR,
        {"reason": told["reason"]},
        receipt=told["receipt"],
    )
    return reconciliation.reconcile_effect(
        effect_id=effect_id, verdict=verdict, actor=actor_of(request)
    )


def _absent(request: HttpRequest, effect_id: str, told: dict[str, Any]) -> Any:
    """By a look-up where one is named; without one only what is closed already can count."""
    verdict = Verdict(
        Finding.NOT_HAPPENED,
        told["dispatches"],
        Method.QUERY if told["lookup_id"] else Method.OPERATOR,
        {"reason": told["reason"]},
        told["lookup_id"],
    )
    return reconciliation.reconcile_effect(
        effect_id=effect_id, verdict=verdict, actor=actor_of(request)
    )


def _asserted(request: HttpRequest, effect_id: str, told: dict[str, Any]) -> Any:
    verdict = Verdict(
        Finding.NOT_HAPPENED,
        told["dispatches"],
        Method.OPERATOR,
        {"statement": told["statement"]},
        told["lookup_id"],
    )
    return reconciliation.reconcile_effect(
        effect_id=effect_id, verdict=verdict, actor=actor_of(request), may_assert_absence=True
    )


def _still_unknown(request: HttpRequest, effect_id: str, told: dict[str, Any]) -> Any:
    return asking.note_unknown(
        effect_id=effect_id,
        dispatches=told["dispatches"],
        note=told["note"],
        check_in_minutes=told["minutes"],
        actor=actor_of(request),
    )


_ACTS: Final = {
    "happened": _happened,
    "absent": _absent,
    "asserted": _asserted,
    "unknown": _still_unknown,
}
_FORMS: Final[dict[str, Any]] = {
    "happened": Happened,
    "absent": Absent,
    "asserted": Asserted,
    "unknown": StillUnknown,
}


def _form(how: str, found: EffectFacts, data: Any = None) -> Any:
    wanted = {"phrase_wanted": phrase_of(found)} if how in ("absent", "asserted") else {}
    return _FORMS[how](data, **wanted)


def phrase_of(found: EffectFacts) -> str:
    """What is typed to say that it did not happen: it names this effect and its downstream."""
    return f"{found.effect_id[:8]} did not happen at {found.row.downstream}"


def _receipt(answer: Settled | asking.Noted) -> str:
    match answer:
        case asking.Noted():
            return _("Noted. It stays UNKNOWN; look again at %(at)s UTC.") % {
                "at": f"{answer.next_check_at:%Y-%m-%d %H:%M}"
            }
        case Settled(state="COMMITTED"):
            return _("Settled: it happened. The effect is COMMITTED with this receipt.")
        case Settled(state="RESENDABLE"):
            return _("Settled for now: it is RESENDABLE. The next generation may send it again.")
        case _:
            return _("Settled: it did not happen. The effect is PREPARED again.")


def _refused(
    request: HttpRequest, before: EffectFacts, refusal: Refusal, told: dict[str, Any]
) -> HttpResponse:
    """409 with what changed since the person looked; their word is kept where it is evidence (contract 8.4)."""
    now = _find(request, before.effect_id) or before
    changes = [
        (_("State"), told.get("shown_state", before.row.state), now.row.state),
        (
            _("Dispatches"),
            str(told.get("dispatches", before.row.dispatches)),
            str(now.row.dispatches),
        ),
    ]
    if told.get("lookup_id"):
        changes.append((_("The look-up said"), *_answers(now, told["lookup_id"])))
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "kept": refusal.evidence_recorded,
        "changes": changes if any(was != is_ for _name, was, is_ in changes) else [],
        "back": f"/effects/{before.effect_id}",
        "effect": now,
    }
    return refuse(request, 409, context)


def _answers(found: EffectFacts, lookup_id: UUID) -> tuple[str, str]:
    """What a look-up said, and what the newest one said; a look by hand is told by nobody."""
    asked = [each for each in found.evidence if each.kind == "query" and "digest" in each.detail]
    own = (each.said for each in asked if each.detail.get("lookup_id") == str(lookup_id))
    newest = asked[0].said if asked else "—"
    return next(own, "—"), newest


# --- showing ----------------------------------------------------------------------------------


def _show(
    request: HttpRequest, found: EffectFacts, *, how: str = "", form: Any = None
) -> HttpResponse:
    now = shell_of(request).now
    places = secret_pointers(found.row.downstream)
    exposure = exposure_of(found.payload, places)
    outlook, settled = outlook_of(found, now), found.row.state not in MAY_BE_OUT
    adapter = registered_adapters().get(found.row.downstream)
    may_assert, receipt = permit(request, "assert_absence"), _found_receipt(found)
    context = {
        "effect": found,
        "exposure": exposure,
        "stake": stake_of(exposure),
        "promise": promise_of(found.row.guarantee),
        "outlook": outlook,
        "final": outlook.seal is Seal.FINAL,
        "if_wrong": if_wrong(found, plain_stake(exposure), outlook.seal),
        "if_asserted": if_wrong(found, plain_stake(exposure), None),
        "arrival": last_arrival_of(found),
        "arrived": _past(last_arrival_of(found), now),
        "key_ends": key_ends(found),
        "sendable_at": sendable_at(found.row, found.calls, now)
        if found.row.state == EffectState.PREPARED
        else None,
        "outlook_due": _past(outlook.since, now),
        "assertion_due": _past(outlook.assertion_since, now),
        "settled": settled,
        "adapter": adapter if adapter is not None and adapter.can_be_asked else None,
        "allowed": _may_settle(request),
        "may_assert": may_assert,
        "how": how,
        "form": form,
        "phrase": phrase_of(found),
        "next_generation": found.claim_generation + 1,
        "found_receipt": receipt,
        "found_receipt_text": compact(mask_value(receipt)[0]),
        "masked": mask_text(found.payload, places) if found.payload is not None else None,
        "may_reveal": permit(request, "reveal_secrets"),
        "bound_version": f"{found.row.dispatches}:{outlook.seal or ''}",
        "action_key": new_action_key(),
    }
    return show(
        request,
        "console/effect.html",
        context,
        every_seconds=15 if settled else 3,
        status=422 if form is not None else 200,
    )


def _past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now


def _found_receipt(found: EffectFacts) -> Any:
    """The receipt that a look-up or a late report gave, to start from."""
    for each in found.evidence:
        receipt = each.detail.get("receipt")
        if receipt is not None and each.said in ("HAPPENED", "COMMITTED"):
            return receipt
    return None


def _find(request: HttpRequest, effect_id: str) -> EffectFacts | None:
    if not _is_effect_id(effect_id):
        return None
    return console_effect.read_effect(effect_id, with_payload=bool(permit(request, "view_payload")))


def _may_settle(request: HttpRequest) -> Permit:
    """Nobody decides on what they may not see."""
    allowed = permit(request, "reconcile")
    return allowed and permit(request, "view_payload")


def _weighed(request: HttpRequest, wanted: UnknownFilter, held: list[str]) -> list[Weighed]:
    now = shell_of(request).now
    rows = console_effects.list_unknown(
        wanted, with_payload=bool(permit(request, "view_payload")), held=held
    )
    places = secret_pointers_of({row.downstream for row in rows})
    lines = [_weigh(row, now, places.get(row.downstream, ())) for row in rows]
    if held:
        order = {effect_id: place for place, effect_id in enumerate(held)}
        return sorted(lines, key=lambda each: order[each.row.effect_id])
    return sorted(lines, key=lambda each: (-each.weight, each.row.effect_id))


def _weigh(row: UnknownRow, now: datetime, places: Sequence[str]) -> Weighed:
    exposure = exposure_of(row.payload, places)
    age = max((now - row.since).total_seconds(), 1.0) if row.since else 1.0
    return Weighed(row, exposure, age * float(exposure.weight))


def _start(request: HttpRequest) -> int:
    text = request.GET.get("start", "")
    return min(int(text), console_effects.WEIGHED) if text.isascii() and text.isdigit() else 0


def _is_effect_id(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
