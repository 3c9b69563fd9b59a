"""The roll-up: each event is counted once, whatever commits in whatever order."""

import threading
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from coordinator.actors import Worker
from coordinator.models import Event, RollUp, Tally
from coordinator.outcomes import Refusal
from coordinator.selectors.gauges import _GAUGES
from coordinator.services import roll_ups
from coordinator.services.drills import run_drill
from coordinator.services.roll_up_sql import COUNT_BATCH
from coordinator.services.roll_ups import roll_up
from coordinator.tallies import Name, Span
from tests import world
from tests.console.scene import any_time
from tests.numbers import load
from tests.numbers.recount import recount
from tests.races.crowd import at_once
from tests.statistics import believe, believe_of_column
from tests.world import Rival, holding, node, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def lane() -> None:
    world.queue()


@pytest.fixture
def worker() -> Worker:
    return world.worker()


def rolled(**limits: Any) -> int:
    answer = roll_up(**limits)
    assert answer is not None
    return answer.events


def counted(name: Name, label: str = "", *, span: Span = Span.EVER) -> int:
    return sum(
        Tally.objects.filter(span=span, name=name, label=label).values_list("count", flat=True)
    )


def tallies(span: Span) -> dict[Any, Any]:
    """All counters of a span but the samples of gauges, which are no events."""
    samples = [Name.UNKNOWN_EFFECTS, Name.UNKNOWN_AGE, Name.APPROVALS_WAITING, Name.APPROVALS_AGE,
               Name.READY_TASKS, Name.LIVE_LEASES]  # fmt: skip
    rows = Tally.objects.filter(span=span).exclude(name__in=samples)
    return {(row.name, row.queue_id, row.label): (row.count, row.total) for row in rows}


def test_a_mixed_load_is_counted_as_an_independent_query_counts_it() -> None:
    load.everything()
    rolled()
    assert tallies(Span.EVER) == recount()


def test_a_step_that_ends_where_numbers_grow_by_a_digit_counts_nothing_twice() -> None:
    """Transactions are ordered by number: 99 is before 100."""
    load.everything()
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_event e SET xid = (89 + place.place)::text::xid8"
            " FROM (SELECT id, row_number() OVER (ORDER BY xid, id) AS place FROM coordinator_event) place"
            " WHERE e.id = place.id"
        )
    while rolled(batch=3, max_steps=2) == 6:
        pass
    assert tallies(Span.EVER) == recount()


def test_it_does_not_matter_in_how_many_steps_it_is_counted() -> None:
    load.everything()
    while rolled(batch=3, max_steps=2) == 6:
        pass
    rolled()
    assert tallies(Span.EVER) == recount()


def test_counting_again_counts_nothing(worker: Worker) -> None:
    load.everything()
    rolled()
    before = tallies(Span.MINUTE), tallies(Span.HOUR), tallies(Span.EVER)
    assert rolled() == 0
    assert (tallies(Span.MINUTE), tallies(Span.HOUR), tallies(Span.EVER)) == before


_INSERT = (
    "INSERT INTO coordinator_event (kind, queue_id, actor, request_id, at, data, repeats)"
    " VALUES ('ALARM', 1, 'system:test', '', clock_timestamp(), '{}', 0)"
)


def test_an_event_that_commits_after_later_ones_is_counted_once(worker: Worker) -> None:
    with world.holding("SELECT set_config('tenure.point', 'test', true)") as held:
        held.execute(_INSERT)  # it has the lower id, and is not committed
        world.submit(node("a"), node("b"))
        assert rolled() == 0, "what committed after it must wait, or it would be passed over"
        assert counted(Name.EVENTS, "SUBMITTED") == 0
        held.execute("COMMIT")
    rolled()
    assert counted(Name.EVENTS, "ALARM") == 1
    assert counted(Name.EVENTS, "SUBMITTED") == Event.objects.filter(kind="SUBMITTED").count() > 0
    assert rolled() == 0


def test_an_event_that_is_rolled_back_is_never_counted(worker: Worker) -> None:
    with world.holding("SELECT set_config('tenure.point', 'test', true)") as held:
        held.execute(_INSERT)
        rolled()
        held.release()
    rolled()
    assert counted(Name.EVENTS, "ALARM") == 0


def test_while_a_transaction_is_open_the_roll_up_says_until_when_it_has_counted() -> None:
    rolled()
    with world.holding("SELECT set_config('tenure.point', 'test', true)") as held:
        held.execute(_INSERT)
        rolled()
        world.submit()
        rolled()
        rolled()
        (inserted,) = held.execute("SELECT max(at) FROM coordinator_event WHERE kind = 'ALARM'")[0]
        assert RollUp.objects.get().rolled_until <= inserted
        held.execute("COMMIT")
    rolled()
    assert RollUp.objects.get().rolled_until > inserted


def test_equal_refusals_are_counted_each_time(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    world.claim_one(by=worker, of=claim.fence.task_id)
    label = "commit FENCED STALE_GENERATION"
    for times in (1, 2, 3):
        assert isinstance(world.try_commit(claim, by=worker), Refusal)
        if times != 2:
            rolled()
            assert counted(Name.REFUSALS, label) == times
    assert Event.objects.filter(kind="REFUSED").count() == 1


def test_a_refusal_that_is_raised_while_it_is_counted_is_not_lost(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    world.claim_one(by=worker, of=claim.fence.task_id)
    assert isinstance(world.try_commit(claim, by=worker), Refusal)
    with holding("SELECT 1 FROM coordinator_event WHERE kind = 'REFUSED' FOR UPDATE") as held:
        rival = Rival(lambda: world.try_commit(claim, by=worker))
        wait_until_blocked(rival.pid, by=held.pid)
        rolled()  # the rival has its number, and has not written yet
    assert isinstance(rival.result(), Refusal)
    rolled()
    assert counted(Name.REFUSALS, "commit FENCED STALE_GENERATION") == 2


def test_usage_that_a_late_call_reports_is_added_once(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    world.claim_one(by=worker, of=claim.fence.task_id)
    for tokens, total in ((10, 10), (25, 25), (20, 25)):
        load.late_commit(claim, by=worker, tokens=tokens)
        rolled()
        row = Tally.objects.get(span=Span.EVER, name=Name.ABANDONED, label="input_tokens")
        assert row.total == Decimal(total)
    assert counted(Name.ABANDONED, "attempts") == 1


def test_usage_that_is_reported_after_the_commit_is_added_once_too(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.commit(claim, by=worker)
    for tokens, total in ((0, None), (10, 10), (25, 25)):
        load.renew(claim, by=worker, tokens=tokens)  # refused, and what it reports is kept
        rolled()
        row = Tally.objects.filter(span=Span.EVER, name=Name.USED, label="input_tokens").first()
        assert (row.total if row else None) == total
    assert counted(Name.USED, "attempts") == 1


def test_two_at_once_count_once(worker: Worker) -> None:
    load.everything()
    with holding("SELECT pg_advisory_xact_lock(6, 0)"):
        assert roll_up() is None
    rolled()
    assert tallies(Span.EVER) == recount()


def test_a_step_that_fails_has_counted_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    load.everything()
    with monkeypatch.context() as patched:
        patched.setattr(
            roll_ups, "_save", lambda *_: (_ for _ in ()).throw(RuntimeError("cut off"))
        )
        with pytest.raises(RuntimeError):
            roll_up()
    assert not Tally.objects.exists()
    rolled()
    assert tallies(Span.EVER) == recount()


@pytest.fixture
def closed(worker: Worker) -> None:
    """A world whose minutes are closed until after the one in which it was last counted, and its gauges sampled."""
    world.submit()
    rolled()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_rollup SET closed_until = gauged_at + interval '1 minute'"
        )


@pytest.mark.usefixtures("closed")
def test_a_closed_minute_never_changes_again() -> None:
    before = sorted(
        Tally.objects.filter(span=Span.MINUTE).values_list("since", "name", "label", "count")
    )
    world.submit()
    assert rolled() > 0
    until = RollUp.objects.get().closed_until
    after = Tally.objects.filter(span=Span.MINUTE, since__lt=until)
    assert sorted(after.values_list("since", "name", "label", "count")) == before
    assert Tally.objects.filter(span=Span.MINUTE, since=until, name=Name.EVENTS).exists()


def test_minutes_hours_and_ever_add_up() -> None:
    load.everything()
    rolled()
    sums = {span: sum(count for count, _ in tallies(span).values()) for span in Span}
    assert len(set(sums.values())) == 1


def test_a_database_loaded_from_a_dump_goes_on_counting() -> None:
    """Its transactions are numbered lower than those that were counted."""
    world.submit()
    rolled()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE coordinator_rollup SET xid = '9000000000000'")
    before = counted(Name.EVENTS, "SUBMITTED")
    rolled()
    assert counted(Name.EVENTS, "SUBMITTED") == before, "what was there is not counted twice"
    world.submit()
    rolled()
    assert counted(Name.EVENTS, "SUBMITTED") > before


def test_old_minutes_go_and_what_is_for_ever_stays() -> None:
    world.submit()
    rolled()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_tally SET since = since - interval '3 days' WHERE span = 'minute'"
        )
        cursor.execute("UPDATE coordinator_rollup SET gauged_at = NULL")
    before = tallies(Span.EVER)
    rolled()
    assert not Tally.objects.filter(span=Span.MINUTE, name=Name.EVENTS).exists()
    assert tallies(Span.EVER) == before


def test_what_the_fence_drill_does_is_not_counted_as_work() -> None:
    drilled = run_drill(queue="q", reason="r", actor=world.operator())
    assert not isinstance(drilled, Refusal)
    assert drilled.passed
    rolled()
    for kind in ("SUBMITTED", "CLAIMED", "COMMITTED", "EXPIRED"):
        assert counted(Name.EVENTS, kind) == 0, kind
    for name in (Name.COMMIT_SECONDS, Name.REFUSALS, Name.RECLAIM_SECONDS, Name.ABANDONED):
        assert not Tally.objects.filter(name=name).exists(), name


def some_work(by: Worker, rounds: int) -> None:
    """Runs, commits, refusals and usage, beside others who do the same."""
    for _ in range(rounds):
        world.submit(node("a"), node("b", "a"))
        for claim in world.claim(by=by, limit=2):
            load.renew(claim, by=by, tokens=1)
            world.try_commit(claim, by=by)
            load.renew(claim, by=by, tokens=2)
            load.renew(claim, by=by, tokens=2)


#: Where the roll-up gets no turn beside the first load, there is another one.
MOST_LOADS = 20


def test_under_load_from_many_sides_every_event_is_counted_once() -> None:
    workers = [world.worker(name=f"w-{number}") for number in range(3)]
    over, steps = threading.Event(), []

    def count() -> None:
        while not over.is_set():
            answer = roll_up(batch=7, max_steps=1)
            steps.append(answer.events if answer else 0)

    def counts_beside() -> bool:
        return len([events for events in steps if events]) >= 20

    def work() -> None:
        try:
            for _ in range(MOST_LOADS):
                at_once(*(partial(some_work, by, 12) for by in workers))
                if counts_beside():
                    break
        finally:
            over.set()

    at_once(count, count, work)
    assert counts_beside(), "the roll-up ran beside the load"
    rolled()
    assert tallies(Span.EVER) == recount()


def plan(sql: str, params: Any = None) -> str:
    """How PostgreSQL reads it beside a million finished tasks; a table without a row is not read whole either."""
    some_work(
        world.worker(), 2
    )  # what the tables hold is scaled by their pages: they must have some
    believe(pages=1, rows=1_000_000)
    believe_of_column("coordinator_task", "claimable_at", empty=0.999, distinct=-0.001)
    with transaction.atomic(), connection.cursor() as cursor:
        for way in ("seqscan", "sort", "bitmapscan"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute("EXPLAIN " + sql, params)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_a_step_reads_the_new_events_from_their_index_and_the_rest_by_key() -> None:
    told = plan(COUNT_BATCH, ["7", 0, "9", 0, 5_000, "2026-01-01T00:00:00Z"])
    assert "event_by_transaction" in told
    assert "Seq Scan on coordinator_event" not in told
    assert "Seq Scan on coordinator_task" not in told
    assert "Seq Scan on coordinator_attempt" not in told


def test_gauges_are_read_from_indexes_that_finished_rows_never_enter() -> None:
    told = plan(_GAUGES)
    for index in ("task_claimable", "task_leased", "effect_unsettled", "approval_open"):
        assert index in told, told
