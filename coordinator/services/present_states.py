"""A person has a downstream tell what is there now, where a payload that waits for them would write (contract 9).

Nothing is decided and nothing settled by it: what was told is kept as evidence, and stands beside the payload. No
transaction is open while the downstream is asked, and it is asked by a registered adapter alone.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator import digests
from coordinator.actors import Actor
from coordinator.clock import read_clock
from coordinator.fence import Point
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.approvals import find_approval
from coordinator.selectors.effects import find_effect
from coordinator.selectors.present_states import PRESENT
from coordinator.states import ApprovalState, EffectState
from tenure.downstreams.base import Adapter, Bound, DontKnow, Present

from . import evidence
from .effect_hearings import open_effect
from .events import EventKind
from .heard import plain_text
from .transactions import in_transaction

ASK_SECONDS: Final = 10.0
#: Of what is there and what would be, together; more is not read by a person on a page.
MAX_STATE_BYTES: Final = 200_000
MAX_TOLD_CHARS: Final = 2_000

THERE, DONT_KNOW = "PRESENT", "DONT_KNOW"


@dataclass(frozen=True, slots=True)
class Looked:
    """What the downstream told. `state` is JSON text of `there` and `instead`, `facts` of what it says of them.

    Both are text, so that nothing that somebody keeps there is a thing that the database can't.
    """

    said: str
    state: str | None
    facts: str
    condition_holds: bool | None
    detail: str
    milliseconds: int
    digest: str


def look_for_approval(
    *, approval_id: UUID, adapters: Mapping[str, Adapter], actor: Actor
) -> Looked | Refusal:
    """The same for a request that somebody may still decide, by the adapter of its downstream.

    Refused: NOT_FOUND; ALREADY_SETTLED where the request is over; INVALID where no adapter can tell.
    """
    approval = find_approval(approval_id)
    if approval is None:
        return not_found("approval")
    if approval.state != ApprovalState.PENDING or approval.expires_at <= read_clock():
        told = "The request is over: nobody decides by what is there."
        return Refusal(Outcome.ALREADY_SETTLED, told, extra={"state": approval.state})
    name = approval.effect.downstream
    adapter = adapters.get(name)
    if adapter is None or not adapter.can_present:
        told = (
            f"No adapter that can tell what is there is registered for `{name}` (TENURE_ADAPTERS)."
        )
        return invalid(FieldError("/downstream", told))
    return look_at_present(effect_id=approval.effect_id, adapter=adapter, actor=actor)


def look_at_present(*, effect_id: str, adapter: Adapter, actor: Actor) -> Looked | Refusal:
    """Ask within ASK_SECONDS what is there now, and keep what was told.

    Refused: NOT_FOUND; ALREADY_SETTLED where the effect has happened or never will.
    """
    effect = find_effect(effect_id)
    if effect is None:
        return not_found("effect")
    if effect.state in (EffectState.COMMITTED, EffectState.VOID):
        told = f"It is {effect.state}: nothing waits for what is there."
        return Refusal(Outcome.ALREADY_SETTLED, told, extra={"state": effect.state})
    bound = Bound(
        effect_id=effect_id,
        payload=orjson.loads(effect.payload),
        payload_digest=effect.payload_digest,
        condition=None if effect.condition is None else orjson.loads(effect.condition),
    )
    begun = time.monotonic()
    answer = _told(_look(adapter, bound))
    looked = _looked(answer, milliseconds=round((time.monotonic() - begun) * 1000))
    return _keep(effect_id, looked, actor) or looked


def _look(adapter: Adapter, bound: Bound) -> Present | DontKnow:
    try:
        return adapter.present(bound, deadline=time.monotonic() + ASK_SECONDS)
    except Exception as error:  # noqa: BLE001 (whatever an operator's adapter raises, it has told nothing)
        return DontKnow(detail=f"the look failed: {type(error).__name__}")


def _told(answer: Present | DontKnow) -> tuple[str, str, bool | None] | DontKnow:
    """The state and the facts as JSON text, and whether the condition holds."""
    if isinstance(answer, DontKnow):
        return answer
    try:
        state = orjson.dumps({"there": answer.there, "instead": answer.instead})
        facts = orjson.dumps(dict(answer.facts))
    except TypeError:  # not JSON after all: a lone surrogate, a number that is none
        return DontKnow(detail="what is there can't be told as JSON")
    if len(state) + len(facts) > MAX_STATE_BYTES:
        return DontKnow(
            detail=f"what is there is too large to be shown: {len(state) + len(facts)} bytes"
        )
    return state.decode(), facts.decode(), answer.condition_holds


def _looked(told: tuple[str, str, bool | None] | DontKnow, *, milliseconds: int) -> Looked:
    if isinstance(told, DontKnow):
        detail = plain_text(told.detail)
        digest = digests.sha256(detail.encode())
        detail = detail[:MAX_TOLD_CHARS]
        return Looked(DONT_KNOW, None, "{}", None, detail, milliseconds, digest)
    state, facts, holds = told
    digest = digests.sha256(f"{state}\n{facts}".encode())
    return Looked(THERE, state, facts, holds, "", milliseconds, digest)


@in_transaction
def _keep(effect_id: str, looked: Looked, actor: Actor) -> Refusal | None:
    hearing = open_effect(effect_id, Point.RECONCILE, actor=actor)
    if hearing is None:
        return not_found("effect")
    told: dict[str, Any] = {
        "present_state": looked.state,
        "facts": looked.facts,
        "condition_holds": looked.condition_holds,
        "detail": looked.detail,
        "milliseconds": looked.milliseconds,
        "digest": looked.digest,
        "counted": False,
    }
    hearing.tell(
        EventKind.EVIDENCE_RECORDED,
        said=looked.said,
        how=PRESENT,
        milliseconds=looked.milliseconds,
        digest=looked.digest,
    )
    newest = hearing.slot.newest
    kept = evidence.keep(
        effect_id=effect_id,
        dispatch_id=newest.dispatch_id if newest else None,
        kind=PRESENT,
        said=looked.said,
        actor=actor,
        at=hearing.clock,
        detail=told,
    )
    hearing.write(kept)
    return None
