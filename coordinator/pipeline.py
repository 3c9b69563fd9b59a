"""Many prepared statements in one network round trip, on libpq's pipeline mode.

psycopg's own pipeline waits for the socket after each `execute`; here all statements are
sent, then all results are read: 4 µs a statement instead of 20. Parameters go as text
without a type (literals.py): the statement's own casts say what they are, so that a
statement is prepared once, whatever values it gets.
"""

import itertools
import re
import select
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg import pq
from psycopg.abc import Transformer as AdaptTransformer
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.errors import error_from_result
from psycopg.types.string import TextLoader

from coordinator.literals import literal

#: A connection prepares so many different statements; further ones are sent unprepared.
MAX_PREPARED: Final = 500
#: How long the plans of a connection are kept: at first for this long, then for so many times as long as it has them
#: already, in the end for this long.
FIRST_PLANS_SECONDS: Final = 0.5
PLANS_LAST_TIMES: Final = 4
LONGEST_PLANS_SECONDS: Final = 600.0
_PLACEHOLDER: Final = re.compile(r"%[s%]")
_DONE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)

_prepared: "WeakKeyDictionary[psycopg.Connection[Any], dict[str, bytes]]" = WeakKeyDictionary()
_plans: "WeakKeyDictionary[psycopg.Connection[Any], Plans]" = WeakKeyDictionary()
_names: Final = itertools.count()
_numbered: dict[str, bytes] = {}


class _Adaption:
    """How results are read: JSON as the text that it is, all else by psycopg; instants are UTC."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        for name in ("json", "jsonb"):
            self.adapters.register_loader(name, TextLoader)


_ADAPTION: Final = _Adaption()


class Statement(NamedTuple):
    """SQL with `%s` placeholders and its parameters."""

    sql: str
    params: Sequence[Any] = ()


def run(
    connection: "psycopg.Connection[Any]", statements: Sequence[Statement]
) -> list[list[tuple[Any, ...]]]:
    """Run the statements in order, in the connection's transaction (begun if need be); the rows of each.

    The first error is raised after the whole answer was read, so that the connection stays
    usable; the statements after it have not run.
    """
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    try:
        begins = (
            pgconn.transaction_status == pq.TransactionStatus.IDLE and not connection.autocommit
        )
        if begins:
            pgconn.send_query_params(b"BEGIN", None)
        discards = plans_of(connection).are_old()
        if discards:
            pgconn.send_query_params(b"DISCARD PLANS", None)
        sent = [_send(connection, statement) for statement in statements]
        pgconn.pipeline_sync()
        results = iter(_read(pgconn))
        pgconn.exit_pipeline_mode()
    except BaseException:
        pgconn.finish()  # half an answer is still on the wire: nobody may use this connection again
        raise
    begun = [next(results) for _ in range(begins + discards)]
    answers = [_Answer(each, next(results) if each else None, next(results)) for each in sent]
    _forget_unprepared(connection, answers)
    _raise_first(connection, begun, answers)
    transformer = Transformer(_ADAPTION)
    return [_rows(transformer, answer.result) for answer in answers]


class Plans:
    """When the plans that a connection's statements and triggers have are to be made anew.

    A plan that is kept was made for tables of the size that they had then. It is made anew for larger ones only
    once they are analyzed: in the first minute of a server, claims and commits would read every row by a plan for none.
    """

    __slots__ = ("_due", "_since")

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._due = self._since + FIRST_PLANS_SECONDS

    def grow_old(self) -> None:
        """They are discarded before the next statements."""
        self._due = self._since

    def are_old(self) -> bool:
        """Whether they are discarded now; the next time comes so many times later."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + min(LONGEST_PLANS_SECONDS, PLANS_LAST_TIMES * (now - self._since))
        return True


def plans_of(connection: "psycopg.Connection[Any]") -> Plans:
    known = _plans.get(connection)
    if known is None:
        known = _plans[connection] = Plans()
    return known


def _send(connection: "psycopg.Connection[Any]", statement: Statement) -> str | None:
    """Send it; its text, where it has just been prepared."""
    pgconn = connection.pgconn
    values = [literal(value) for value in statement.params]
    names = _prepared.setdefault(connection, {})
    name = names.get(statement.sql)
    if name is not None:
        pgconn.send_query_prepared(name, values)
        return None
    if len(names) >= MAX_PREPARED:
        pgconn.send_query_params(_number(statement.sql), values)
        return None
    name = names[statement.sql] = b"tenure_%d" % next(_names)
    pgconn.send_prepare(name, _number(statement.sql))
    pgconn.send_query_prepared(name, values)
    return statement.sql


class _Answer(NamedTuple):
    prepared: str | None  # the text that was prepared with it
    preparing: "pq.abc.PGresult | None"
    result: "pq.abc.PGresult"


def _forget_unprepared(connection: "psycopg.Connection[Any]", answers: Sequence[_Answer]) -> None:
    for answer in answers:
        if answer.prepared and answer.preparing and answer.preparing.status not in _DONE:
            del _prepared[connection][answer.prepared]


def _raise_first(
    connection: "psycopg.Connection[Any]",
    begun: Sequence["pq.abc.PGresult"],
    answers: Sequence[_Answer],
) -> None:
    told = (
        each for answer in answers for each in (answer.preparing, answer.result) if each is not None
    )
    for result in itertools.chain(begun, told):
        if result.status not in _DONE:  # those after the first failed one are only ABORTED
            raise error_from_result(result, encoding=connection.info.encoding)


def _rows(transformer: AdaptTransformer, result: "pq.abc.PGresult") -> list[tuple[Any, ...]]:
    if result.status != pq.ExecStatus.TUPLES_OK or not result.ntuples:
        return []
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


def _number(sql: str) -> bytes:
    """`%s` → `$1`, `$2`, … ; `%%` → `%`."""
    known = _numbered.get(sql)
    if known is None:
        count = 0

        def replace(found: re.Match[str]) -> str:
            nonlocal count
            if found[0] == "%%":
                return "%"
            count += 1
            return f"${count}"

        known = _PLACEHOLDER.sub(replace, sql).encode()
        _numbered[sql] = known
    return known


def _read(pgconn: "pq.abc.PGconn") -> list["pq.abc.PGresult"]:
    """All results up to the sync point, while sending what doesn't fit the socket at once."""
    results: list[pq.abc.PGresult] = []
    poll = select.poll()
    while pgconn.flush():
        poll.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        if any(events & select.POLLIN for _, events in poll.poll()):
            pgconn.consume_input()
    poll.register(pgconn.socket, select.POLLIN)
    while True:
        while pgconn.is_busy():
            poll.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            continue  # the end of one statement's results
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)
