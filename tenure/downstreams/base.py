"""What every downstream's adapter is: one transmission, one look-up, and an honest word about both (contract 8).

An adapter sends what the coordinator has accepted, once. It never repeats by itself, and it never guesses: what it
does not know it calls Unknown, and the coordinator's rules decide what may follow.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias

from tenure.records import Json


class Guarantee(StrEnum):
    """What a second arrival of the same call does (contract 8)."""

    CONDITIONAL_WRITE = "CONDITIONAL_WRITE"  # is refused by the condition
    IDEMPOTENT_KEY = "IDEMPOTENT_KEY"  # returns the first result, while the key is remembered
    RESERVATION = "RESERVATION"  # is refused: one confirmation per name, ever
    GATED = "GATED"  # is refused by the gate before the tool acts
    QUERY_ONLY = "QUERY_ONLY"  # acts again, but one can ask first
    NONE = "NONE"  # acts again, and nobody can be asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What an effect is bound to for ever; enough to look it up."""

    effect_id: str
    payload: Json
    payload_digest: str
    condition: Json = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Bound):
    """One accepted transmission: the permission for it is durable already, and good for this one alone."""

    dispatch_id: str
    #: The effect's id: the same for every dispatch of the effect.
    idempotency_key: str
    #: Grows with every dispatch; comparable within one task. Stops stale overwrites, never duplicates.
    fencing_token: str
    #: An instant of `time.monotonic()`, counted from before the acceptance was asked for.
    deadline: float
    #: The same instant by the coordinator's clock, for receivers that refuse late calls.
    deadline_at: datetime

    def remaining(self) -> float:
        """Seconds until the deadline; negative once it has passed."""
        return self.deadline - time.monotonic()


@dataclass(frozen=True, kw_only=True, slots=True)
class Happened:
    """It happened; the receipt is what the downstream gave to prove it."""

    receipt: Json
    etag: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """It did not happen and this call can never make it happen.

    Either the downstream said that it did *not* do it, or not one byte of the call left us (`sent` is False).
    """

    detail: str
    sent: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """A timeout, a broken connection, a 5xx, a lost answer, a false condition: nobody knows."""

    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Absent:
    """Asked by the exact key, the downstream says that it is not there. A call may still be on its way."""

    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DontKnow:
    """The look-up failed, or what is there tells nothing. It settles nothing."""

    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Present:
    """What is there now where an effect would write, beside what it would put there, both in the payload's own form.

    The form is the payload's so that what is masked in the one is masked in the other. `there` is None where nothing
    is. `condition_holds` is None where the effect has no condition that could tell.
    """

    there: Json
    instead: Json
    facts: Mapping[str, Json]
    condition_holds: bool | None = None


Sent: TypeAlias = Happened | Refused | Unknown
Found: TypeAlias = Happened | Absent | DontKnow


class Adapter(ABC):
    """One downstream, as workers send to it. Adapters are shared between threads and hold no state of a call."""

    #: As registered with the coordinator.
    kind: ClassVar[str]
    #: What this adapter can't promise, in a sentence or two, for people who register it.
    limits: ClassVar[str]
    #: Whether `look_up` can ever answer anything but DontKnow.
    can_be_asked: bool = True
    #: Whether `present` can ever answer anything but DontKnow.
    can_present: bool = False

    def __init__(self, guarantee: Guarantee) -> None:
        self.guarantee = guarantee

    def check(self, payload: Json, condition: Json) -> None:  # noqa: B027 - every payload is fine, unless said otherwise
        """Raise NotEncodable, naming the field, for what can't be sent: before anything is bound to it."""

    @abstractmethod
    def send(self, call: Call) -> Sent:
        """Transmit once, within the deadline. A call whose deadline has passed is not sent."""

    def look_up(self, effect: Bound, *, deadline: float) -> Found:  # noqa: ARG002 - for those who can be asked
        """Ask whether it happened, by the exact effect_id. Sends nothing that could act."""
        return DontKnow(detail=f"{self.kind} can't be asked")

    def present(self, effect: Bound, *, deadline: float) -> Present | DontKnow:  # noqa: ARG002 - as above
        """Tell what is there now, before it is sent, for whoever approves it. Reads alone; proves nothing."""
        return DontKnow(detail=f"{self.kind} can't tell what is there")


def overdue(call: Call) -> Refused | None:
    """The answer to a call that may not start any more; None while it may."""
    if call.remaining() > 0:
        return None
    return Refused(detail="not sent: its deadline had passed before it could start", sent=False)


def receipt_about(call: Bound, **facts: Json) -> Mapping[str, Json]:
    """A receipt of our own making, where the downstream gives none that names the effect."""
    return {"effect_id": call.effect_id, **facts}
