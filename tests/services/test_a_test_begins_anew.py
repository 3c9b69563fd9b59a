"""What an earlier test has left in the database decides nothing in the next one."""

import pytest
from django.db import connection

from tests import world
from tests.emptying import empty_all_tables
from tests.statistics import believe

pytestmark = pytest.mark.django_db(transaction=True)


def known() -> list[tuple[str, int, float]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, relpages, reltuples FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind = 'r' AND reltuples <> -1 UNION ALL"
            " SELECT tablename || '.' || attname, 0, 0 FROM pg_stats WHERE schemaname = 'public'"
        )
        return list(cursor.fetchall())


def test_no_statistics_are_left_to_the_next_test() -> None:
    world.queue()
    world.submit(*(world.node(f"n{number}") for number in range(50)))
    believe(pages=7, rows=9)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE coordinator_task")
    assert ("coordinator_run", 7, 9.0) in known()
    assert any(name.startswith("coordinator_task.") for name, *_ in known())
    empty_all_tables()
    assert known() == []
