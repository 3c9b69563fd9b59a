"""Whether this database is the one that it says it is (contract 12): a copy, a restore and a promoted standby are not.

Compared are three things: what the server says of itself, what stands inside the database, and what is kept outside
of it. The answer is written into one row, which every claim and acceptance reads with its queue; it stands until the
server starts anew. Whoever finds that nobody has compared since then does it, and goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import connection, transaction

from coordinator.actors import Actor, system
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.outside import Identity, Record, Unreadable, change_record, read_record
from coordinator.rounds import Statement, name_point, run_round

from .events import EventKind, Fact, record
from .locking import QueueRow, read_hold

MAX_QUEUES: Final = 100_000
MEND: Final = (
    "Intake is held and nothing is sent until an operator has run `manage.py after_restore`."
)
_STANDBY: Final = "The server is a standby: it grants nothing before it is promoted."
_UNREADABLE: Final = (
    "The record that is kept outside the database can't be read, so that nobody can say whether this is still the same"
    " database. Intake is held until it can be read again; `manage.py doctor` tells where it is."
)

log = structlog.get_logger("tenure.identity")


class IdentityUnknown(Exception):
    """Nobody has compared since the server's start. Not for callers: their transaction is begun anew after that."""


@dataclass(frozen=True, slots=True)
class Found:
    """The database as it is now. `inside`: what it says of itself; `sealed`: whether it has written that itself."""

    own: Identity
    inside: Identity | None
    sealed: bool
    log_position: int
    epochs: Mapping[str, int]
    server_started: datetime
    compared_at_start: datetime | None
    held_because: str | None
    held_for_good: bool
    clock: datetime


def record_path() -> Path:
    return Path(settings.IDENTITY_FILE)


def database_name() -> str:
    return str(connection.settings_dict["NAME"])


def hold_of(row: QueueRow) -> str:
    """Why intake is held, or empty. Raises IdentityUnknown, which `in_transaction` answers by comparing."""
    if row.hold is None:
        raise IdentityUnknown
    return row.hold


def held(hold: str) -> Refusal:
    """What claims and acceptances are told meanwhile."""
    return Refusal(Outcome.INTAKE_STOPPED, hold, evidence_recorded=True)


def standing_hold() -> str:
    """Why intake is held, or empty; compares where nobody has since the server's start. For what is about to go out."""
    with connection.cursor() as cursor:
        statement = read_hold()
        cursor.execute(statement.sql)
        ((hold,),) = cursor.fetchall()
    return confirm_identity() if hold is None else str(hold)


def confirm_identity() -> str:
    """Compare, write down what was found, and bring the outside record up to date; why intake is held, or empty.

    A database without any queue is a new one, and takes itself for what it is. Otherwise a difference holds intake
    until `after_restore` has run: another server, timeline or database than is on file, rows that were loaded from a
    dump, a log that is behind the record, an epoch below one that was seen. Safe to repeat and to run many at once.
    """
    try:
        kept = read_record(
            record_path(), database_name()
        )  # before the epochs: they may rise between
    except Unreadable as error:
        log.exception("identity", problem=str(error))
        return _compare(None, unreadable=True)
    return _compare(kept, unreadable=False)


def _compare(kept: Record | None, *, unreadable: bool) -> str:
    with transaction.atomic():
        found = look()
        if found is None:
            return _STANDBY
        if found.held_because and found.held_for_good:
            return found.held_because
        because = differences(found, kept)
        hold = f"{because[0]} {MEND}" if because else _UNREADABLE if unreadable else ""
        _write_down(found, hold, because)
    if not hold:
        keep_outside(found)
    return hold


def differences(found: Found, kept: Record | None) -> list[str]:
    """Each sign that this is not the database as it was last seen, in a sentence; none where it is, or is new."""
    if not found.epochs:
        return []
    told = []
    if found.inside is not None and found.inside != found.own:
        told.append(f"This database was another one: {found.inside} is now {found.own}.")
    elif found.inside is not None and not found.sealed:
        told.append("The rows of this database were loaded from a dump.")
    if kept is not None and kept.identity != found.own:
        told.append(f"The record outside names another database: {kept.identity}, not {found.own}.")
    elif kept is not None and kept.log_position > found.log_position:
        told.append("This database was set back: its log ends before the position that was seen.")
    if kept is not None:
        told += [
            f"Queue {name!r} had epoch {epoch}; here it has {found.epochs.get(name, 'none')}."
            for name, epoch in sorted(kept.epochs.items())
            if found.epochs.get(name, 0) < epoch
        ]
    return told


# --- reading and writing -----------------------------------------------------------------------------------------

_IN_RECOVERY: Final = Statement("SELECT pg_is_in_recovery()")
_ROW: Final = Statement(
    "SELECT system_identifier, timeline, database_oid, database, sealed_by = xmin::text, server_started,"
    " held_because, held_for_good FROM coordinator_installation WHERE id = 1 FOR UPDATE"
)
#: The timeline by the log itself: the control file learns of a promotion only with the next checkpoint. What is
#: flushed is there after any crash.
_SERVER: Final = Statement(
    "SELECT (pg_control_system()).system_identifier::text,"
    " ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint, d.oid::bigint, d.datname::text,"
    " (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint, pg_postmaster_start_time()"
    " FROM pg_database d WHERE d.datname = current_database()"
)
_EPOCHS: Final = Statement(
    "SELECT name, scheduler_epoch FROM coordinator_queue ORDER BY name LIMIT %s", (MAX_QUEUES,)
)
_FILE: Final = """
INSERT INTO coordinator_installation
  (id, system_identifier, timeline, database_oid, database, server_started, sealed_by, held_because, held_for_good,
   held_since, confirmed_by)
VALUES (1, %s, %s, %s, %s, %s, pg_current_xact_id()::xid::text, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET
  system_identifier = excluded.system_identifier, timeline = excluded.timeline, database_oid = excluded.database_oid,
  database = excluded.database, server_started = excluded.server_started, sealed_by = excluded.sealed_by,
  held_because = excluded.held_because, held_for_good = excluded.held_for_good, held_since = excluded.held_since,
  confirmed_by = excluded.confirmed_by
"""


def look() -> Found | None:
    """Lock the installation's row and read everything that is compared, in the open transaction. None on a standby."""
    (((in_recovery,),),) = run_round(_IN_RECOVERY)
    if in_recovery:
        return None
    _, rows, servers, epochs, clock = run_round(
        name_point("identity"), _ROW, _SERVER, _EPOCHS, CLOCK
    )
    *own, log_position, server_started = servers[0]
    *inside, sealed, compared_at_start, because, for_good = rows[0] if rows else (None,) * 8
    return Found(
        own=Identity(*own),
        inside=Identity(*inside) if rows else None,
        sealed=bool(sealed),
        log_position=log_position,
        epochs=dict(epochs),
        server_started=server_started,
        compared_at_start=compared_at_start,
        held_because=because,
        held_for_good=bool(for_good),
        clock=clock_of(clock),
    )


def file_identity(
    found: Found, identity: Identity, *, hold: str, for_good: bool, actor: Actor
) -> Statement:
    """The installation's row, sealed by this transaction, which has to be the outermost."""
    because = hold or None
    return Statement(
        _FILE,
        (
            identity.system_identifier,
            identity.timeline,
            identity.database_oid,
            identity.database,
            found.server_started,
            because,
            for_good,
            found.clock if because else None,
            actor.label,
        ),
    )


def _write_down(found: Found, hold: str, because: Sequence[str]) -> None:
    """The row, where something in it changes; and the fact, where intake is held from now on."""
    standing = found.compared_at_start == found.server_started and found.inside == found.own
    if standing and found.sealed and hold == (found.held_because or ""):
        return
    actor = system("identity")
    identity = found.inside if because and found.inside is not None else found.own
    facts = []
    if hold and hold != found.held_because:
        log.error("intake is held", because=list(because) or hold)
        told = {"reason": hold, "signs": list(because), "is": str(found.own), "was": str(identity)}
        facts = [Fact(EventKind.IDENTITY_DOUBTED, data=told)]
    run_round(
        file_identity(found, identity, hold=hold, for_good=bool(because), actor=actor),
        *([record(facts, actor=actor, at=found.clock)] if facts else []),
    )


def keep_outside(found: Found) -> bool:
    """Bring the outside record up to date; whether it could be written. An older one is no harm, only less sharp."""
    name = found.own.database

    def seen(before: Record | None) -> Record:
        if before is None:
            return Record(found.own, found.log_position, dict(found.epochs))
        if before.identity != found.own:
            return before.followed_by(found.own, found.log_position).with_epochs(found.epochs)
        position = max(before.log_position, found.log_position)
        return replace(before, log_position=position).with_epochs(found.epochs)

    return _change(name, seen)


def remember_epochs(epochs: Mapping[str, int]) -> None:
    """Keep outside that these epochs were given. Called once a bump has committed; losing it makes the record older."""

    def seen(before: Record | None) -> Record | None:
        return before and before.with_epochs(epochs)

    _change(database_name(), seen)


def _change(name: str, change: Any) -> bool:
    try:
        change_record(record_path(), name, change)
    except (OSError, Unreadable) as error:
        log.exception("identity", problem=f"the record outside can't be written: {error}")
        return False
    return True


def confirm_if_ahead(queue: str, epoch: int) -> None:
    """After a fence ahead of this epoch: hold intake where the outside record is ahead of it too (contract 3)."""
    try:
        kept = read_record(record_path(), database_name())
    except Unreadable:
        return
    if kept is not None and kept.epochs.get(queue, 0) > epoch:
        confirm_identity()
