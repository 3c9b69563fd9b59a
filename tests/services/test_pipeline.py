"""The pipeline: many statements in one round trip, usable again after an error, closed when interrupted."""

import itertools
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from psycopg import pq

from coordinator import pipeline
from coordinator.pipeline import Statement, run
from coordinator.rounds import run_round

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024


@pytest.fixture
def raw() -> Iterator["psycopg.Connection[Any]"]:
    """A plain connection of its own, in no transaction."""
    parameters = connection.get_connection_params()
    wanted = ("host", "port", "user", "password", "dbname")
    with psycopg.connect(**{k: parameters[k] for k in wanted if parameters.get(k)}) as opened:
        yield opened


def status(of: "psycopg.Connection[Any]") -> pq.TransactionStatus:
    return pq.TransactionStatus(of.pgconn.transaction_status)


def test_each_statement_has_its_rows_in_order_and_values_of_their_type(raw: Any) -> None:
    number = uuid.uuid4()
    answers = run(
        raw,
        [
            Statement("SELECT 1, 'x', NULL, true"),
            Statement("SELECT %s::uuid, %s::float8", (number, 1.5)),
            Statement("SELECT %s::text[], %s::text", (["a", None], "b")),
            Statement("CREATE TEMP TABLE t (n int) ON COMMIT DROP"),
            Statement("INSERT INTO t SELECT generate_series(1, %s) RETURNING n", (3,)),
            Statement("SELECT count(*) FROM t WHERE n %% 2 = %s", (1,)),
            Statement("SELECT 1 WHERE false"),
        ],
    )  # fmt: skip
    assert answers == [
        [(1, "x", None, True)],
        [(number, 1.5)],
        [(["a", None], "b")],
        [],
        [(1,), (2,), (3,)],
        [(2,)],
        [],
    ]
    assert status(raw) is pq.TransactionStatus.INTRANS


@pytest.mark.parametrize(
    ("cast", "value"),
    [
        ("text", 'back\\slash, "quote", {brace}, comma, NULL, \u00e9, \U0001f600'),
        ("text[]", ["", "NULL", None, 'a"b', "a\\b", "{a,b}", " spaced ", "line\nbreak"]),
        (
            "text[]",
            ["printable", 'only "quotes" and \\backslashes\\', "{}, NULL", "null", None, ""],
        ),
        ("text[]", ["\t", "\x7f", "\u00a0 \u2028 \u202e", "a\\nb"]),
        ("int[][]", [[1, 2], [3, 4]]),
        ("text[]", []),
        ("uuid[]", [uuid.uuid4(), None, uuid.uuid4()]),
        ("int[]", [1, None, -3]),
        ("bigint", 2**53),
        ("float8[]", [0.1, 1e300, None, -2.5]),
        ("bool[]", [True, False, None]),
        ("timestamptz[]", [datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC), None]),
        ("jsonb", '{"a": [1, null]}'),
    ],
)
def test_a_value_comes_back_as_it_was_sent(raw: Any, cast: str, value: Any) -> None:
    assert run(raw, [Statement(f"SELECT %s::{cast}", (value,))]) == [[(value,)]]


def test_whatever_its_values_a_statement_is_prepared_once(raw: Any) -> None:
    for value in (1, 2**40, None, -1):
        assert run(raw, [Statement("SELECT %s::bigint AS one_text", (value,))]) == [[(value,)]]
    raw.rollback()
    names = raw.execute(
        "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%one_text'"
    ).fetchall()
    assert len(names) == 1


def test_an_instant_without_a_zone_is_not_guessed(raw: Any) -> None:
    with pytest.raises(TypeError, match="zone"):
        run(raw, [Statement("SELECT %s::timestamptz", (datetime(2026, 1, 1),))])  # noqa: DTZ001


def test_statements_are_prepared_once_and_the_server_knows_them(raw: Any) -> None:
    for turn in range(5):
        assert run(raw, [Statement("SELECT %s::int + 1", (turn,))]) == [[(turn + 1,)]]
    raw.rollback()
    names = raw.execute(
        "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%+ 1'"
    ).fetchall()
    assert len(names) == 1


def test_an_error_in_the_middle_is_raised_and_the_connection_is_usable_again(raw: Any) -> None:
    raw.execute("CREATE TEMP TABLE kept (n int primary key)")
    raw.commit()
    for wrong, error in (
        (Statement("INSERT INTO kept VALUES (%s)", (1,)), psycopg.errors.UniqueViolation),
        (Statement("SELECT %s / 0", (1,)), psycopg.errors.DivisionByZero),
        (Statement("SELECT no_such_column"), psycopg.errors.UndefinedColumn),
        (Statement("this is no SQL"), psycopg.errors.SyntaxError),
        (Statement("SELECT %s::int", ("x",)), psycopg.errors.InvalidTextRepresentation),
    ):
        with pytest.raises(error):
            run(
                raw,
                [
                    Statement("INSERT INTO kept VALUES (%s)", (1,)),
                    wrong,
                    Statement("INSERT INTO kept VALUES (%s)", (2,)),
                ],
            )
        assert status(raw) is pq.TransactionStatus.INERROR
        assert raw.pgconn.pipeline_status == pq.PipelineStatus.OFF
        raw.rollback()
        assert run(raw, [Statement("SELECT count(*) FROM kept")]) == [[(0,)]]
        raw.rollback()


def test_the_first_of_several_errors_is_the_one_that_is_told(raw: Any) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        run(raw, [Statement("SELECT 1/0"), Statement("SELECT nothing"), Statement("SELECT 1")])


def test_a_statement_whose_preparation_failed_is_prepared_when_it_can_be(raw: Any) -> None:
    wanted = Statement("SELECT n FROM comes_later WHERE n = %s", (1,))
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(raw, [wanted])
    raw.rollback()
    raw.execute("CREATE TEMP TABLE comes_later AS SELECT 1 AS n")
    raw.commit()
    assert run(raw, [wanted]) == [[(1,)]]
    assert run(raw, [wanted]) == [[(1,)]]


def test_statements_after_a_failed_one_are_prepared_anew_the_next_time(raw: Any) -> None:
    late = Statement("SELECT %s::int * 7", (6,))
    with pytest.raises(psycopg.errors.DivisionByZero):
        run(raw, [Statement("SELECT 1/0"), late])
    raw.rollback()
    assert run(raw, [late]) == [[(42,)]]


def test_an_error_does_not_reach_the_database_as_half_a_round() -> None:
    with pytest.raises(IntegrityError) as caught:
        with transaction.atomic():
            run_round(
                Statement("SELECT set_config('tenure.point', 'test', true)"),
                Statement(
                    "INSERT INTO coordinator_pool (name, min_contract) VALUES ('x', 'claim.v1')"
                ),
                Statement(
                    "INSERT INTO coordinator_pool (name, min_contract) VALUES ('x', 'claim.v1')"
                ),
            )
    assert isinstance(caught.value.__cause__, psycopg.errors.UniqueViolation)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM coordinator_pool")
        assert cursor.fetchone() == (0,)


def test_a_round_outside_a_transaction_is_a_mistake_of_ours() -> None:
    with pytest.raises(RuntimeError, match="belongs into a transaction"):
        run_round(Statement("SELECT 1"))


def test_big_payloads_go_both_ways_at_once(raw: Any) -> None:
    """More than both sockets' buffers hold: whoever only sent or only read would wait for ever."""
    raw.execute("SET statement_timeout = 0")
    big = "x" * (4 * MIB)
    answers = run(
        raw,
        [
            Statement("SELECT %s::text || %s::text", (big, str(number)))
            for number in range(8)
        ],
    )  # fmt: skip
    assert [len(rows[0][0]) for rows in answers] == [len(big) + 1] * 8
    assert [rows[0][0][-1] for rows in answers] == list("01234567")


def test_a_thousand_statements_in_one_round(raw: Any) -> None:
    answers = run(raw, [Statement("SELECT %s::int", (n,)) for n in range(1000)])
    assert answers == [[(n,)] for n in range(1000)]


def test_more_different_statements_than_are_prepared_still_run(
    raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_PREPARED", 3)
    for _ in range(2):
        texts = [Statement(f"SELECT {n} + %s::int", (1,)) for n in range(6)]
        assert run(raw, texts) == [[(n + 1,)] for n in range(6)]
    raw.rollback()
    (count,) = raw.execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT _ + %'"
    ).fetchone()
    assert count == 3


def test_an_interrupted_round_closes_its_connection(
    raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_pgconn: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(raw, [Statement("SELECT pg_sleep(0)")])
    assert raw.closed
    assert status(raw) is pq.TransactionStatus.UNKNOWN


def test_a_parameter_that_can_not_be_sent_closes_the_connection_it_was_half_sent_on(
    raw: Any,
) -> None:
    with pytest.raises(TypeError):
        run(raw, [Statement("SELECT 1"), Statement("SELECT %s", (object(),))])
    assert raw.closed


def test_after_an_interruption_the_pool_hands_out_a_good_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_pgconn: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "_read", interrupted)
        with pytest.raises((KeyboardInterrupt, DatabaseError)):
            with transaction.atomic():
                run_round(Statement("SELECT 1"))
    connection.close()
    with transaction.atomic():
        assert run_round(Statement("SELECT 2")) == [[(2,)]]


def test_a_server_that_goes_away_in_the_middle_is_an_operational_error(raw: Any) -> None:
    with pytest.raises(psycopg.OperationalError):
        run(
            raw, [Statement("SELECT pg_terminate_backend(pg_backend_pid())"), Statement("SELECT 1")]
        )
    assert raw.closed


def test_connections_do_not_mix_up_their_prepared_statements(raw: Any) -> None:
    text = f"SELECT {next(itertools.count(7))} + %s::int"
    assert run(raw, [Statement(text, (1,))]) == [[(8,)]]
    with transaction.atomic():
        assert run_round(Statement(text, (2,))) == [[(9,)]]
    assert run(raw, [Statement(text, (3,))]) == [[(10,)]]


def test_plans_are_made_anew_soon_at_first_and_ever_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(monotonic=lambda: now))
    plans, discarded = pipeline.Plans(), list[float]()
    for quarter in range(4 * 7_200):
        now = quarter / 4
        if plans.are_old():
            discarded.append(now)
    assert discarded[:6] == [0.5, 2.5, 12.5, 62.5, 312.5, 912.5]
    pauses = {later - earlier for earlier, later in itertools.pairwise(discarded[4:])}
    assert pauses == {pipeline.LONGEST_PLANS_SECONDS}


def test_a_round_that_discards_the_plans_has_its_rows_all_the_same(raw: Any) -> None:
    statements = [Statement("SELECT %s::int", (1,)), Statement("SELECT 2")]
    before = run(raw, statements)
    for _ in range(2):
        pipeline.plans_of(raw).grow_old()
        assert run(raw, statements) == before
    raw.rollback()
    pipeline.plans_of(raw).grow_old()
    assert run(raw, statements) == before  # with the transaction's own beginning
