"""Settings by environment: what production refuses, and one clear message for each value that makes no sense."""

import json
import re
import secrets

import pytest

from tests.site.launching import manage

SOUND = {
    "TENURE_ENV": "production",
    "SECRET_KEY": secrets.token_urlsafe(50),
    "ALLOWED_HOSTS": "tenure.example",
    "DATABASE_URL": "postgresql://tenure@127.0.0.1:5432/tenure",
}
SHOW = """
import json
from django.conf import settings
print(json.dumps({name: getattr(settings, name) for name in %r}, default=str))
"""


def settings_with(*names: str, **environment: str) -> dict[str, object]:
    done = manage("shell", "--no-imports", "-c", SHOW % (names,), **environment)
    assert done.returncode == 0, done.stderr
    shown: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return shown


def refusal_of(**environment: str) -> str:
    done = manage("check", **environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_sound_production_settings_pass_djangos_own_deployment_check() -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING", **SOUND)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"SECRET_KEY": ""}, "SECRET_KEY is missing"),
        ({"SECRET_KEY": "development-only-not-a-secret"}, "SECRET_KEY is missing, the default"),
        ({"SECRET_KEY": "short"}, "shorter than 50"),
        ({"DEBUG": "1"}, "DEBUG is on: unset it"),
        ({"ALLOWED_HOSTS": ""}, "ALLOWED_HOSTS is empty"),
        ({"ALLOWED_HOSTS": "*"}, "ALLOWED_HOSTS is empty or `\\*`"),
        ({"DATABASE_URL": "sqlite:///db.sqlite3"}, "not PostgreSQL"),
        ({"DATABASE_URL": "mysql://u:p@127.0.0.1/x"}, "not PostgreSQL"),
    ],
)
def test_production_refuses_to_start(change: dict[str, str], complaint: str) -> None:
    assert re.search(complaint, refusal_of(**{**SOUND, **change}))


def test_production_names_all_its_faults_at_once() -> None:
    told = refusal_of(TENURE_ENV="production", DEBUG="yes", ALLOWED_HOSTS="*")
    assert "SECRET_KEY" in told
    assert "DEBUG" in told
    assert "ALLOWED_HOSTS" in told


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"TENURE_ENV": "staging"}, "TENURE_ENV='staging' is not known.*development, production"),
        ({"DEBUG": "perhaps"}, "DEBUG='perhaps' is neither yes nor no"),
        ({"TENURE_DB_POOL_MAX": "many"}, "TENURE_DB_POOL_MAX='many' is not a whole number"),
        ({"TENURE_DB_POOL_MAX": "0"}, "TENURE_DB_POOL_MAX=0 is out of range. Choose 1 to 200"),
        ({"TENURE_BLOB_STORAGE_OPTIONS": "{"}, "TENURE_BLOB_STORAGE_OPTIONS is not valid JSON"),
        ({"TENURE_BLOB_STORAGE_OPTIONS": "[]"}, "must be a JSON object"),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL is not a database address"),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_the_mend(
    change: dict[str, str], complaint: str
) -> None:
    assert re.search(complaint, refusal_of(**change))


def test_production_sends_cookies_over_tls_only_and_asks_browsers_to_remember_that() -> None:
    shown = settings_with(
        "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS", "DEBUG", **SOUND
    )
    assert shown["SESSION_COOKIE_SECURE"] is True
    assert shown["CSRF_COOKIE_SECURE"] is True
    assert shown["SECURE_HSTS_SECONDS"] == 31_536_000
    assert shown["DEBUG"] is False


def test_database_waits_are_shorter_than_the_shortest_lease_unless_turned_off() -> None:
    shown = settings_with("DATABASES", TENURE_LOCK_TIMEOUT_MS="1500", TENURE_DB_TIMEOUTS="on")
    options = str(shown["DATABASES"])
    assert "-c lock_timeout=1500 -c statement_timeout=4000" in options
    assert "-c idle_in_transaction_session_timeout=3000" in options
    unhurried = str(settings_with("DATABASES", TENURE_DB_TIMEOUTS="off")["DATABASES"])
    assert "lock_timeout" not in unhurried


def test_commands_that_may_take_long_have_no_timeouts() -> None:
    assert "lock_timeout" not in str(settings_with("DATABASES")["DATABASES"])


def test_a_socket_in_the_database_url_reaches_the_broker_unquoted() -> None:
    shown = settings_with(
        "CELERY_BROKER_TRANSPORT_OPTIONS", DATABASE_URL="postgresql://me@%2Frun%2Fpg/mine"
    )
    options = shown["CELERY_BROKER_TRANSPORT_OPTIONS"]
    assert isinstance(options, dict)
    assert options["conn_string"] == "user=me dbname=mine host=/run/pg"


def test_an_outside_broker_replaces_the_queues_in_the_database() -> None:
    shown = settings_with(
        "CELERY_BROKER_URL",
        "CELERY_BROKER_TRANSPORT_OPTIONS",
        CELERY_BROKER_URL="redis://10.0.0.1/0",
    )
    assert shown == {
        "CELERY_BROKER_URL": "redis://10.0.0.1/0",
        "CELERY_BROKER_TRANSPORT_OPTIONS": {},
    }


def test_blobs_go_to_any_storage_that_django_knows() -> None:
    shown = settings_with(
        "STORAGES",
        TENURE_BLOB_STORAGE="storages.backends.s3.S3Storage",
        TENURE_BLOB_STORAGE_OPTIONS='{"bucket_name": "blobs"}',
    )
    storages = shown["STORAGES"]
    assert isinstance(storages, dict)
    assert storages["blobs"] == {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {"bucket_name": "blobs"},
    }
