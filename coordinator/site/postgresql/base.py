"""The database's connections: one that its server has ended is put away before anything is sent on it.

An ended connection has its server's last word, or its end, waiting to be read; an idle one that lives has nothing.
Looking for that costs no round trip. So a restart of PostgreSQL costs no call its answer, but those just under way.
"""

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """Nothing has been sent on what is put away: the next one of the pool serves as well."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        pool = self.pool
        if pool is None:
            return connection
        for _ in range(pool.max_size):
            if not has_something_to_say(connection) or lives(connection):
                break
            connection.close()
            pool.putconn(connection)
            connection = super().get_new_connection(conn_params)
        return connection


def has_something_to_say(connection: "psycopg.Connection[Any]") -> bool:
    """Whether its server has sent something that nobody asked for: its end, most likely."""
    try:
        number = connection.pgconn.socket
    except psycopg.Error:
        return True
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def lives(connection: "psycopg.Connection[Any]") -> bool:
    """One round trip, for a connection that is under suspicion."""
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.Error:
        return False
    return True
