"""However much lies there that may never be taken away: a batch looks at so many rows, and goes on behind them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.db import connection

from coordinator.actors import Worker, system
from coordinator.models import PruneCursor, Run
from coordinator.services import prune_cursors, pruned_blobs, pruned_runs, pruning
from coordinator.services.prune_cursors import Batch
from coordinator.services.pruning import Pace, Pruned, prune
from tests import world
from tests.console.scene import any_time
from tests.counted import rows_read
from tests.emptying import make_anew
from tests.statistics import believe
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 2_000
#: Pages that a look at so many rows may touch: some per row and task, and the way down the indexes.
PAGES_A_ROW = 12


@pytest.fixture
def by(settings: LazySettings) -> Worker:
    settings.KEEP_RUNS_DAYS = 30
    settings.KEEP_BLOBS_DAYS = 30
    make_anew("run", "storedanswer")
    world.queue()
    return world.worker()


def taken(*, max_batches: int = 1) -> Pruned:
    answer = prune(actor=system("test"), pace=Pace(batches=max_batches))
    assert isinstance(answer, Pruned)
    return answer


def kept_runs(count: int, *, days_ago: int = 400) -> None:
    """Runs that are called over, each with an open task, so that none is ever taken; a second apart."""
    run = world.submit(node("open"))
    with any_time() as cursor:
        cursor.execute(
            "INSERT INTO coordinator_run SELECT (jsonb_populate_record(r, jsonb_build_object("
            " 'id', r.id * 100000 + n, 'run_id', gen_random_uuid(), 'state', 'COMMITTED',"
            " 'finished_at', now() - make_interval(days => %s) + make_interval(secs => n)))).*"
            " FROM coordinator_run r, generate_series(1, %s) n WHERE r.run_id = %s",
            [days_ago, count, run.run_id],
        )
        cursor.execute(
            "INSERT INTO coordinator_task SELECT (jsonb_populate_record(t, jsonb_build_object("
            " 'task_id', gen_random_uuid(), 'run_id', t.run_id * 100000 + n))).*"
            " FROM coordinator_task t, generate_series(1, %s) n WHERE t.task_id = %s",
            [count, world.task_id(run, "open")],
        )


def due_run(by: Worker, *, days_ago: int) -> UUID:
    run = world.submit(node("done"))
    world.finish(world.task_id(run, "done"), by=by)
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_run SET state = 'COMMITTED', finished_at = now() - make_interval(days => %s)"
            " WHERE run_id = %s",
            [days_ago, run.run_id],
        )
    return run.run_id


def pages(sql: str, parameters: Any) -> tuple[int, str]:
    """How many pages a statement touches, and its plan."""
    with any_time() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + sql, parameters)
        plan = cursor.fetchall()[0][0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], str(plan)


def analyse(*tables: str) -> None:
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ANALYZE coordinator_{table}")


def test_the_next_batch_goes_on_where_the_last_one_stopped(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruned_runs, "LOOKED_AT", 2)
    kept_runs(3)
    run = due_run(by, days_ago=300)
    first = taken()
    assert (first.runs, first.complete) == (0, False)
    assert PruneCursor.objects.get(kind="runs").after_time is not None
    second = taken()
    assert (second.runs, second.complete) == (1, False)
    assert not Run.objects.filter(run_id=run).exists()
    assert taken().complete, "the end: the next look begins anew"
    end = PruneCursor.objects.get(kind="runs")
    assert (end.after_time, end.after_id) == prune_cursors.START


def test_what_became_free_behind_the_look_is_taken_in_the_next_pass(by: Worker) -> None:
    kept_runs(2)
    assert taken(max_batches=5).complete
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_task SET state = 'CANCELLED', claimable_at = NULL WHERE run_id > 100000"
        )
    assert taken(max_batches=5).runs == 2


def test_a_look_touches_so_many_pages_wherever_it_goes_on(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_runs(MANY)
    kept_runs(MANY, days_ago=2)  # and as many that are too young
    analyse("run", "task")
    middle, last = list(
        Run.objects.filter(state="COMMITTED").order_by("finished_at", "id")[MANY // 2 : MANY : MANY // 2 - 1]
    )  # fmt: skip
    looks = {}
    for name, run in {"start": None, "middle": middle, "end": last}.items():
        place = (run.finished_at, run.pk) if run else prune_cursors.START
        looks[name], plan = pages(pruned_runs._LOOK, [30, *place, 50, 5_000])
        assert "run_over" in plan, plan
        assert looks[name] < 50 * PAGES_A_ROW, looks
    assert looks["end"] < 30, "what is too young is not looked through"


def test_a_look_at_runs_of_many_nodes_ends_at_so_many_nodes(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruned_runs, "LOOKED_AT_NODES", 3)
    kept_runs(8)
    counts = []
    while not taken().complete:
        counts.append(PruneCursor.objects.get(kind="runs").after_id)
    assert len(counts) == 3, "three of a node each, three, and two"


def test_blobs_are_looked_at_a_page_at_a_time(by: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    world.submit()
    claim = world.claim_one(by=by)  # it may still commit: none of its blobs is due
    with any_time() as cursor:
        cursor.execute(
            "INSERT INTO coordinator_blob (id, attempt_id, name, digest, size_bytes, content_type, path, created_at)"
            " SELECT n, %s, n::text, 'sha256:0', 1, 'text/plain', n::text,"
            " now() - make_interval(days => CASE WHEN n <= %s THEN 90 ELSE 1 END) FROM generate_series(1, %s) n",
            [claim.fence.attempt_id, MANY, 2 * MANY],
        )
    analyse("blob", "attempt", "task")
    near_the_end, _ = pages(pruned_blobs._TAKE, [MANY - 100, 50, 30, 30])
    assert near_the_end < 50 * PAGES_A_ROW
    monkeypatch.setattr(pruned_blobs, "LOOKED_AT", MANY // 2)
    assert not taken().complete
    assert PruneCursor.objects.get(kind="blobs").after_id == MANY // 2
    assert not taken().complete
    done = taken()
    assert (done.blobs, done.complete) == (0, True)
    assert PruneCursor.objects.get(kind="blobs").after_id == 0, (
        "the young ones are not looked through"
    )


@pytest.mark.parametrize("sql", [pruning._FORGET, pruning._EXPIRE])
def test_expired_keys_that_stay_are_not_passed_again(by: Worker, sql: str) -> None:
    with any_time() as cursor:
        cursor.execute(
            "INSERT INTO coordinator_storedanswer (scope, key, request_digest, answer, created_at)"
            " SELECT 'operator:1::submit_run', n::text, '', '', now() - interval '90 days'"
            " FROM generate_series(1, %s) n",
            [MANY],
        )
    analyse("storedanswer")
    touched, plan = pages(sql, [48, 1_000])
    assert "stored_answer_due" in plan
    assert touched < 20


#: Rows and pages of each table when it was last looked at.
BELIEFS: Final = {"nothing": None, "an idle hour": (1, 3), "as it is": (60, 3_000)}


@pytest.mark.parametrize("belief", BELIEFS)
def test_a_run_is_taken_away_by_its_own_rows_alone_whatever_the_statistics_say(
    by: Worker, belief: str
) -> None:
    """With tables that grow it took ever longer: each of a run's deletions read all events."""
    for part in range(3):
        world.submit(*(node(f"open {part} {number}") for number in range(1_000)))
    for _ in range(10):
        world.claim(by=by, limit=100)
    due_run(by, days_ago=300)
    if (told := BELIEFS[belief]) is not None:
        believe(pages=told[0], rows=told[1])
    read = rows_read(taken, tables=("task", "attempt", "event", "canonicalcommit"))
    assert not Run.objects.filter(state="COMMITTED").exists()
    assert read < 300


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only goes on where somebody works or rests."""
    clock = SimpleNamespace(now=0.0, rested=[])

    def sleep(seconds: float) -> None:
        clock.rested.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(pruning, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    return clock


def kind(
    clock: SimpleNamespace, *batches: tuple[float, int], more: bool = True
) -> Callable[[], Batch]:
    """Batches that take so many seconds and take away so much; the last one again and again."""
    left = list(batches)

    def batch() -> Batch:
        seconds, count = left.pop(0) if len(left) > 1 else left[0]
        clock.now += seconds
        return Batch(count, more)

    return batch


def test_the_job_rests_as_long_as_it_works_and_goes_on_until_its_time_is_over(
    clock: SimpleNamespace,
) -> None:
    kinds = {"answers": kind(clock, (0.1, 1_000)), "runs": kind(clock, (2.0, 5), (1.0, 5))}
    counts, complete = pruning._in_turn(kinds, Pace(seconds=20.0, rest=1.0))
    assert 20.0 <= clock.now < 22.0
    assert sum(clock.rested) == pytest.approx(clock.now / 2)
    assert counts["answers"] >= 8_000, "what is long keeps what is short from nothing"
    assert counts["runs"] >= 40
    assert not complete


def test_a_kind_of_which_nothing_may_go_takes_no_time_from_the_others(
    clock: SimpleNamespace,
) -> None:
    kinds = {"runs": kind(clock, (0.5, 0)), "blobs": kind(clock, (0.5, 1))}
    counts, complete = pruning._in_turn(kinds, Pace(seconds=20.0, rest=1.0, in_vain=4))
    assert counts == {"runs": 0, "blobs": pytest.approx(16, abs=1)}
    assert not complete, "the next round goes on behind what it has looked at"


def test_a_round_is_through_where_each_kind_says_so(clock: SimpleNamespace) -> None:
    kinds = {
        "runs": kind(clock, (0.5, 3), more=False),
        "blobs": kind(clock, (0.5, 0), more=False),
    }
    assert pruning._in_turn(kinds, pruning.JOB) == ({"runs": 3, "blobs": 0}, True)
    assert clock.now == pytest.approx(2.0)
