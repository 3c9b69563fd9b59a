"""What every kind of test shares: a database that is emptied fast, even where triggers refuse a DELETE."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test import TransactionTestCase

from tests.browser import ARGUMENTS, CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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


ROLES = ("viewer", "approver", "operator", "admin")


def _tables_to_empty() -> list[str]:
    present = set(connection.introspection.table_names())
    owned = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    ours = {name for name in present if name.startswith(("coordinator_", "console_"))}
    return sorted(((owned & present) | ours) - KEPT)


def empty_all_tables() -> None:
    """One TRUNCATE of everything that tests write. It fires no row trigger, so no guard can refuse it.

    Tests leave their connections idle; a straggler that still holds a lock is ended rather than waited for.
    """
    names = ", ".join(connection.ops.quote_name(name) for name in _tables_to_empty())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '30s'")
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND state LIKE 'idle in transaction%' AND application_name LIKE 'tenure%'"
        )
        cursor.execute(f"TRUNCATE {names} RESTART IDENTITY")
        # A table that is kept: only what the migrations have filled it with.
        cursor.execute(
            "WITH others AS (SELECT id FROM auth_group WHERE name <> ALL (%s)), permitted AS ("
            " DELETE FROM auth_group_permissions WHERE group_id IN (SELECT id FROM others))"
            " DELETE FROM auth_group WHERE id IN (SELECT id FROM others)",
            [list(ROLES)],
        )
    forget_the_record()


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


def _fixture_teardown(self: TransactionTestCase) -> None:
    empty_all_tables()


@pytest.fixture(autouse=True, scope="session")
def _truncate_instead_of_flush() -> Iterator[None]:
    """Tests with real commits (`@pytest.mark.django_db(transaction=True)`) end in one TRUNCATE, not Django's flush."""
    original: Callable[[Any], None] = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]
    TransactionTestCase._fixture_teardown = _fixture_teardown  # type: ignore[attr-defined]
    yield
    TransactionTestCase._fixture_teardown = original  # type: ignore[attr-defined]


#: Making and dropping a database is no statement of a service: on a busy machine it takes longer than those may.
_PATIENT = "-c statement_timeout=0"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> str:
    """Before the database is made: no limits. They are back before the first test (`django_db_setup`)."""
    limits: str = connection.settings_dict["OPTIONS"]["options"]
    connection.settings_dict["OPTIONS"]["options"] = _PATIENT
    return limits


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_modify_db_settings: str, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """Compares the database's identity once; at the end ends the listener that a waiting hint has started.

    Its connection would keep the database from being dropped.
    """
    with django_db_blocker.unblock():
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        connection.settings_dict["OPTIONS"]["options"] = django_db_modify_db_settings
        forget_the_record()
        from coordinator.services.identity import confirm_identity

        assert not confirm_identity()
    yield
    from coordinator.services import hints

    pytest.MonkeyPatch().setattr(hints._Listener, "idle_seconds", 0.0)
    if hints._listener._thread is not None:
        hints._listener._thread.join(10)
    connection.settings_dict["OPTIONS"]["options"] = _PATIENT


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """The one browser of a test process: a second driver in the same thread is refused by the first one's loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()
