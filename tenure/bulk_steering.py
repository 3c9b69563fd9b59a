"""Many tasks at once, and one that is held back, as people and their automation steer them.

A set is frozen by a review, started by the same person, worked through in the background, and told task by task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tenure.calling import Calling, segment
from tenure.decoding import decode
from tenure.records import Json
from tenure.retrying import Repeat

Verb = Literal["cancel", "reopen", "snooze", "wake"]


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """A bulk job: REVIEWED, RUNNING, DONE or STOPPED. `outcomes` counts what had its turn, `waiting` the rest."""

    bulk_id: str
    verb: str
    state: str
    total: int
    waiting: int
    outcomes: Mapping[str, int]
    more: bool
    operator: str
    reviewed_at: datetime
    asked: str = ""
    reason: str | None = None
    not_before: datetime | None = None
    undoes: str | None = None
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class BulkItem:
    """One task of a job, as it stood at the review, and what came of it; None until its turn."""

    task_id: str
    node_id: str
    queue: str
    seen_state: str
    seen_version: int
    outcome: str | None = None
    detail: str = ""
    done_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class BulkStarted:
    """The receipt; `replayed` where it had been started before."""

    bulk_id: str
    started_at: datetime
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class BulkStopped:
    """How many tasks had not had their turn and are left alone."""

    bulk_id: str
    left: int


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A task that was snoozed or woken: it waits until `not_before`, or for no time. `was` is what it waited for."""

    task_id: str
    state: str
    state_version: int
    outcome: str
    not_before: datetime | None = None
    was: datetime | None = None


class BulkSteering(Calling):
    """What `Client` can do to many tasks, and about the time that one waits for."""

    def bulks(self) -> Iterator[Bulk]:
        """Bulk jobs, newest first."""
        return self._pages("bulk", {}, Bulk)

    def bulk(self, bulk_id: str) -> Bulk:
        """How far a job is."""
        return decode(Bulk, self._get(f"bulk/{segment(bulk_id)}").body)

    def bulk_items(self, bulk_id: str, *, outcome: str | None = None) -> Iterator[BulkItem]:
        """The job's tasks; `outcome` such as CHANGED, or empty for those that wait."""
        filters = {} if outcome is None else {"outcome": outcome}
        return self._pages(f"bulk/{segment(bulk_id)}/items", filters, BulkItem)

    def review_bulk(
        self,
        verb: Verb,
        *,
        task_ids: Sequence[str] | None = None,
        filter: Mapping[str, Json] | None = None,  # noqa: A002 - the API's word
    ) -> Bulk:
        """Freeze these tasks, or the newest that a filter finds. Nothing is done to them yet.

        A repeat freezes another set of the same; what is not started does nothing.
        """
        body: dict[str, Json] = {"verb": verb}
        if task_ids is not None:
            body["task_ids"] = list(task_ids)
        if filter is not None:
            body["filter"] = dict(filter)
        return decode(Bulk, self._post("bulk", body).body)

    def start_bulk(
        self, bulk_id: str, *, reason: str, not_before: datetime | None = None
    ) -> BulkStarted:
        """Start what the same person reviewed; a snooze needs its time. A repeat gets the same receipt."""
        body: dict[str, Json] = {"reason": reason}
        if not_before is not None:
            body["not_before"] = not_before.isoformat()
        return decode(BulkStarted, self._post(f"bulk/{segment(bulk_id)}/start", body).body)

    def stop_bulk(self, bulk_id: str, *, reason: str) -> BulkStopped:
        """Leave what has not had its turn alone. Refused once it is over; look before you repeat it."""
        answer = self._post(
            f"bulk/{segment(bulk_id)}/stop", {"reason": reason}, repeat=Repeat.NEVER
        )
        return decode(BulkStopped, answer.body)

    def undo_bulk(self, bulk_id: str) -> BulkStarted:
        """Take a snooze back as a whole, by a job of its own. A repeat gets the same receipt."""
        return decode(BulkStarted, self._post(f"bulk/{segment(bulk_id)}/undo", {}).body)

    def snooze(
        self, task_id: str, *, not_before: datetime, reason: str, expected_state_version: int
    ) -> Waiting:
        """Hold a READY or BLOCKED task back until a time.

        Not repeated when its answer is lost: the repeat would be refused for the version that the first one raised.
        """
        body: dict[str, Json] = {
            "not_before": not_before.isoformat(),
            "reason": reason,
            "expected_state_version": expected_state_version,
        }
        answer = self._post(f"tasks/{segment(task_id)}/snooze", body, repeat=Repeat.NEVER)
        return decode(Waiting, answer.body)

    def wake(self, task_id: str, *, reason: str, expected_state_version: int) -> Waiting:
        """Let a task go at once that waits for a time. Not repeated, as `snooze`."""
        body: dict[str, Json] = {
            "reason": reason,
            "expected_state_version": expected_state_version,
        }
        answer = self._post(f"tasks/{segment(task_id)}/wake", body, repeat=Repeat.NEVER)
        return decode(Waiting, answer.body)
