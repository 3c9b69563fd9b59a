"""Where what can be revealed is stored, and which places of it people are given masked."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never
from uuid import UUID

import orjson

from coordinator.digests import sha256
from coordinator.evidence_masks import mask_evidence
from coordinator.models import (
    Attempt,
    CanonicalCommit,
    EffectSlot,
    Event,
    Evidence,
    Run,
    StagedResult,
    Task,
)
from coordinator.secrets import Hidden, mask_text
from coordinator.selectors.downstreams import secret_pointers
from coordinator.selectors.memory import find_fact


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
    ERROR = "error"  # what an attempt failed with
    EVIDENCE = "evidence"  # what somebody said about an effect
    MEMORY = "memory"  # a version of a key of shared memory


@dataclass(frozen=True, slots=True)
class Subject:
    """One stored JSON text: of an effect, a task, a run, an event or a key of shared memory.

    A candidate is named by its attempt and digest, an error by its attempt. A key without a version means its newest.
    """

    part: Part
    effect_id: str | None = None
    task_id: UUID | None = None
    attempt_id: UUID | None = None
    digest: str = ""
    run_id: UUID | None = None
    event_id: int | None = None
    evidence_id: int | None = None
    namespace: str = ""
    key: str = ""
    version: int | None = None

    def named(self) -> dict[str, Any]:
        """What of it stands in the event; task, run and attempt stand beside it."""
        names = ("effect_id", "event_id", "evidence_id", "namespace", "key")
        return {name: value for name in names if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class Found:
    """A stored text with what it belongs to, and what of it is masked for people."""

    text: str
    digest: str
    queue_id: int | None
    run_id: int | None
    task_id: UUID | None
    hidden: tuple[Hidden, ...] = ()


def find(subject: Subject) -> Found | None:
    """The text with the places that are masked; None where there is no such thing, or nothing stored of it."""
    match subject.part:
        case Part.PAYLOAD | Part.CONDITION | Part.RECEIPT:
            return _of_effect(subject)
        case Part.EVIDENCE:
            return _evidence(subject)
        case Part.INPUT:
            rows: Any = Task.objects.filter(task_id=_known(subject.task_id))
            return _found(rows.values_list("input", "input_digest", *_PLACE).first())
        case Part.RESULT:
            commits: Any = CanonicalCommit.objects.filter(task_id=_known(subject.task_id))
            return _result(commits, "task__")
        case Part.CANDIDATE:
            return _candidate(subject)
        case Part.ERROR:
            return _error(subject)
        case Part.METADATA:
            return _of_run(subject)
        case Part.EVENT:
            return _of_event(subject)
        case Part.MEMORY:
            return _memory(subject)
        case _:
            assert_never(subject.part)


_PLACE: Final = ("queue_id", "run_id", "task_id")


def _found(row: tuple[Any, ...] | None, pointers: Sequence[str] = ()) -> Found | None:
    """`row` is the text, its digest, and the place."""
    if row is None or row[0] is None:
        return None
    text, digest, queue_id, run_id, task_id = row
    hidden = mask_text(text, pointers).hidden
    return Found(text, digest, queue_id, run_id, task_id, hidden)


def _told(value: Any, *place: Any) -> Found | None:
    """Of a value that is stored as JSON, and has no digest of its own."""
    text = orjson.dumps(value)
    return _found((text.decode(), sha256(text), *place))


def _of_effect(subject: Subject) -> Found | None:
    effects: Any = EffectSlot.objects.filter(effect_id=subject.effect_id or "")
    names = (f"task__{name}" for name in _PLACE)
    row = effects.values_list("downstream", str(subject.part), "payload_digest", *names).first()
    if row is None:
        return None
    return _found(row[1:], secret_pointers(row[0]) if subject.part is Part.PAYLOAD else ())


def _evidence(subject: Subject) -> Found | None:
    rows: Any = Evidence.objects.filter(
        pk=subject.evidence_id or 0, effect_id=subject.effect_id or ""
    )
    names = (f"effect__task__{name}" for name in _PLACE)
    row = rows.values_list("detail", "effect__downstream", *names).first()
    if row is None:
        return None
    detail, downstream, queue_id, run_id, task_id = row
    text = orjson.dumps(detail)
    hidden = mask_evidence(detail, secret_pointers(downstream))[1]
    return Found(text.decode(), sha256(text), queue_id, run_id, task_id, hidden)


def _candidate(subject: Subject) -> Found | None:
    staged: Any = StagedResult.objects.filter(
        attempt_id=_known(subject.attempt_id),
        attempt__task_id=_known(subject.task_id),
        result_digest=subject.digest,
    )
    return _result(staged, "attempt__task__")


def _error(subject: Subject) -> Found | None:
    attempts: Any = Attempt.objects.filter(
        attempt_id=_known(subject.attempt_id), task_id=_known(subject.task_id), error__isnull=False
    )
    row = attempts.values_list("error", "task__queue_id", "task__run_id", "task_id").first()
    return None if row is None else _told(*row)


def _of_run(subject: Subject) -> Found | None:
    run = Run.objects.filter(run_id=_known(subject.run_id)).first()
    if run is None:
        return None
    return _found((run.metadata, sha256(run.metadata.encode()), run.queue_id, run.pk, None))


def _of_event(subject: Subject) -> Found | None:
    """Where somebody did it from is for administrators alone, and no secret of this kind."""
    event = Event.objects.filter(pk=subject.event_id or 0).first()
    if event is None:
        return None
    said = {name: value for name, value in event.data.items() if name != "address"}
    return _told(said, event.queue_id, event.run_id, event.task_id)


def _memory(subject: Subject) -> Found | None:
    """With the run and the task whose commit has written it."""
    fact = find_fact(namespace=subject.namespace, key=subject.key, version=subject.version)
    if fact is None:
        return None
    tasks: Any = Task.objects.filter(canonical_commit=fact.result_commit_id)
    place = tasks.values_list(*_PLACE).first() or (None, None, None)
    return _found((fact.value, fact.value_digest, *place))


def _result(rows: Any, way: str) -> Found | None:
    names = (f"{way}{name}" for name in _PLACE)
    wanted = rows.filter(result__isnull=False).values_list("result", "result_digest", *names)
    return _found(wanted.first())


def _known(id_: UUID | None) -> UUID:
    """What is asked for without an id is asked for by one that nothing has."""
    return id_ or UUID(int=0)
