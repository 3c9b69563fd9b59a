"""The figures for people: their values, courses, thresholds, and last week's."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from coordinator.models import Queue
from coordinator.selectors.figures import (
    DEFINITIONS,
    ENOUGH,
    Figure,
    Slo,
    State,
    Unit,
    percentile,
)
from coordinator.selectors.markers import MARKED, read_markers, read_refusal_counts
from coordinator.selectors.numbers import Card, Numbers, read_numbers
from coordinator.services.events import EventKind
from coordinator.services.roll_ups import roll_up
from coordinator.states import DispatchOutcome
from tests import world
from tests.effects import ledger
from tests.numbers import load

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


def card(numbers: Numbers, figure: Figure) -> Card:
    (found,) = (each for each in numbers.cards if each.figure is figure)
    return found


def execute(sql: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def test_there_are_nine_figures_each_with_a_definition_and_a_threshold() -> None:
    roll_up()
    numbers = read_numbers()
    assert [each.figure for each in numbers.cards] == list(Figure)
    assert len(numbers.cards) == 9
    assert all(each.told and each.formula and each.owner for each in numbers.cards)


def test_they_are_what_the_load_was() -> None:
    load.everything()
    roll_up()
    numbers = read_numbers()
    assert card(numbers, Figure.FENCED_COMMITS).value == 3
    contention = card(numbers, Figure.CLAIM_CONTENTION)
    assert contention.value == pytest.approx(1 / contention.measured)
    reclaim = card(numbers, Figure.RECLAIM_LATENCY)
    assert reclaim.value is not None
    assert 30 <= reclaim.value <= 60
    assert reclaim.measured == 1
    cost = card(numbers, Figure.ABANDONED_COST)
    assert cost.value is not None
    assert cost.value > 0
    attempts = card(numbers, Figure.TASK_ATTEMPTS)
    assert attempts.value is not None
    assert 1 < attempts.value < 2
    assert card(numbers, Figure.COVERAGE).value == 1.0


def test_a_course_has_a_step_a_minute_and_what_is_not_counted_yet_is_unknown_not_zero() -> None:
    load.everything()
    roll_up()
    numbers = read_numbers(hours=1)
    fenced = card(numbers, Figure.FENCED_COMMITS)
    assert len(fenced.points) == 60
    assert numbers.step_seconds == 60
    assert sum(point.value or 0 for point in fenced.points) == 3
    execute(
        "UPDATE coordinator_rollup SET rolled_until = clock_timestamp() - interval '10 minutes'"
    )
    numbers = read_numbers(hours=1)
    assert numbers.is_stale
    fenced = card(numbers, Figure.FENCED_COMMITS)
    assert fenced.state is State.STALE
    assert [point.value for point in fenced.points[-9:]] == [None] * 9


def test_before_anything_was_counted_nothing_is_told_as_zero() -> None:
    numbers = read_numbers()
    assert numbers.rolled_until is None
    assert numbers.is_stale
    told = [
        each
        for each in numbers.cards
        if each.figure not in (Figure.COVERAGE, Figure.UNKNOWN_EFFECTS)
    ]
    assert all(each.value is None and each.state is State.STALE for each in told)


def test_a_long_range_is_told_by_hours() -> None:
    roll_up()
    numbers = read_numbers(hours=48)
    assert numbers.step_seconds == 3600
    assert len(card(numbers, Figure.READY_TO_COMMIT).points) == 48


def test_last_week_is_the_same_hour_seven_days_ago() -> None:
    load.everything()
    roll_up()
    assert card(read_numbers(), Figure.FENCED_COMMITS).last_week is None, "nobody counted then"
    execute(  # into this hour's, and the next one's should it turn before the figures are read
        "INSERT INTO coordinator_tally (span, name, since, queue_id, label, count, total)"
        " SELECT span, name, date_trunc('hour', clock_timestamp(), 'UTC') - interval '7 days' + hours.later,"
        " queue_id, label, sum(count) * 2, sum(total) FROM coordinator_tally"
        " CROSS JOIN (VALUES (interval '0'), (interval '1 hour')) AS hours(later)"
        " WHERE span = 'hour' GROUP BY 1, 2, 3, 4, 5"
    )
    fenced = card(read_numbers(), Figure.FENCED_COMMITS)
    assert fenced.last_week == 6
    assert fenced.delta == -3


def test_one_queue_is_told_without_the_others() -> None:
    load.everything()
    world.queue(name="q2")
    roll_up()
    assert card(read_numbers(queue="q"), Figure.FENCED_COMMITS).value == 3
    assert card(read_numbers(queue="q2"), Figure.FENCED_COMMITS).value == 0
    assert card(read_numbers(queue="none"), Figure.FENCED_COMMITS).value == 0


def test_rehearsals_are_no_part_of_the_figures_of_all_queues() -> None:
    load.everything()
    execute("UPDATE coordinator_queue SET name = 'q~shadow'")
    roll_up()
    assert card(read_numbers(), Figure.FENCED_COMMITS).value == 0
    assert card(read_numbers(queue="q~shadow"), Figure.FENCED_COMMITS).value == 3
    assert card(read_numbers(), Figure.READY_TO_COMMIT).measured == 0


def test_the_kinds_that_mark_charts_are_kinds_of_events() -> None:
    assert set(MARKED) <= {kind.value for kind in EventKind}


def test_the_backlog_of_unknown_effects_is_told_as_it_stands() -> None:
    by = world.worker()
    claim, effect, accepted = ledger.sent(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.UNKNOWN, by=by)
    roll_up()
    unknown = card(read_numbers(), Figure.UNKNOWN_EFFECTS)
    assert unknown.value == 1
    assert unknown.state is State.WARN
    assert unknown.oldest_seconds is not None
    assert any(point.value == 1 for point in unknown.points)


def test_samples_of_several_queues_add_up() -> None:
    for name in ("q2", "q3"):
        world.queue(name=name)
        world.submit(queue_name=name)
    roll_up()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT queue_id = 0, sum(total) FROM coordinator_tally"
            " WHERE name = 'ready_tasks' AND span = 'minute' GROUP BY 1"
        )
        assert dict(cursor.fetchall()) == {True: 2, False: 2}


def test_refusals_are_told_by_their_reason() -> None:
    load.everything()
    roll_up()
    first, *_ = read_refusal_counts(queue="q")
    assert (first.point, first.outcome, first.reason, first.count) == (
        "commit", "FENCED", "STALE_GENERATION", 3,
    )  # fmt: skip


def test_a_bump_marks_the_charts() -> None:
    load.everything()
    roll_up()
    numbers = read_numbers()
    kinds = [marker.kind for marker in read_markers(since=numbers.since, queue="q")]
    assert kinds == ["EPOCH_BUMPED"]
    assert not read_markers(since=numbers.until + timedelta(hours=1))


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ({"1.0": 10, "2.0": 0}, 0.5, 0.5),
        ({"1.0": 50, "2.0": 50}, 0.95, 1.9),
        ({"1.0": 1, "+Inf": 99}, 0.95, 1.0),
        ({}, 0.95, None),
    ],
)
def test_a_percentile_is_interpolated_in_its_bucket(
    counts: dict[str, int], share: float, expected: float | None
) -> None:
    from decimal import Decimal

    buckets = {label: (count, Decimal(0)) for label, count in counts.items()}
    assert percentile(buckets, share) == pytest.approx(expected)


def test_a_threshold_that_is_met_exactly_is_kept() -> None:
    slo = Slo(goal=5, limit=30)
    states = [slo.judge(value) for value in (None, 5, 5.1, 30, 30.1)]
    assert states == [State.NONE, State.OK, State.WARN, State.WARN, State.BAD]
    whole = DEFINITIONS[Figure.COVERAGE].slo
    assert [whole.judge(value) for value in (1.0, 0.9999)] == [State.OK, State.BAD]


def test_what_was_measured_on_too_few_is_shown_and_not_judged() -> None:
    load.everything()
    roll_up()
    reclaim = card(read_numbers(), Figure.RECLAIM_LATENCY)
    assert (reclaim.state, reclaim.measured) == (State.FEW, 1)
    assert reclaim.value is not None
    assert card(read_numbers(), Figure.FENCED_COMMITS).state is State.OK


@pytest.mark.parametrize(
    ("value", "measured", "state"),
    [
        (1.0, 1, State.FEW),
        (0.0, ENOUGH - 1, State.FEW),
        (1.0, ENOUGH, State.BAD),
        (0.0, ENOUGH, State.OK),
        (None, 0, State.NONE),
    ],
)
def test_a_share_is_judged_from_so_many_on(
    value: float | None, measured: int, state: State
) -> None:
    assert DEFINITIONS[Figure.RENEW_FAILURES].judge(value, measured) is state


def test_every_share_mean_and_percentile_needs_enough_and_what_is_counted_itself_does_not() -> None:
    counted = {each for each, one in DEFINITIONS.items() if not one.enough}
    assert counted == {
        Figure.FENCED_COMMITS,
        Figure.UNKNOWN_EFFECTS,
        Figure.ABANDONED_COST,
        Figure.COVERAGE,  # a single write past the guard is one too many
    }
    assert {one.enough for one in DEFINITIONS.values() if one.unit is Unit.SECONDS} == {ENOUGH}
