"""Spans of the coordinator: request → service → round of statements. Off unless a tracer was started (contract 14).

Knows no OpenTelemetry of its own, so that it costs one comparison where tracing is off;
coordinator/site/tracing.py starts it. Never in a span: parameters, bodies, tokens.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, Protocol

MAX_NAMED: Final = 32
_TARGET: Final = re.compile(
    r"(INSERT INTO|UPDATE|DELETE FROM|FROM)\s+(?:ONLY\s+)?coordinator_(\w+)", re.IGNORECASE
)
_CALLED: Final = re.compile(r"(pg_\w+|set_config|clock_timestamp)", re.IGNORECASE)


class Tracer(Protocol):
    """What starts spans: made by coordinator/site/tracing.py."""

    def span(self, name: str, *, carrier: Mapping[str, str] | None, **told: Any) -> Any:
        """A context manager; what it yields has `set_attribute` and `update_name`."""


_tracer: Tracer | None = None


def start(tracer: Tracer | None) -> None:
    """Trace from now on; None ends it."""
    global _tracer  # noqa: PLW0603 (one for the process, like its log)
    _tracer = tracer


def is_on() -> bool:
    return _tracer is not None


@contextmanager
def span(name: str, *, carrier: Mapping[str, str] | None = None, **told: Any) -> Iterator[Any]:
    """A span around what is done inside, within the current one, or the one that `carrier`'s headers name."""
    if _tracer is None:
        yield None
        return
    with _tracer.span(name, carrier=carrier, **told) as current:
        yield current


def told_of_round(statements: Sequence[str]) -> dict[str, Any]:
    """What a span tells of a round: the statements' names, never their parameters."""
    names = [statement_name(sql) for sql in statements[:MAX_NAMED]]
    return {
        "db.system.name": "postgresql",
        "db.operation.batch.size": len(statements),
        "tenure.statements": names,
    }


@lru_cache(maxsize=1_000)
def statement_name(sql: str) -> str:
    """`UPDATE task`, `SELECT event`, `set_config`: what it does to which table."""
    found = _TARGET.search(sql)
    if found is not None:
        verb = found[1].split()[0].upper()
        return f"{'SELECT' if verb == 'FROM' else verb} {found[2]}"
    called = _CALLED.search(sql)
    return called[1] if called else sql.split(maxsplit=1)[0].upper()
