"""Why something waits, in words and with a link to what is in the way (contract 6)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import DateTimeField, Func


@dataclass(frozen=True, slots=True)
class Reason:
    """`code` is stable, `detail` is for people; `link` leads to what is in the way (an API path)."""

    code: str
    detail: str
    link: str | None = None


class ServerClock(Func):
    """The database's time, in a query of its own."""

    function = "clock_timestamp"
    output_field = DateTimeField()


def task_link(task_id: UUID) -> str:
    return f"/api/v1/tasks/{task_id}"


def instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
