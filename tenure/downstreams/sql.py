"""A PostgreSQL database: the change and a row named by the effect's id, in one transaction."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from tenure.canonical import canonical
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Refused,
    Sent,
    Unknown,
    overdue,
)
from tenure.downstreams.fields import no_condition, plain
from tenure.records import Json

if TYPE_CHECKING:
    import psycopg

#: What makes a second arrival return the first one's receipt. Never delete from it while effects may be looked up.
TABLE = """
CREATE TABLE IF NOT EXISTS tenure_effects (
    effect_id text PRIMARY KEY,
    payload_digest text NOT NULL,
    fencing_token text NOT NULL,
    receipt text,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""

#: In class 40, rollbacks, the one that does not say so.
_COMPLETION_UNKNOWN = "40003"

Apply = Callable[["psycopg.Cursor[Any]", Json], Json]


class Sql(Adapter):
    """`apply(cursor, payload)` makes the change and returns the receipt, as JSON. It must not commit.

    `conninfo` goes to the primary: a replica that lags would say "absent" of what has happened.
    """

    kind: ClassVar[str] = "sql"
    limits: ClassVar[str] = (
        "Only what `apply` does through its cursor is in the transaction; what a trigger does outside it is not "
        "taken back by a rollback. After a restore from a backup the rows of "
        "tenure_effects since then are gone, and with them the memory of what happened."
    )

    def __init__(self, conninfo: str, apply: Apply) -> None:
        super().__init__(Guarantee.IDEMPOTENT_KEY)
        self._conninfo = conninfo
        self._apply = apply

    def install(self) -> None:
        """Make the table, where it is not there yet."""
        import psycopg

        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(TABLE)

    def check(self, payload: Json, condition: Json) -> None:
        """Any JSON that `apply` understands."""
        plain(payload, "/payload")
        no_condition(condition, "a database")

    def send(self, call: Call) -> Sent:
        """The change and its row, committed together."""
        import psycopg

        if late := overdue(call):
            return late
        try:
            connection = self._connect(call.deadline)
        except psycopg.OperationalError as error:
            return Refused(detail=f"not sent: no connection ({_said(error)})", sent=False)
        with closing(connection), _cut_off(connection, call.deadline):
            try:
                receipt = self._change(connection, call)
            except Exception as error:  # noqa: BLE001 - whatever `apply` raised, no commit was asked for
                return Refused(detail=f"rolled back: {_said(error)}")
            if isinstance(receipt, Refused):
                return receipt
            try:
                connection.commit()
            except psycopg.Error as error:
                return _unconfirmed(error)
        return Happened(receipt=receipt)

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Read the row. One that is not committed yet is not seen: a call may still be on its way."""
        import psycopg

        try:
            with self._connect(deadline) as connection, _cut_off(connection, deadline):
                row = connection.execute(
                    "SELECT payload_digest, receipt FROM tenure_effects WHERE effect_id = %s",
                    (effect.effect_id,),
                ).fetchone()
        except psycopg.Error as error:
            return DontKnow(detail=_said(error))
        if row is None:
            return Absent(detail="no row has this effect's id")
        if row[0] != effect.payload_digest:
            return DontKnow(
                detail=f"the row under this id is of another payload, whose digest is {row[0]}"
            )
        return Happened(receipt=_receipt(row[1]))

    def _connect(self, deadline: float) -> psycopg.Connection[Any]:
        import psycopg

        left = max(1.0, deadline - time.monotonic())
        return psycopg.connect(self._conninfo, connect_timeout=int(left) + 1)

    def _change(self, connection: psycopg.Connection[Any], call: Call) -> Json:
        """Take the name, then act; whoever finds it taken waits for the first and gives its receipt."""
        with connection.cursor() as cursor:
            # The server gives up when we do, instead of holding locks for a caller that is gone.
            milliseconds = str(max(1, int(call.remaining() * 1000)))
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true)",
                (milliseconds, milliseconds),
            )
            cursor.execute(
                "INSERT INTO tenure_effects (effect_id, payload_digest, fencing_token) VALUES (%s, %s, %s)"
                " ON CONFLICT (effect_id) DO NOTHING",
                (call.effect_id, call.payload_digest, call.fencing_token),
            )
            if cursor.rowcount == 0:
                return _first_receipt(cursor, call)
            receipt = self._apply(cursor, call.payload)
            if late := overdue(call):
                return late
            cursor.execute(
                "UPDATE tenure_effects SET receipt = %s WHERE effect_id = %s",
                (canonical(receipt).decode(), call.effect_id),
            )
            return receipt


@contextmanager
def _cut_off(connection: psycopg.Connection[Any], deadline: float) -> Iterator[None]:
    """End the connection at the deadline: a server that has gone silent is not waited for any longer."""

    def cut() -> None:
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)

    import psycopg

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _first_receipt(cursor: psycopg.Cursor[Any], call: Call) -> Json:
    cursor.execute(
        "SELECT payload_digest, receipt FROM tenure_effects WHERE effect_id = %s", (call.effect_id,)
    )
    row = cursor.fetchone()
    assert row is not None, "rows of tenure_effects are never deleted"
    if row[0] != call.payload_digest:
        return Refused(detail=f"this id is bound to another payload, whose digest is {row[0]}")
    return _receipt(row[1])


def _receipt(text: str | None) -> Json:
    return None if text is None else json.loads(text)


def _unconfirmed(error: psycopg.Error) -> Sent:
    """A commit that failed. With a code the server itself says that it rolled back, but for a broken-off session."""
    code = error.sqlstate or ""
    if code[:2] in {"23", "40"} and code != _COMPLETION_UNKNOWN:
        return Refused(detail=f"rolled back at commit: {_said(error)}")
    return Unknown(detail=f"the commit was not confirmed: {_said(error)}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip()[:500]
