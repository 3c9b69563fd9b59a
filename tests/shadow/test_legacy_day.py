"""A day of legacy traffic: every planted fault is found and named, and none that was not planted (contract 13)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from coordinator.actors import system
from coordinator.models import ShadowEvent, ShadowRound, ShadowSource
from coordinator.selectors.shadow import read_shadow
from coordinator.services.shadow_events import MAX_EVENTS, ShadowReceived
from coordinator.services.shadow_verdicts import settle_rounds
from coordinator.shadow.rounds import play_rounds
from coordinator.shadow.words import MISMATCHES, LegacyEvent, RoundVerdict
from tests import world

from . import feeds
from .legacy_day import Day, legacy_day, wrong
from .stories import POLICY

EVENTS = 100_000


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_day_of_100_000_events_is_judged_without_a_miss_or_a_false_alarm() -> None:
    world.queue(rollout_stage="SHADOW")
    by = feeds.feeder()
    day = legacy_day(EVENTS, ends_at=timezone.now() - timedelta(days=2), seed=13)
    assert min(day.planted[verdict] for verdict in RoundVerdict) > 50
    duplicates = 0
    for start in range(0, len(day.events), MAX_EVENTS):
        answer = feeds.send(day.events[start : start + MAX_EVENTS], by=by)
        assert isinstance(answer, ShadowReceived), answer
        assert (answer.refused, answer.too_late, answer.conflicting) == (0, 0, 0)
        duplicates += answer.duplicate
    assert duplicates > EVENTS // 50
    assert ShadowEvent.objects.count() == len(day.events) - duplicates >= EVENTS
    feeds.let_windows_pass()
    while settle_rounds(actor=system("shadow")):
        pass
    rounds = ShadowRound.objects.values_list("task_key", "verdict", "number")
    found = {key: verdict for key, verdict, _ in rounds}
    assert wrong(day, found) == {}
    assert {number for *_, number in rounds} == {1}
    summary = read_shadow(queue="q")
    assert summary is not None
    assert summary.sample == len(day.expected)
    assert {one.verdict: one.rounds for one in summary.classes} == {
        verdict: day.planted[verdict] for verdict in MISMATCHES
    }
    assert sum(cell.rounds for cell in summary.matrix) == summary.sample
    assert sum(source.duplicates for source in ShadowSource.objects.all()) == duplicates


@pytest.mark.parametrize("seed", range(5))
def test_the_pure_judge_finds_what_was_planted_in_any_day(seed: int) -> None:
    day = legacy_day(5_000, ends_at=timezone.now(), seed=seed)
    assert wrong(day, verdicts_of(day)) == {}


def verdicts_of(day: Day) -> dict[str, str | None]:
    """Judged by itself, from what arrived, each event once."""
    by_key: dict[str, dict[str, LegacyEvent]] = {}
    for told in day.events:
        by_key.setdefault(told.task_key, {})[told.event.event_id] = told.event
    found: dict[str, str | None] = {}
    for key, events in by_key.items():
        (one,) = play_rounds(events.values(), POLICY)
        found[key] = one.play.verdict
    return found
