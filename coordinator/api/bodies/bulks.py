"""Bulk jobs: what is reviewed, and what starts or stops it; and one task that is held back (console design, 3.4)."""

from datetime import timedelta
from typing import Annotated, Final
from urllib.parse import urlencode
from uuid import UUID

from pydantic import Field

from coordinator.selectors.task_filters import TaskFilter
from coordinator.services.bulks import MAX_TASKS, Verb
from coordinator.states import TaskState

from .fields import Body, Counter, Instant, LaneWord, Name, Reason, StateVersion

MAX_AGE_SECONDS: Final = 10 * 366 * 86_400
Age = Annotated[int, Field(ge=0, le=MAX_AGE_SECONDS)]


class BulkFilter(Body):
    """As the console's query: all that is given has to fit. `node_id` is how the name begins, `text` a part of it."""

    state: Annotated[TaskState, Field(strict=False)] | None = None
    queue: LaneWord | None = None
    kind: Name | None = None
    owner: Name | None = None
    node_id: Name | None = None
    run_id: UUID | None = None
    text: Name | None = None
    attempts_over: Annotated[int, Field(ge=0, le=999_999)] | None = None
    epoch: Counter | None = None
    older_than_seconds: Age | None = None
    younger_than_seconds: Age | None = None

    def wanted(self) -> TaskFilter:
        older, younger = self.older_than_seconds, self.younger_than_seconds
        return TaskFilter(
            state=self.state,
            queue=self.queue or "",
            kind=self.kind or "",
            owner=self.owner or "",
            node=self.node_id or "",
            run_id=self.run_id,
            text=self.text or "",
            attempts_over=self.attempts_over,
            epochs=None if self.epoch is None else (self.epoch, self.epoch),
            older_than=None if older is None else timedelta(seconds=older),
            younger_than=None if younger is None else timedelta(seconds=younger),
        )

    def asked(self) -> str:
        """The filter as it stands with the job, for whoever reads it later; it decides nothing any more."""
        given = self.model_dump(mode="json", exclude_none=True)
        return f"?{urlencode(given)}" if given else "?"


class BulkBody(Body):
    """Either `task_ids`, or a `filter`: exactly one of the two."""

    verb: Annotated[Verb, Field(strict=False)]
    task_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_TASKS)] | None = None
    filter: BulkFilter | None = None


class BulkStartBody(Body):
    reason: Reason
    not_before: Instant | None = None


class BulkStopBody(Body):
    reason: Reason


class SnoozeBody(Body):
    expected_state_version: StateVersion
    not_before: Instant
    reason: Reason
