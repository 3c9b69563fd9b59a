"""Incidents, step by step (contract 12)."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from coordinator.intake_shares import WHOLE
from coordinator.services.incident_candidates import MAX_ATTEMPTS
from coordinator.services.incidents import MAX_QUEUES
from coordinator.states import CandidateRuling

from .fields import MAX_REASON_CHARS, Body, Counter, Reason, StateVersion, Word

#: The names of so many queues, and what stands between them.
MAX_CONFIRM_CHARS = MAX_QUEUES * 102
Confirm = Annotated[str, StringConstraints(max_length=MAX_CONFIRM_CHARS)]
MaybeReason = Annotated[str, StringConstraints(max_length=MAX_REASON_CHARS)]


class IncidentBody(Body):
    """Over one `queue`, several `queues`, or `all`: exactly one of the three."""

    queue: Word | None = None
    queues: Annotated[list[Word], Field(min_length=1, max_length=MAX_QUEUES)] | None = None
    all: bool = False
    reason: Reason

    @property
    def names_one_scope(self) -> bool:
        return (self.queue is not None) + (self.queues is not None) + self.all == 1

    @property
    def wanted(self) -> list[str] | None:
        """The queues, or None for all."""
        return self.queues if self.queue is None else [self.queue]


class StepBody(Body):
    """`expected_version`: the incident's version when the caller looked; left out, it is not compared."""

    expected_version: StateVersion | None = None


class BumpBody(StepBody):
    """`expected_epoch` for an incident of one queue, or `expected_epochs` of each queue by its name.

    `confirm`: the queue's name typed out; several in the order of their names, joined by ", "; or `all queues`.
    """

    expected_epoch: Counter | None = None
    expected_epochs: (
        Annotated[dict[Word, Counter], Field(min_length=1, max_length=MAX_QUEUES)] | None
    ) = None
    confirm: Confirm
    reason: MaybeReason = ""

    @property
    def expected(self) -> int | dict[str, int] | None:
        """What is expected, if exactly one of the two says it."""
        if self.expected_epochs is None:
            return self.expected_epoch
        return self.expected_epochs if self.expected_epoch is None else None


class CandidatesBody(StepBody):
    """`attempt_ids` left out: everything that is undecided."""

    decision: Annotated[CandidateRuling, Field(strict=False)]
    reason: Reason
    attempt_ids: (
        Annotated[
            list[Annotated[UUID, Field(strict=False)]],
            Field(min_length=1, max_length=MAX_ATTEMPTS),
        ]
        | None
    ) = None


class SwitchBody(StepBody):
    to_pool: Word
    reason: MaybeReason = ""


class ResumeBody(StepBody):
    """`percent` below 100 lets that part of the tasks in first, 0 none any more: the incident goes on.

    It needs `expected_version`. Left out, or 100, the whole intake is opened and the incident is over.
    """

    percent: Annotated[int, Field(ge=0, le=WHOLE)] = WHOLE
    reason: MaybeReason = ""


class AbortBody(StepBody):
    reason: Reason
