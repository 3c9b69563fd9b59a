"""The pool of connections over restarts of its server: none that has ended is handed out."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections
from django.db.utils import ConnectionHandler

from coordinator.site.databases import ENGINE, database_settings, server_keywords
from coordinator.site.postgres import Postgres
from coordinator.site.postgresql.base import has_something_to_say, lives
from tests.site.waiting import until

FAST = {"fsync": "off"}
#: Connections that lie idle while the server restarts.
IDLE = 4


def stopped(server: Postgres) -> None:
    server.stop()


def killed(server: Postgres) -> None:
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    server.stop()


@pytest.fixture
def pooled(state: Path, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> Iterator[Any]:
    """A connection of Django's to the server of this state folder, as settings.py makes it."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("TENURE_DB_POOL_MIN", str(IDLE))
    settings = database_settings(state)
    assert settings["ENGINE"] == ENGINE
    whole = ConnectionHandler({"default": {}, "restarted": settings}).settings["restarted"]
    monkeypatch.setitem(connections.settings, "restarted", whole)
    wrapper: Any = connections["restarted"]
    with django_db_blocker.unblock():  # it is another database than the tests'
        yield wrapper
        wrapper.close()
    wrapper.close_pool()
    del connections["restarted"]


def ask(wrapper: Any) -> int:
    """One request's use of it: taken from the pool, and given back."""
    try:
        with wrapper.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])
    finally:
        wrapper.close()


@pytest.mark.parametrize("ended", [stopped, killed])
def test_a_restart_costs_no_call_its_answer(
    state: Path, pooled: Any, ended: Callable[[Postgres], None]
) -> None:
    first = Postgres(state, settings=FAST).start()
    before = {ask(pooled)}
    pooled.pool.wait()
    before |= {ask(pooled) for _ in range(IDLE)}
    assert len(before) > 1
    ended(first)
    with Postgres(state, settings=FAST):
        after = {ask(pooled) for _ in range(IDLE + 2)}
        assert not before & after
        pooled.close_pool()


def test_a_server_that_is_down_is_told_and_then_found_again(
    state: Path, pooled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Postgres(state, settings=FAST):
        ask(pooled)
    pooled.pool.timeout = 0.3
    with pytest.raises(OperationalError):
        ask(pooled)
    pooled.pool.timeout = 20
    with Postgres(state, settings=FAST):
        assert ask(pooled)
        pooled.close_pool()


@pytest.mark.django_db(transaction=True)
def test_a_living_connection_that_was_told_something_is_kept() -> None:
    keywords = server_keywords()
    with psycopg.connect(**keywords, autocommit=True) as connection:
        assert not has_something_to_say(connection)
        connection.execute("LISTEN news")
        with psycopg.connect(**keywords, autocommit=True) as other:
            other.execute("NOTIFY news")
        until(lambda: has_something_to_say(connection), "the news")
        assert lives(connection)
        assert not has_something_to_say(connection)
