"""Preparing an effect: its slot bound once to one payload (contract 8.1)."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator import digests
from coordinator.actors import Worker
from coordinator.fence import Call, Fence, Point, TaskRow
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid
from coordinator.rounds import Statement, run_round
from coordinator.states import Replay

from .effect_rows import EffectView, read_view, views_of
from .events import EventKind, task_fact
from .hearings import Hearing, open_hearing
from .transactions import in_transaction

#: A bound payload is handed to every later attempt in its claim.
MAX_PAYLOAD_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """`outcome` is the slot's state; `created` when this very call bound it."""

    outcome: str
    effect: EffectView
    created: bool


@dataclass(frozen=True, slots=True)
class _Bound:
    payload: str
    condition: str | None
    digest: str


_DECLARED: Final = "SELECT slots::text FROM coordinator_task WHERE task_id = %s"
_FIND: Final = "SELECT effect_id, payload_digest, payload FROM coordinator_effectslot WHERE task_id = %s AND slot = %s"
_REGISTERED: Final = """
SELECT guarantee, call_timeout_seconds, key_valid_seconds, settle_seconds, refuses_late, coalesce(serial_scope, ''),
       required_approvers
FROM coordinator_downstream WHERE name = %s
"""
_BIND: Final = """
INSERT INTO coordinator_effectslot
  (effect_id, task_id, node_id, slot, downstream, payload, payload_digest, condition, state, dispatches, prepared_at,
   guarantee, call_timeout_seconds, key_valid_seconds, settle_seconds, refuses_late, serial_scope, required_approvers,
   is_exclusive, needs_approval, happened_on_file, duplicate_suspected, probes)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'PREPARED', 0, %s, %s, %s, %s, %s, %s, %s, %s, %s, false, false, false, 0)
"""


def prepare_effect(
    *,
    attempt_id: UUID,
    fence: Fence,
    slot: str,
    downstream: str,
    payload: Any,
    worker: Worker,
    condition: Any = None,
) -> Prepared | Refusal:
    """Bind the slot to this payload, or return it as it stands if it is bound to the same.

    The digest is over downstream, payload and condition. Another one is PAYLOAD_CONFLICT with
    the bound payload, and nothing changes. Refused besides the fence's refusals: INVALID (an
    undeclared slot, another downstream than declared, no RFC 8785 form, too large).
    """
    bound = _canonical(downstream, payload, condition)
    return _prepare(attempt_id, fence, slot, downstream, bound, worker=worker)


def payload_digest(downstream: str, payload: Any, condition: Any) -> str:
    """What an effect's payload is bound by (contract 8.1)."""
    return digests.sha256(
        digests.canonical({"condition": condition, "downstream": downstream, "payload": payload})
    )


def _canonical(downstream: str, payload: Any, condition: Any) -> _Bound | Refusal:
    texts: dict[str, bytes] = {}
    for name, value in (("payload", payload), ("condition", condition)):
        try:
            texts[name] = digests.canonical(value)
        except digests.NotCanonical as error:
            return invalid(FieldError(f"/{name}", str(error)))
        if len(texts[name]) > MAX_PAYLOAD_BYTES:
            told = f"It is larger than {MAX_PAYLOAD_BYTES} bytes; put a blob and send its name."
            return invalid(FieldError(f"/{name}", told))
    stored = None if condition is None else texts["condition"].decode()
    return _Bound(texts["payload"].decode(), stored, payload_digest(downstream, payload, condition))


@in_transaction
def _prepare(
    attempt_id: UUID,
    fence: Fence,
    slot: str,
    downstream: str,
    bound: _Bound | Refusal,
    *,
    worker: Worker,
) -> Prepared | Refusal:
    hearing = open_hearing(
        Point.PREPARE,
        [(attempt_id, fence)],
        worker=worker,
        extra=[
            Statement(_DECLARED, (fence.task_id,)),
            Statement(_FIND, (fence.task_id, slot)),
            Statement(_REGISTERED, (downstream,)),
        ],
    )
    verdict = hearing.judge(
        Call(Point.PREPARE, fence, worker.id), attempt_id, queue=None, usage=None
    )
    if isinstance(verdict, Refusal):
        hearing.write()
        return verdict
    if isinstance(bound, Refusal):
        return _refuse(hearing, fence, bound)
    declared, found, registered = hearing.extra
    fault = _fault(slot, downstream, orjson.loads(declared[0][0]), bool(registered))
    if fault is not None:
        return _refuse(hearing, fence, fault)
    task = hearing.tasks[fence.task_id]
    if found:
        effect_id, digest, text = found[0]
        if digest != bound.digest:
            return _refuse(hearing, fence, _conflict(digest, text))
    else:
        effect_id = digests.effect_id(task_id=str(task.task_id), node_id=task.node_id, slot=slot)
        hearing.facts.append(
            task_fact(
                EventKind.EFFECT_PREPARED,
                task,
                changed=False,
                attempt_id=attempt_id,
                effect_id=effect_id,
                slot=slot,
                downstream=downstream,
                payload_digest=bound.digest,
            )
        )
        hearing.write(
            _bind(
                effect_id=effect_id,
                task=task,
                slot=slot,
                downstream=downstream,
                bound=bound,
                registered=registered[0],
                hearing=hearing,
            )
        )
    (view,) = views_of(*run_round(*read_view(effect_id)))
    return Prepared(view.state, view, created=not found)


def _fault(
    slot: str, downstream: str, declared: dict[str, str], is_registered: bool
) -> Refusal | None:
    if slot not in declared:
        names = ", ".join(f"`{name}`" for name in sorted(declared)) or "none"
        told = f"The plan declares no slot `{slot}` for this node (declared: {names}); a new one is a new revision."
        return invalid(FieldError("/slot", told))
    if declared[slot] != downstream:
        return invalid(
            FieldError("/downstream", f"The plan declares `{declared[slot]}` for slot `{slot}`.")
        )
    if not is_registered:
        return invalid(
            FieldError(
                "/downstream", f"`{downstream}` is not registered any more; ask an operator."
            )
        )
    return None


def _conflict(digest: str, text: str) -> Refusal:
    return Refusal(
        Outcome.PAYLOAD_CONFLICT,
        "The slot is bound to another payload. Send that one, or revise the task; nothing was changed.",
        evidence_recorded=True,
        extra={"payload_digest": digest, "payload": orjson.Fragment(text)},
    )


def _refuse(hearing: Hearing, fence: Fence, refusal: Refusal) -> Refusal:
    """A current attempt's call that is not granted: recorded, and nothing else is written."""
    attempt = hearing.attempts[fence.attempt_id]
    hearing.refuse(refusal, fence, hearing.tasks[fence.task_id], attempt)
    hearing.write()
    return refusal


def _bind(
    *,
    effect_id: str,
    task: TaskRow,
    slot: str,
    downstream: str,
    bound: _Bound,
    registered: tuple[Any, ...],
    hearing: Hearing,
) -> Statement:
    """The class and seconds of the downstream are copied: a later change of the registry changes no bound effect."""
    return Statement(
        _BIND,
        (
            effect_id,
            task.task_id,
            task.node_id,
            slot,
            downstream,
            bound.payload,
            bound.digest,
            bound.condition,
            hearing.clock,
            *registered,
            task.replay == Replay.NON_REPLAYABLE,
        ),
    )
