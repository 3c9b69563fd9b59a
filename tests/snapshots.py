"""Worlds that take a second to compose by the services, composed once a process and put back for each test.

The rows are kept in a schema of their own beside the tables that they come from, and are put back with every instant
moved by the time that has passed since: a lease that had four minutes left has four minutes left again. What counts
in whole minutes and hours stays on whole minutes and hours. Sequences go on where they stood.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from django.db import connection, transaction

from tests.emptying import empty_all_tables, occupied, tables_of_tests

T = TypeVar("T")

#: A world that is older is composed anew: buckets of hours must not run together.
TOO_OLD_SECONDS: Final = 600
_SPACE: Final = "kept_worlds"
#: Digests over instants that are moved: the seals are made anew by whoever wants them.
_SEALED: Final = frozenset({"coordinator_auditlink", "coordinator_auditchain"})


@dataclass(frozen=True, slots=True)
class _Kept:
    made: float  # of time.monotonic()
    value: Any
    restoring: str  # SQL, with the seconds that have passed in the setting `kept.age`


_worlds: dict[str, _Kept] = {}


def restored(compose: Callable[[], T]) -> T:
    """What `compose` answers, in a database that holds what it makes. It must be empty before."""
    name = f"{compose.__module__}.{compose.__qualname__}".replace(".", "_")
    kept = _worlds.get(name)
    if kept is None or time.monotonic() - kept.made > TOO_OLD_SECONDS:
        kept = _worlds[name] = _keep(name, compose())
        empty_all_tables()  # the first test gets what all get
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('kept.age', %s, true),"
            " set_config('session_replication_role', 'replica', true)",
            [f"{time.monotonic() - kept.made:.6f} seconds"],
        )
        cursor.execute(kept.restoring)
    return cast("T", kept.value)


def _keep(name: str, value: Any) -> _Kept:
    made = time.monotonic()
    restoring: list[str] = []
    tables: list[str] = []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {_SPACE}")
        for place, (table, _) in enumerate(occupied(cursor, tables_of_tests())):
            if table in _SEALED:
                continue
            tables.append(f'"{table}"')
            copy = f'{_SPACE}."{name[-50:]}_{place}"'
            cursor.execute(f"DROP TABLE IF EXISTS {copy}")
            cursor.execute(f'CREATE UNLOGGED TABLE {copy} AS TABLE "{table}"')
            columns = _columns(cursor, table)
            names = ", ".join(f'"{column}"' for column, _ in columns)
            is_tally = any(column == "span" for column, _ in columns)
            values = ", ".join(_moved(column, kind, is_tally=is_tally) for column, kind in columns)
            restoring.append(
                f'INSERT INTO "{table}" ({names}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {copy}'
            )
        restoring += _sequences(cursor)
    # A page of the test before may have asked once more since, and counted something.
    clearing = [f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE"]
    restoring = clearing + [f"DELETE FROM {table}" for table in tables] + restoring
    return _Kept(made, value, ";\n".join(restoring))


def _columns(cursor: Any, table: str) -> list[tuple[str, str]]:
    cursor.execute(
        "SELECT column_name, udt_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
        [table],
    )
    return list(cursor.fetchall())


def _moved(column: str, kind: str, *, is_tally: bool) -> str:
    if kind == "timestamptz" and (column == "hour" or is_tally):
        unit = "lower(span)" if is_tally else "'hour'"
        moved = f"\"{column}\" + current_setting('kept.age')::interval"
        is_for_ever = f"{unit} NOT IN ('minute', 'hour')"
        return (
            f"CASE WHEN {is_for_ever} THEN \"{column}\" ELSE date_trunc({unit}, {moved}, 'UTC') END"
        )
    if kind == "timestamptz":
        return _instant(f'"{column}"')
    if kind == "_timestamptz":
        each = _instant("moment")
        return (
            f'CASE WHEN "{column}" IS NULL THEN NULL ELSE ARRAY(SELECT {each}'
            f' FROM unnest("{column}") WITH ORDINALITY AS u(moment, place) ORDER BY place) END'
        )
    return f'"{column}"'


def _instant(value: str) -> str:
    moved = f"{value} + current_setting('kept.age')::interval"
    return (
        f"CASE WHEN NOT isfinite({value}) THEN {value}"
        f" WHEN {value} = date_trunc('minute', {value}, 'UTC') THEN date_trunc('minute', {moved}, 'UTC')"
        f" ELSE {moved} END"
    )


def _sequences(cursor: Any) -> list[str]:
    cursor.execute(
        "SELECT format('%I.%I', schemaname, sequencename), last_value FROM pg_sequences"
        " WHERE schemaname = 'public' AND last_value IS NOT NULL"
    )
    return [f"SELECT setval('{name}', {value})" for name, value in cursor.fetchall()]
