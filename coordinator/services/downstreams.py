"""Downstreams: the registry of outside systems and what each can guarantee (contract 8, 12)."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.models import Downstream
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.selectors.downstreams import DownstreamRecord, downstream_record
from coordinator.services.events import EventKind, Fact, record
from coordinator.services.transactions import in_transaction
from coordinator.states import Guarantee

#: What PATCH may change. Slots that are bound keep what they copied (contract 8).
CHANGEABLE: Final = (
    "kind",
    "guarantee",
    "call_timeout_seconds",
    "key_valid_seconds",
    "settle_seconds",
    "refuses_late",
    "serial_scope",
    "probe",
    "required_approvers",
    "secret_pointers",
)
MAX_POINTERS: Final = 50
MAX_POINTER_CHARS: Final = 300


@in_transaction
def register_downstream(
    *, name: str, kind: str, guarantee: str, actor: Actor, reason: str = "", **described: Any
) -> DownstreamRecord | Refusal:
    """Register a downstream. The same again is the downstream as it stands.

    Refuses a guarantee without what it needs, and a name that stands for something else.
    """
    run_round(name_point("administer"))
    wanted = Downstream(name=name, kind=kind, guarantee=guarantee, **described)
    faults = _faults(wanted)
    if faults:
        return invalid(*faults)
    try:
        with transaction.atomic():
            wanted.save(force_insert=True)
    except IntegrityError:
        there = Downstream.objects.get(name=name)
        if _described(there) == _described(wanted):
            return downstream_record(there)
        return invalid(
            FieldError("/name", f"downstream {name!r} is registered otherwise; change it by PATCH")
        )
    told = _described(wanted) | {"name": name} | ({"reason": reason} if reason else {})
    _record(EventKind.DOWNSTREAM_REGISTERED, actor, told)
    return downstream_record(Downstream.objects.get(pk=wanted.pk))


@in_transaction
def change_downstream(
    *,
    name: str,
    changes: Mapping[str, Any],
    actor: Actor,
    reason: str = "",
    shown: DownstreamRecord | None = None,
) -> DownstreamRecord | Refusal:
    """Change what is said of a downstream. Equal values change nothing and are no event.

    `shown` is what the decider saw: anything else by now is STATE_VERSION_MISMATCH.
    """
    assert set(changes) <= set(CHANGEABLE), "the body's model allows no other field"
    run_round(name_point("administer"))
    downstream = Downstream.objects.select_for_update().filter(name=name).first()
    if downstream is None:
        return not_found("downstream")
    if shown is not None and downstream_record(downstream) != shown:
        changed_since = "Somebody has changed it since you looked; look again."
        return Refusal(Outcome.STATE_VERSION_MISMATCH, changed_since)
    before = _described(downstream)
    for field, value in changes.items():
        setattr(downstream, field, value)
    faults = _faults(downstream)
    if faults:
        return invalid(*faults)
    after = _described(downstream)
    changed = {field: after[field] for field in CHANGEABLE if after[field] != before[field]}
    if changed:
        downstream.save(update_fields=list(changed))
        told: dict[str, Any] = {
            "name": name,
            "before": {field: before[field] for field in changed},
            "after": changed,
        }
        if reason:
            told["reason"] = reason
        _record(EventKind.DOWNSTREAM_CHANGED, actor, told)
    return downstream_record(downstream)


def _described(downstream: Downstream) -> dict[str, Any]:
    return {field: getattr(downstream, field) for field in CHANGEABLE}


def _faults(downstream: Downstream) -> list[FieldError]:
    wrong = [
        pointer
        for pointer in downstream.secret_pointers
        if not pointer.startswith("/") or len(pointer) > MAX_POINTER_CHARS or "\0" in pointer
    ]
    if wrong or len(downstream.secret_pointers) > MAX_POINTERS:
        told = (
            f"At most {MAX_POINTERS} JSON pointers such as /card/number or /to/*/iban,"
            f" of at most {MAX_POINTER_CHARS} characters each."
        )
        return [FieldError("/secret_pointers", told)]
    if downstream.guarantee == Guarantee.IDEMPOTENT_KEY and not downstream.key_valid_seconds:
        return [
            FieldError(
                "/key_valid_seconds",
                "IDEMPOTENT_KEY needs it: for how long does it dedupe on a key?",
            )
        ]
    return []


def _record(kind: EventKind, actor: Actor, data: dict[str, Any]) -> None:
    at = clock_of(run_round(CLOCK)[0])
    run_round(record([Fact(kind, data=data)], actor=actor, at=at))
