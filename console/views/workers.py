"""`/workers` and `/pools`: who is alive, what they hold, and who was fenced."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.filters import MAX_TEXT
from console.pages import page, shell_of, show
from coordinator.selectors import queues
from coordinator.selectors.console_workers import WorkerRow, read_pools, read_workers

#: Seen within this, a worker without a lease is taken to be waiting for work.
RECENT: Final = timedelta(minutes=5)
POOLS_OFFERED: Final = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker with the word for its state, told by what was last seen of it."""

    row: WorkerRow
    word: str
    tone: str
    icon: str


@page()
def worker_list(request: HttpRequest) -> HttpResponse:
    typed = {
        name: request.GET[name].replace("\x00", "")[:MAX_TEXT]
        for name in ("pool", "queue")
        if request.GET.get(name)
    }
    workers = read_workers(**typed)
    now = shell_of(request).now
    context = {
        "workers": workers,
        "listed": [_seen(row, now) for row in workers.rows],
        "pools": list(queues.all_pools().order_by("name")[:POOLS_OFFERED]),
        "typed": typed,
    }
    return show(request, "console/workers.html", context, every_seconds=10)


@page()
def pool_list(request: HttpRequest) -> HttpResponse:
    return show(request, "console/pools.html", {"pools": read_pools()}, every_seconds=10)


def _seen(row: WorkerRow, now: datetime) -> Seen:
    if row.leases > row.lapsed:
        return Seen(row, _("at work"), "leased", "circle-play")
    if row.lapsed:
        return Seen(row, _("silent"), "unknown", "timer-off")
    if row.seen_at > now - RECENT:
        return Seen(row, _("idle"), "expired", "circle")
    return Seen(row, _("not seen lately"), "expired", "circle-dashed")
