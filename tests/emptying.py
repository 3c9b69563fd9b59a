"""Emptying the database between tests: fast, even where triggers refuse a DELETE."""

from collections.abc import Sequence
from typing import Any, Final

from django.apps import apps
from django.db import connection, transaction

from tests.statistics import forget_statistics

# Filled by migrations; emptying them would leave the next test without roles and permissions.
KEPT = frozenset(
    {
        "django_migrations",
        "django_content_type",
        "auth_permission",
        "auth_group",
        "auth_group_permissions",
        "coordinator_installation",
    }
)


#: A test may take a permission from a role; the next one finds all roles as the migrations have filled them.
_GRANTS: Final = """
WITH wanted AS (
  SELECT g.id AS group_id, p.id AS permission_id FROM unnest(%s::text[], %s::text[]) AS w(role, name)
  JOIN auth_group g ON g.name = w.role JOIN auth_permission p ON p.codename = w.name
  JOIN django_content_type t ON t.id = p.content_type_id AND t.app_label = 'coordinator' AND t.model = 'access'),
given AS (
  INSERT INTO auth_group_permissions (group_id, permission_id) SELECT * FROM wanted ON CONFLICT DO NOTHING)
DELETE FROM auth_group_permissions WHERE (group_id, permission_id) NOT IN (SELECT * FROM wanted)
"""


def tables_of_tests() -> list[str]:
    present = set(connection.introspection.table_names())
    owned = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    ours = {name for name in present if name.startswith(("coordinator_", "console_"))}
    return sorted(((owned & present) | ours) - KEPT)


#: A table that has grown to more is truncated, which takes longer and gives its pages back.
_SMALL_BYTES = 256 * 1024


def empty_all_tables() -> None:
    """Take away everything that tests write, past the triggers that would refuse it, and what is known of its size.

    Small tables are emptied row by row: that takes a hundredth of the time of a TRUNCATE, which makes new files for
    each table and index. All are locked first: nobody who still writes leaves a row to the next test. Tests leave
    their connections idle; a straggler that still holds a lock is ended rather than waited for.
    """
    from coordinator.services.roles import ROLES

    granted = [(role, name) for role, names in ROLES.items() for name in sorted(names)]
    tables = tables_of_tests()
    names = ", ".join(connection.ops.quote_name(name) for name in tables)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '30s';"
            " SET LOCAL session_replication_role = replica"
        )
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10_000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND state LIKE 'idle in transaction%' AND application_name LIKE 'tenure%'"
        )
        cursor.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
        for name, size in occupied(cursor, tables):
            verb = "DELETE FROM {}" if size <= _SMALL_BYTES else "TRUNCATE {} CASCADE"
            cursor.execute(verb.format(connection.ops.quote_name(name)))
        cursor.execute(
            "SELECT setval(format('%%I.%%I', s.schemaname, s.sequencename)::regclass, s.start_value, false)"
            " FROM pg_sequences s WHERE s.last_value IS NOT NULL AND s.schemaname = 'public'"
            " AND regexp_replace(s.sequencename, '_id_seq$', '') <> ALL (%s)",
            [list(KEPT)],
        )
        # A table that is kept: only what the migrations have filled it with.
        cursor.execute(
            "WITH others AS (SELECT id FROM auth_group WHERE name <> ALL (%s)), permitted AS ("
            " DELETE FROM auth_group_permissions WHERE group_id IN (SELECT id FROM others))"
            " DELETE FROM auth_group WHERE id IN (SELECT id FROM others)",
            [list(ROLES)],
        )
        cursor.execute(_GRANTS, [[role for role, _ in granted], [name for _, name in granted]])
        forget_statistics(cursor)
    forget_the_record()


def make_anew(*names: str) -> None:
    """These tables (without their `coordinator_`), and what refers to them, are as in a new database: files and all.

    For a test that counts pages: what was emptied row by row keeps its dead rows, and the index entries of these.
    """
    tables = ", ".join(f"coordinator_{name}" for name in names)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(f"TRUNCATE {tables} CASCADE")


def end_other_sessions() -> None:
    """All connections to this database but the one that says so."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid, 10_000)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def reset_session(session: Any) -> None:
    """Before the pool hands a connection to the next one: what a test has SET on it would decide what others meet."""
    session.execute("RESET ALL")
    session.commit()


_LEFT: Final = "SELECT name FROM pg_settings WHERE source = 'session' ORDER BY name"


def assert_no_setting_is_left() -> None:
    """A test that SETs something on its own connection takes it back: the next test finds the same connection."""
    with connection.cursor() as cursor:
        cursor.execute(_LEFT)
        left = [name for (name,) in cursor.fetchall()]
        if left:
            cursor.execute("RESET ALL")
    assert not left, f"the test has left its session with other settings: {', '.join(left)}"


def occupied(cursor: Any, tables: Sequence[str]) -> list[tuple[str, int]]:
    """Those of the tables that hold a row, each with its size in bytes."""
    cursor.execute(
        " UNION ALL ".join(
            f"SELECT '{name}', pg_relation_size('{name}') WHERE EXISTS (SELECT FROM \"{name}\")"
            for name in tables
        )
    )
    return list(cursor.fetchall())


def forget_the_record() -> None:
    """The next test begins with an empty database that nobody has seen before, and that is in no doubt."""
    from coordinator.outside import change_record
    from coordinator.services import identity

    change_record(identity.record_path(), identity.database_name(), lambda _: None)
    if identity.standing_hold():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('tenure.point', 'test', true)")
            cursor.execute("DELETE FROM coordinator_installation")
        assert not identity.confirm_identity()
