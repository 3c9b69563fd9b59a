"""A legacy feed for tests: stories sent through the service, and rows moved in time so that they settle."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from coordinator.actors import Worker, system
from coordinator.models import ShadowRound
from coordinator.outcomes import Refusal
from coordinator.services.shadow_events import ShadowReceived, Told, take_events
from coordinator.services.shadow_verdicts import settle_rounds
from coordinator.shadow.words import LegacyEvent
from tests import world

from .stories import START, story

#: Long enough ago that every window of a story has passed by the legacy clock.
LONG_AGO = timedelta(days=30)


def feeder(*queues: str) -> Worker:
    return world.worker(name="feed", queues=queues or ("q",), scopes=("shadow",))


def moved(event: LegacyEvent, *, ago: timedelta = LONG_AGO) -> LegacyEvent:
    """The event as many seconds after `ago` as it was after the story's start."""
    return event._replace(at=timezone.now() - ago + (event.at - START))


def tell(*lines: str, key: str = "task", ago: timedelta = LONG_AGO, **asked: Any) -> ShadowReceived:
    """Send a story of one task, its ids made of the key."""
    answer = try_tell(*lines, key=key, ago=ago, **asked)
    assert isinstance(answer, ShadowReceived), answer
    return answer


def try_tell(
    *lines: str,
    by: Worker,
    key: str = "task",
    ago: timedelta = LONG_AGO,
    source: str = "legacy",
    prefix: str = "",
    queue: str = "q",
    lost: int = 0,
) -> ShadowReceived | Refusal:
    events = [moved(event, ago=ago) for event in story(*lines)]
    named = [event._replace(event_id=f"{prefix}{key}-{event.event_id}") for event in events]
    return send([Told(source, key, event) for event in named], by=by, queue=queue, lost=lost)


def send(
    told: Sequence[Told], *, by: Worker, queue: str = "q", lost: int = 0
) -> ShadowReceived | Refusal:
    return take_events(queue=queue, events=told, worker=by, lost=lost)


def let_windows_pass() -> None:
    """By the database's clock, every open round has waited long enough."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_shadowround SET check_at = clock_timestamp() - interval '1 second'"
            " WHERE verdict IS NULL"
        )


def settle() -> int:
    let_windows_pass()
    return settle_rounds(actor=system("shadow"))


def verdicts() -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for row in ShadowRound.objects.order_by("task_key", "number"):
        found.setdefault(row.task_key, []).append(row.verdict)
    return found
