"""Each statement of claim, renew, commit, cancel, bump, prepare and accept in every order that a seed finds."""

import os
import re
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection

from coordinator.gates import GateClass
from coordinator.pipeline import Statement
from tests import counted
from tests.history import check
from tests.interleavings.scenes import SCENES, Scene, cast
from tests.interleavings.schedule import stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

#: Of each scene; TENURE_SCHEDULES asks for more, TENURE_SEED for other ones.
SCHEDULES = int(os.environ.get("TENURE_SCHEDULES", "150"))
SEED = os.environ.get("TENURE_SEED", "1")


def deadlocks() -> int:
    counted.alone()  # a connection tells of its deadlocks, an earlier test's too, at its end at the latest
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchall()[0][0])


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_in_each_order_one_of_the_allowed_ends_is_reached(scene: Scene) -> None:
    people, ends, before = cast(), Counter[str](), deadlocks()
    with stage(3) as players:
        for number in range(SCHEDULES):
            calls, judge = scene.play(people)
            seed = f"{SEED}:{scene.name}:{number}"
            try:
                ends[judge(players.perform(calls, seed=seed))] += 1
            except BaseException as error:
                error.add_note(f"schedule {seed}, after {dict(ends)}")
                raise
        seen = players.seen
    check()
    # Not vacuous: every end was reached, the statements did mix, and somebody did wait for a lock.
    assert set(ends) == scene.ends, ends
    assert seen["interleaved"] > SCHEDULES * 0.9, seen
    assert seen["waited for a lock"] > 0, seen
    assert deadlocks() == before


def without_row_locks(statement: Statement) -> Statement:
    return Statement(re.sub(r" FOR UPDATE( OF \S+)?", "", statement.sql), statement.params)


def with_every_gate_shared(statement: Statement) -> Statement:
    alone, shared = "pg_advisory_xact_lock(", "pg_advisory_xact_lock_shared("
    for gate in (GateClass.QUEUE, GateClass.RUN):
        statement = Statement(
            statement.sql.replace(f"{alone}{int(gate)},", f"{shared}{int(gate)},"), statement.params
        )
    return Statement(
        statement.sql.replace(f"{alone}%s::int, id", f"{shared}%s::int, id"), statement.params
    )


@pytest.mark.parametrize(
    ("scene", "twist"),
    [
        ("commit against cancel", without_row_locks),
        ("commit against take-over", without_row_locks),
        ("accept against commit", without_row_locks),
        ("commit against commit of two parents", without_row_locks),
        ("claim against claim against bump", with_every_gate_shared),
        ("commit against revision of the child", with_every_gate_shared),
    ],
)
def test_a_lock_that_is_missing_is_found(
    scene: str, twist: Callable[[Statement], Statement]
) -> None:
    """The schedules can fail: without the lock some order ends as it must not, or trips over what can not be."""
    with pytest.raises((AssertionError, DatabaseError, KeyError)):
        walk(scene, twist)


def walk(name: str, twist: Callable[[Statement], Statement]) -> None:
    (scene,) = [each for each in SCENES if each.name == name]
    people = cast()
    with stage(3) as players:
        players.twist = twist
        for number in range(SCHEDULES):
            calls, judge = scene.play(people)
            judge(players.perform(calls, seed=f"{SEED}:{name}:{number}"))
