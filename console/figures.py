"""The nine figures in words: what each is, how it is read, and where its rows are."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.charts import Chart, draw_spark
from console.times import duration_text
from coordinator.selectors.figures import Figure, State, Unit
from coordinator.selectors.numbers import Card

RANGES: Final = (1, 6, 24, 168)
_F = Figure
NAMES: Final[dict[Figure, Promise]] = {
    _F.CLAIM_CONTENTION: gettext_lazy("Claim contention"),
    _F.RECLAIM_LATENCY: gettext_lazy("Reclaim latency"),
    _F.RENEW_FAILURES: gettext_lazy("Renew failures"),
    _F.FENCED_COMMITS: gettext_lazy("Fenced commits"),
    _F.TASK_ATTEMPTS: gettext_lazy("Attempts per task"),
    _F.UNKNOWN_EFFECTS: gettext_lazy("UNKNOWN effects"),
    _F.ABANDONED_COST: gettext_lazy("Abandoned cost"),
    _F.READY_TO_COMMIT: gettext_lazy("READY to commit"),
    _F.COVERAGE: gettext_lazy("Fencing coverage"),
}
TOLD: Final[dict[Figure, Promise]] = {
    _F.CLAIM_CONTENTION: gettext_lazy(
        "How often a claim by id came too late: another worker had got the task."
    ),
    _F.RECLAIM_LATENCY: gettext_lazy("How long a task lay idle after its worker was lost."),
    _F.RENEW_FAILURES: gettext_lazy("How often a worker was refused when it asked for more time."),
    _F.FENCED_COMMITS: gettext_lazy(
        "Results of workers that had been replaced, kept out by their fence."
    ),
    _F.TASK_ATTEMPTS: gettext_lazy("How many grants a committed task took, on average."),
    _F.UNKNOWN_EFFECTS: gettext_lazy(
        "Effects that nobody knows the outcome of; their tasks can't commit."
    ),
    _F.ABANDONED_COST: gettext_lazy("What was paid for work that came to nothing."),
    _F.READY_TO_COMMIT: gettext_lazy("How long a task takes once it may run."),
    _F.COVERAGE: gettext_lazy(
        "Which share of the writes at acceptance points had passed the guard."
    ),
}
FORMULAS: Final[dict[Figure, Promise]] = {
    _F.CLAIM_CONTENTION: gettext_lazy(
        "claims that found the task taken ÷ (tasks granted + those claims)"
    ),
    _F.RECLAIM_LATENCY: gettext_lazy(
        "p95 of the time from the lapse of a lease to the grant that took it over"
    ),
    _F.RENEW_FAILURES: gettext_lazy(
        "refused renewals ÷ (renewals of attempts that ended + refused ones)"
    ),
    _F.FENCED_COMMITS: gettext_lazy("commits refused as FENCED, repeats counted"),
    _F.TASK_ATTEMPTS: gettext_lazy("grants of the committed tasks ÷ committed tasks"),
    _F.UNKNOWN_EFFECTS: gettext_lazy("effects in state UNKNOWN, as sampled each minute"),
    _F.ABANDONED_COST: gettext_lazy(
        "cost of attempts that ended without a commit, what late calls reported included"
    ),
    _F.READY_TO_COMMIT: gettext_lazy("p95 of the time from READY to the canonical commit"),
    _F.COVERAGE: gettext_lazy(
        "rows written after the guard's check ÷ rows that the database counted"
    ),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A card with its words. `tone` and `icon` go with the state's word."""

    card: Card
    name: str
    told: str
    formula: str
    value: str
    delta: str
    goal: str
    word: str
    tone: str
    icon: str
    spark: Chart
    rows_url: str


def show_card(card: Card, *, queue: str = "") -> Shown:
    word, tone, icon = _state(card)
    figure = card.figure
    return Shown(
        card=card,
        name=str(NAMES[figure]),
        told=str(TOLD[figure]),
        formula=str(FORMULAS[figure]),
        value=in_unit(card.value, card.unit, whole=figure is Figure.COVERAGE),
        delta=_delta(card),
        goal=("≤ " if card.slo.at_most else "≥ ") + in_unit(card.slo.goal, card.unit),
        word=word,
        tone=tone,
        icon=icon,
        spark=draw_spark(card.points),
        rows_url=_rows(figure, queue),
    )


def in_unit(value: float | None, unit: Unit, *, whole: bool = False) -> str:
    """`whole`: a ratio just below one is never rounded up to it."""
    if value is None:
        return "—"
    match unit:
        case Unit.RATIO:
            percent = min(value * 100, 99.99) if whole and value < 1 else value * 100
            return f"{percent:.2f}".rstrip("0").rstrip(".") + " %"
        case Unit.SECONDS:
            return duration_text(value)
        case Unit.USD:
            return f"${value:,.2f}"
        case Unit.COUNT:
            return f"{value:,.2f}".rstrip("0").rstrip(".").replace(",", "\u202f")


def _delta(card: Card) -> str:
    """Against the same hours of last week; empty where there is nothing to compare with."""
    if card.delta is None:
        return ""
    if abs(card.delta) < 1e-9:
        return _("as last week")
    sign = "+" if card.delta > 0 else "\N{MINUS SIGN}"
    return _("%(change)s vs. last week") % {"change": sign + in_unit(abs(card.delta), card.unit)}


def _state(card: Card) -> tuple[str, str, str]:
    match card.state:
        case State.OK:
            return _("in order"), "commit", "circle-check"
        case State.WARN:
            return _("over the goal"), "unknown", "triangle-alert"
        case State.BAD:
            return _("needs a look"), "failed", "circle-x"
        case State.NONE:
            return _("nothing measured"), "expired", "circle-dashed"
        case State.FEW:
            told = _("too few to tell (%(n)d)") % {"n": card.measured}
            return told, "expired", "circle-dashed"
        case State.STALE:
            return _("stale"), "unknown", "hourglass"


def _rows(figure: Figure, queue: str) -> str:
    """Where what it counts is listed."""
    of_queue = f"&queue={quote(queue)}" if queue else ""
    match figure:
        case Figure.FENCED_COMMITS | Figure.RENEW_FAILURES | Figure.CLAIM_CONTENTION:
            return f"{reverse('console:audit')}?refused=only{of_queue}"
        case Figure.UNKNOWN_EFFECTS:
            return reverse("console:effects-unknown") + of_queue.replace("&", "?")
        case Figure.COVERAGE:
            return reverse("console:figure", args=[Figure.COVERAGE])
        case Figure.ABANDONED_COST | Figure.RECLAIM_LATENCY:
            return f"{reverse('console:audit')}?kind=EXPIRED{of_queue}"
        case _:
            return f"{reverse('console:tasks')}?state=COMMITTED{of_queue}"
