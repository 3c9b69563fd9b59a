"""`/numbers`: the nine figures, each with its definition, threshold, course and the same hours of last week."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from console.charts import draw_chart
from console.figures import RANGES, in_unit, show_card
from console.filters import MAX_TEXT
from console.pages import page, refuse, shell_of, show
from coordinator.selectors.drills import read_drills
from coordinator.selectors.figures import Figure, Unit
from coordinator.selectors.markers import read_markers, read_refusal_counts
from coordinator.selectors.numbers import read_numbers

EVERY_SECONDS = 30
REFUSALS_SHOWN = 12


@page()
def numbers(request: HttpRequest) -> HttpResponse:
    hours, queue = _asked(request)
    found = read_numbers(queue=queue or None, hours=hours)
    context = {
        **_common(request, hours, queue),
        "numbers": found,
        "cards": [show_card(card, queue=queue) for card in found.cards],
        "drills": read_drills(),
        "refusals": read_refusal_counts(queue=queue or None, hours=hours)[:REFUSALS_SHOWN],
    }
    return show(request, "console/numbers.html", context, every_seconds=EVERY_SECONDS)


@page()
def figure(request: HttpRequest, name: str) -> HttpResponse:
    if name not in set(Figure):
        return refuse(request, 404, {"what": name})
    hours, queue = _asked(request)
    found = read_numbers(queue=queue or None, hours=hours)
    card = next(each for each in found.cards if each.figure == name)
    markers = read_markers(since=found.since, queue=queue or None)
    of_time = card.unit is Unit.SECONDS
    drawn = draw_chart(card.points, card.slo, markers, of_time=of_time)
    chart = drawn if card.points else None
    context = {
        **_common(request, hours, queue),
        "numbers": found,
        "shown": show_card(card, queue=queue),
        "chart": chart,
        "levels": [(y, in_unit(value, card.unit)) for y, value in (chart.levels if chart else ())],
        "markers": markers,
        "points": [
            (point.at, in_unit(point.value, card.unit), point.measured)
            for point in reversed(card.points)
        ],
        "spans_days": hours > 24,
    }
    return show(request, "console/figure.html", context, every_seconds=EVERY_SECONDS)


def _asked(request: HttpRequest) -> tuple[int, str]:
    """The range and the queue of the address; anything else is the last hour, of all."""
    text = request.GET.get("hours", "")
    hours = int(text) if text.isascii() and text.isdigit() and int(text[:4]) in RANGES else 1
    return hours, request.GET.get("queue", "").replace("\x00", "")[:MAX_TEXT]


def _common(request: HttpRequest, hours: int, queue: str) -> dict[str, Any]:
    known = queue if queue in shell_of(request).queue_names else ""
    return {"hours": hours, "ranges": RANGES, "queue": known, "typed": _typed(hours, queue)}


def _typed(hours: int, queue: str) -> dict[str, str]:
    return {"hours": str(hours) if hours != RANGES[0] else "", "queue": queue}
