"""The server's clock of a case: `advance` moves every stored instant back, which is the same. Nobody sleeps."""

from django.db import connection

from tests import world

_INSTANTS = {
    "task": ("not_before", "claimable_at", "lease_expires_at", "ready_at"),
    "attempt": ("started_at", "lease_expires_at"),
    "storedanswer": ("created_at",),
    "dispatch": ("accepted_at", "call_deadline"),
    "effectslot": (
        "first_accepted_at",
        "accepted_at",
        "call_deadline",
        "unknown_since",
        "probe_after",
    ),
    "lookup": ("started_at",),
    "approval": ("requested_at", "expires_at"),
}


def advance(seconds: float) -> None:
    """Let `seconds` pass for all leases, backoffs, deadlines, look-ups, approvals and stored answers."""
    with world.guarded(), connection.cursor() as cursor:
        # A deadline is a fact of its dispatch, a stamp one of its look-up: triggers let nobody move them.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        for table, columns in _INSTANTS.items():
            moved = ", ".join(f"{each} = {each} - make_interval(secs => %s)" for each in columns)
            cursor.execute(f"UPDATE coordinator_{table} SET {moved}", [seconds] * len(columns))
        cursor.execute("SET LOCAL session_replication_role = origin")
