"""What every kind of test shares: a database that is emptied fast, even where triggers refuse a DELETE."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings

from tests.browser import ARGUMENTS, CHROMIUM
from tests.emptying import (
    assert_no_setting_is_left,
    empty_all_tables,
    end_other_sessions,
    forget_the_record,
    reset_session,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile(
    "untimed",
    parent=settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")


def _fixture_teardown(self: TransactionTestCase) -> None:
    empty_all_tables()
    assert_no_setting_is_left()


@pytest.fixture(autouse=True, scope="session")
def _truncate_instead_of_flush() -> Iterator[None]:
    """Tests with real commits (`@pytest.mark.django_db(transaction=True)`) are emptied by us, not by Django's flush."""
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

    Its connection would keep the database from being dropped, and so would one that a thread of a server has kept.
    """
    with django_db_blocker.unblock():
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        connection.settings_dict["OPTIONS"]["options"] = django_db_modify_db_settings
        connection.settings_dict["OPTIONS"]["pool"]["reset"] = reset_session
        forget_the_record()
        from coordinator.services.identity import confirm_identity

        assert not confirm_identity()
    yield
    from coordinator.services import hints

    pytest.MonkeyPatch().setattr(hints._Listener, "idle_seconds", 0.0)
    if hints._listener._thread is not None:
        hints._listener._thread.join(10)
    connection.settings_dict["OPTIONS"]["options"] = _PATIENT
    with django_db_blocker.unblock():
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        end_other_sessions()


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What is kept beside the database belongs to one test: a queue's id is another one's next, its epoch begins anew.

    A test that is rolled back takes back neither what the process remembers nor the record outside.
    """
    _forget()
    yield
    _forget()


def _forget() -> None:
    from coordinator.api.remembering import WORKERS
    from coordinator.api.throttling import FAILURES
    from coordinator.outside import change_record
    from coordinator.services import identity, queue_ids

    for forget in (FAILURES.forget, WORKERS.forget, queue_ids.forget):
        forget()
    change_record(identity.record_path(), identity.database_name(), lambda _: None)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """The one browser of a test process: a second driver in the same thread is refused by the first one's loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()
