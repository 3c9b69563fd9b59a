"""Doubts about the database for tests: signs of a restore, made by hand; nobody copies a server here."""

from dataclasses import replace
from typing import Any

from django.db import connection

from coordinator.outcomes import Refusal
from coordinator.outside import Record, change_record, read_record
from coordinator.services import identity
from coordinator.services.restores import Restored, after_restore
from tests import world

REASON = "restored the backup of last night"


def on_file() -> Record:
    """What is kept outside of this database."""
    found = read_record(identity.record_path(), identity.database_name())
    assert found is not None
    return found


def keep(**changes: Any) -> None:
    """Let the outside record say something else."""
    change_record(
        identity.record_path(),
        identity.database_name(),
        lambda kept: replace(kept, **changes) if kept else None,
    )


def copy_the_database() -> None:
    """As in a copy on another server: what the database says of itself is another system's."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_installation SET system_identifier = '1', server_started = now() - interval '1 day',"
            " sealed_by = pg_current_xact_id()::xid::text"
        )


def restart_the_server() -> None:
    """Nobody has compared since the server's start."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_installation SET server_started = now() - interval '1 day',"
            " sealed_by = pg_current_xact_id()::xid::text"
        )


def restored(**fields: Any) -> Restored:
    """`after_restore` as a person runs it who has looked."""
    answer = try_restore(**fields)
    assert isinstance(answer, Restored), answer
    return answer


def try_restore(**fields: Any) -> Restored | Refusal:
    given: dict[str, Any] = {
        "confirm": identity.database_name(),
        "reason": REASON,
        "actor": world.operator(name="olga"),
    }
    return after_restore(**(given | fields))
