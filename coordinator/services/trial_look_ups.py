"""Trying a downstream's adapter: it is asked about the newest effect that went there. Nothing is settled by it."""

import time
from dataclasses import dataclass
from typing import Final

import orjson

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.rounds import name_point, run_round
from coordinator.selectors.console_downstreams import LastSent, read_last_sent
from coordinator.selectors.downstreams import find_downstream
from tenure.downstreams.base import Adapter, Bound, DontKnow, Found

from .events import EventKind, Fact, record
from .heard import ABSENT, hear
from .transactions import in_transaction

ASK_SECONDS: Final = 10.0
MAX_TOLD_CHARS: Final = 2_000
#: How a trial names what is not there.
_ABSENT: Final = "ABSENT"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the downstream said. `fits`: whether that is what the ledger knows; None where it can't be compared."""

    effect_id: str
    effect_state: str
    said: str
    detail: str
    milliseconds: int
    fits: bool | None


def try_look_up(*, downstream: str, adapter: Adapter, actor: Actor) -> Asked | Refusal:
    """Ask about the newest effect that went to `downstream`, within ASK_SECONDS. On record as an event.

    No transaction is open meanwhile. Refused: NOT_FOUND, and NOT_CLAIMABLE where nothing was sent
    there lately that could be asked about.
    """
    if find_downstream(downstream) is None:
        return not_found("downstream")
    last = read_last_sent(downstream)
    if last is None:
        told = "Nothing has been sent there lately: there is nothing to ask about."
        return Refusal(Outcome.NOT_CLAIMABLE, told)
    begun = time.monotonic()
    said, detail = _said(_look(adapter, last))
    taken = round((time.monotonic() - begun) * 1000)
    asked = Asked(last.effect_id, last.state, said, detail, taken, _fits(last.state, said))
    _tell(downstream, asked, actor)
    return asked


def _look(adapter: Adapter, last: LastSent) -> Found:
    bound = Bound(
        effect_id=last.effect_id,
        payload=orjson.loads(last.payload),
        payload_digest=last.payload_digest,
        condition=None if last.condition is None else orjson.loads(last.condition),
    )
    try:
        return adapter.look_up(bound, deadline=time.monotonic() + ASK_SECONDS)
    except Exception as error:  # noqa: BLE001 (whatever an operator's adapter raises, it has told nothing)
        return DontKnow(detail=f"the look-up failed: {type(error).__name__}")


def _said(found: Found) -> tuple[str, str]:
    heard = hear(found)
    said = _ABSENT if heard.said == ABSENT else heard.said
    text = heard.detail if heard.receipt is None else orjson.dumps(heard.receipt).decode()
    return said, text[:MAX_TOLD_CHARS]


def _fits(state: str, said: str) -> bool | None:
    """A committed effect has to be there. Of the others either answer may be true."""
    if said == "DONT_KNOW":
        return False
    return said == "HAPPENED" if state == "COMMITTED" else None


@in_transaction
def _tell(downstream: str, asked: Asked, actor: Actor) -> None:
    _, clock = run_round(name_point("administer"), CLOCK)
    told = {
        "name": downstream,
        "effect_id": asked.effect_id,
        "said": asked.said,
        "milliseconds": asked.milliseconds,
    }
    fact = Fact(EventKind.DOWNSTREAM_ASKED, data=told)
    run_round(record([fact], actor=actor, at=clock_of(clock)))
