"""A rollout in words: stages, verdicts, the gate's criteria, and the matrix of both sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.charts import Chart, draw_spark
from console.filters import query_string
from coordinator.selectors.numbers import Point
from coordinator.selectors.promotion import Criterion
from coordinator.selectors.shadow import MismatchClass, ShadowSummary
from coordinator.shadow.words import RoundVerdict, Triage, Winner
from coordinator.states import RolloutStage

STAGES: Final[dict[str, Promise]] = {
    RolloutStage.SHADOW: gettext_lazy(
        "The legacy scheduler decides; claim.v1 judges beside it and sends nothing."
    ),
    RolloutStage.IDEMPOTENT_READS: gettext_lazy("claim.v1 decides for READ_ONLY tasks."),
    RolloutStage.CONDITIONAL_WRITES: gettext_lazy("claim.v1 decides for all tasks."),
}
VERDICTS: Final[dict[str, Promise]] = {
    RoundVerdict.AGREE: gettext_lazy("Both sides ended it alike."),
    RoundVerdict.DOUBLE_CLAIM: gettext_lazy("Legacy handed it out while a lease was live."),
    RoundVerdict.LATE_COMMIT: gettext_lazy("Legacy took the result of an owner that was replaced."),
    RoundVerdict.WINNER_DIFFERS: gettext_lazy("Both finished it, by another owner or result."),
    RoundVerdict.CANCEL_IGNORED: gettext_lazy("Legacy went on after the cancel."),
    RoundVerdict.STALE_INPUT: gettext_lazy("Legacy took a result of another input."),
    RoundVerdict.LOST: gettext_lazy("One side finished it, the other never."),
}
DRILL: Final = "fence_drill"
CRITERIA: Final[dict[str, Promise]] = {
    "settled_rounds": gettext_lazy("Enough rounds settled in this stage"),
    "unexplained_mismatches": gettext_lazy("No unexplained mismatch"),
    "coverage": gettext_lazy("Fencing coverage of the last hour, in percent"),
    DRILL: gettext_lazy("A fence drill passed within the hour"),
}
TRIAGES: Final[dict[str, Promise]] = {
    Triage.BUG: gettext_lazy("A fault of the legacy scheduler, which claim.v1 mends."),
    Triage.EXPECTED: gettext_lazy("Both are right; they differ on purpose."),
    Triage.NOISE: gettext_lazy("The feed lost or mangled something."),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Rounds that ended so on either side; `agrees` on the diagonal."""

    rounds: int
    url: str
    agrees: bool


@dataclass(frozen=True, slots=True)
class Check:
    """A criterion of the gate with its words and the console's page for it; `at` where an instant is its value."""

    criterion: Criterion
    name: str
    url: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ShownClass:
    found: MismatchClass
    told: str
    trend: Chart
    url: str


def matrix_of(summary: ShadowSummary) -> list[tuple[str, list[Cell]]]:
    """Rows are legacy's ends, columns claim.v1's, in the same order."""
    counts = {(cell.legacy, cell.claim_v1): cell.rounds for cell in summary.matrix}
    rounds = reverse("console:shadow-rounds", args=[summary.queue])
    return [
        (
            str(legacy),
            [
                Cell(
                    counts.get((legacy, claim), 0),
                    rounds + query_string({"legacy": legacy, "claim": claim}),
                    legacy == claim,
                )
                for claim in Winner
            ],
        )
        for legacy in Winner
    ]


def classes_of(summary: ShadowSummary) -> list[ShownClass]:
    rounds = reverse("console:shadow-rounds", args=[summary.queue])
    buckets = max((len(each.trend) for each in summary.classes), default=1)
    step = timedelta(hours=summary.window_hours) / max(1, buckets)
    return [
        ShownClass(
            found=each,
            told=str(VERDICTS.get(each.verdict, each.verdict)),
            trend=draw_spark(
                [
                    Point(summary.computed_at + place * step, float(count), count)
                    for place, count in enumerate(each.trend)
                ]
            ),
            url=rounds + query_string({"verdict": each.verdict}),
        )
        for each in summary.classes
    ]


def checks_of(queue: str, criteria: Sequence[Criterion]) -> list[Check]:
    rounds = reverse("console:shadow-rounds", args=[queue])
    pages = {
        "settled_rounds": rounds,
        "unexplained_mismatches": f"{rounds}?explained=no",
        "coverage": reverse("console:figure", args=["coverage"]),
    }
    return [
        Check(
            each,
            str(CRITERIA.get(each.name, each.name)),
            pages.get(each.name, reverse("console:numbers")),
            _instant_of(each.name, each.value),
        )
        for each in criteria
    ]


@dataclass(frozen=True, slots=True)
class Figure:
    """A criterion as it was when somebody asked, beside how it stands now; `_at` where an instant is its value."""

    name: str
    url: str
    then: object
    needed: object
    now: Criterion | None
    then_at: datetime | None = None
    now_at: datetime | None = None

    @property
    def has_moved(self) -> bool:
        return self.now is None or self.now.value != self.then


def figures_of(
    queue: str, evidence: Mapping[str, Any], criteria: Sequence[Criterion]
) -> list[Figure]:
    """What a request for a promotion is based on, criterion by criterion."""
    checks = {check.criterion.name: check for check in checks_of(queue, criteria)}
    return [
        Figure(
            name=str(CRITERIA.get(each["name"], each["name"])),
            url=checks[each["name"]].url if each["name"] in checks else "",
            then=each["value"],
            needed=_("within the hour") if each["name"] == DRILL else each["threshold"],
            now=checks[each["name"]].criterion if each["name"] in checks else None,
            then_at=_instant_of(each["name"], each["value"]),
            now_at=checks[each["name"]].at if each["name"] in checks else None,
        )
        for each in evidence["criteria"]
    ]


def _instant_of(criterion: str, value: object) -> datetime | None:
    """When the drill passed: the one criterion whose value is an instant."""
    return datetime.fromisoformat(str(value)) if criterion == DRILL and value else None


def phrase_of(queue: str, stage: str) -> str:
    """What has to be typed before a promotion: the object and what it becomes."""
    return f"{queue} {stage}"
