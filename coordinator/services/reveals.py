"""Revealing what is masked: for a reason, on record, and only in the answer itself (console design, 3.7)."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, assert_never
from uuid import UUID

import orjson

from coordinator.actors import Actor, ActorKind
from coordinator.clock import CLOCK, clock_of
from coordinator.digests import sha256
from coordinator.models import CanonicalCommit, EffectSlot, Event, Run, StagedResult, Task
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.secrets import MAX_NAMED, Hidden, mask_text
from coordinator.selectors.downstreams import secret_pointers

from .events import EventKind, Fact, record
from .texts import check_reason
from .transactions import in_transaction

MIN_REASON_CHARS: Final = 10


class Part(StrEnum):
    """What holds the secrets."""

    PAYLOAD = "payload"  # of an effect
    CONDITION = "condition"
    RECEIPT = "receipt"
    INPUT = "input"  # of a task
    RESULT = "result"  # the canonical one
    CANDIDATE = "candidate"  # a result that an attempt has put aside
    METADATA = "metadata"  # of a run
    EVENT = "event"  # what an event says, without the address of who did it


@dataclass(frozen=True, slots=True)
class Subject:
    """One stored JSON text: of an effect, a task, a run or an event; a candidate's by attempt and digest."""

    part: Part
    effect_id: str | None = None
    task_id: UUID | None = None
    attempt_id: UUID | None = None
    digest: str = ""
    run_id: UUID | None = None
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Revealed:
    """The stored text as it is, once. `hidden` are the places that are masked elsewhere."""

    part: str
    text: str
    digest: str
    hidden: tuple[Hidden, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A stored text with what it belongs to."""

    text: str
    digest: str
    queue_id: int | None
    run_id: int | None
    task_id: UUID | None
    pointers: tuple[str, ...] = ()


def reveal(*, subject: Subject, reason: str, actor: Actor) -> Revealed | Refusal:
    """Answer with the text, and record who has seen which places of it and why; never what stood there.

    The caller has looked that the person may (`reveal_secrets`, `view_payload`). Refused:
    INVALID (no reason, or nothing is masked), FORBIDDEN (no person), NOT_FOUND.
    """
    if faults := check_why(reason):
        return invalid(*faults)
    if actor.kind is not ActorKind.OPERATOR:
        return Refusal(Outcome.FORBIDDEN, "Only a person reveals; a worker is handed it whole.")
    return _reveal(subject, reason, actor)


def check_why(reason: str) -> list[FieldError]:
    """A reason that somebody else can make something of."""
    faults = check_reason(reason)
    if not faults and len(reason.strip()) < MIN_REASON_CHARS:
        faults.append(FieldError("/reason", f"Say why in {MIN_REASON_CHARS} characters or more."))
    return faults


@in_transaction
def _reveal(subject: Subject, reason: str, actor: Actor) -> Revealed | Refusal:
    _, clock = run_round(name_point("reveal"), CLOCK)
    found = _find(subject)
    if found is None:
        return not_found(subject.part)
    hidden = mask_text(found.text, found.pointers).hidden
    if not hidden:
        return invalid(FieldError("/part", "Nothing of it is masked."))
    told: dict[str, Any] = {
        "part": str(subject.part),
        "reason": reason,
        "digest": found.digest,
        "places": [one.pointer for one in hidden[:MAX_NAMED]],
        "count": len(hidden),
    }
    if subject.effect_id:
        told["effect_id"] = subject.effect_id
    if subject.event_id:
        told["event_id"] = subject.event_id
    fact = Fact(
        EventKind.SECRET_REVEALED,
        queue_id=found.queue_id,
        run_id=found.run_id,
        task_id=found.task_id,
        attempt_id=subject.attempt_id,
        data=told,
    )
    run_round(record([fact], actor=actor, at=clock_of(clock)))
    return Revealed(str(subject.part), found.text, found.digest, hidden)


def _find(subject: Subject) -> _Found | None:
    row: tuple[Any, ...] | None
    match subject.part:
        case Part.PAYLOAD | Part.CONDITION | Part.RECEIPT:
            return _of_effect(subject)
        case Part.INPUT:
            rows: Any = Task.objects.filter(task_id=_known(subject.task_id))
            row = rows.values_list("input", "input_digest", *_PLACE).first()
        case Part.RESULT:
            commits: Any = CanonicalCommit.objects.filter(task_id=_known(subject.task_id))
            row = _result(commits, "task__")
        case Part.CANDIDATE:
            staged: Any = StagedResult.objects.filter(
                attempt_id=_known(subject.attempt_id),
                attempt__task_id=_known(subject.task_id),
                result_digest=subject.digest,
            )
            row = _result(staged, "attempt__task__")
        case Part.METADATA:
            return _of_run(subject)
        case Part.EVENT:
            return _of_event(subject)
        case _:
            assert_never(subject.part)
    return None if row is None else _Found(*row)


_PLACE: Final = ("queue_id", "run_id", "task_id")


def _of_effect(subject: Subject) -> _Found | None:
    effects: Any = EffectSlot.objects.filter(effect_id=subject.effect_id or "")
    names = (f"task__{name}" for name in _PLACE)
    row = effects.values_list(str(subject.part), "payload_digest", *names, "downstream").first()
    if row is None or row[0] is None:
        return None
    found, downstream = _Found(*row[:5]), row[5]
    if subject.part is Part.PAYLOAD:
        return replace(found, pointers=secret_pointers(downstream))
    return found


def _of_run(subject: Subject) -> _Found | None:
    run = Run.objects.filter(run_id=_known(subject.run_id)).first()
    if run is None:
        return None
    return _Found(run.metadata, sha256(run.metadata.encode()), run.queue_id, run.pk, None)


def _of_event(subject: Subject) -> _Found | None:
    """Where somebody did it from is for administrators alone, and no secret of this kind."""
    event = Event.objects.filter(pk=subject.event_id or 0).first()
    if event is None:
        return None
    said = {name: value for name, value in event.data.items() if name != "address"}
    text = orjson.dumps(said)
    return _Found(text.decode(), sha256(text), event.queue_id, event.run_id, event.task_id)


def _result(rows: Any, way: str) -> tuple[Any, ...] | None:
    names = (f"{way}{name}" for name in _PLACE)
    wanted = rows.filter(result__isnull=False).values_list("result", "result_digest", *names)
    row: tuple[Any, ...] | None = wanted.first()
    return row


def _known(id_: UUID | None) -> UUID:
    """What is asked for without an id is asked for by one that nothing has."""
    return id_ or UUID(int=0)
