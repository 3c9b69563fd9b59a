"""`python -m coordinator.site.prepare`: what must be in the database before the first request.

Run by `up`, and by hand before a rolling upgrade. Safe to repeat, and from several machines at once: they take turns.
Answers one line of JSON; trouble that was foreseen is one line on stderr that begins with `error: `, exit code 1.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from coordinator.site.claimed import StateFolder

MINIMUM_SERVER = 150_000
CONNECT_SECONDS = 5
MIGRATION_LOCK = (0x7E14, 1)  # advisory; the classes of contract 4's gates are other numbers
OPERATOR = "admin"


class PrepareError(Exception):
    """One sentence with the mend."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--demo", action="store_true", help="also make the example fleet's credential"
    )
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    os.environ.setdefault("TENURE_DB_TIMEOUTS", "off")
    from django.core.exceptions import ImproperlyConfigured

    try:
        answer = prepare(demo=options.demo)
    except (PrepareError, ImproperlyConfigured) as error:
        sys.exit(f"error: {error}")
    print(json.dumps(answer))


def prepare(*, demo: bool) -> dict[str, str]:
    """Migrate, collect static files in production, and see to the operator and the demo's credential."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    from coordinator.site.broker import OWN_BROKER_URL, install_queues

    django.setup()
    with _turn() as turn:
        call_command("migrate", interactive=False, verbosity=0)
        if settings.CELERY_BROKER_URL == OWN_BROKER_URL:
            install_queues(turn)
        if settings.PRODUCTION:
            call_command("collectstatic", interactive=False, verbosity=0)
        from coordinator.services.identity import confirm_identity

        state = StateFolder(Path(settings.STATE_DIR))
        answer = {"held": confirm_identity(), "sign_in": _see_to_operator(state)}
        if demo:
            from coordinator.site.demo import see_to_demo

            answer["fleet_token"] = see_to_demo(state)
    return answer


@contextmanager
def _turn() -> Iterator[psycopg.Connection[Any]]:
    """Hold the migration lock on a connection of its own; refuse a server that is missing or too old."""
    from coordinator.site.databases import server_keywords

    try:
        turn = psycopg.connect(
            **server_keywords(), connect_timeout=CONNECT_SECONDS, autocommit=True
        )
    except psycopg.OperationalError as error:
        raise PrepareError(
            f"The database cannot be reached: {_first_line(error)}. Start that server, or correct DATABASE_URL, "
            "or leave DATABASE_URL out to use the embedded one."
        ) from error
    with turn:
        version = turn.info.server_version
        if version < MINIMUM_SERVER:
            raise PrepareError(
                f"The database is PostgreSQL {version // 10_000}; Tenure needs 15 or newer."
            )
        turn.execute("SELECT pg_advisory_lock(%s, %s)", MIGRATION_LOCK)
        yield turn


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _see_to_operator(state: StateFolder) -> str:
    """How to sign in. The first start makes `admin` with a random password, kept in the state folder."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    users = get_user_model().objects
    user = users.filter(username=OPERATOR).first()
    if user is None and users.exists():
        return "sign in with your own account"
    kept = state.path / "admin_password"
    if user is None:
        kept.unlink(missing_ok=True)  # of an earlier database
        user = users.create_superuser(OPERATOR, password=state.secret(kept.name, random_bytes=12))
        user.groups.add(Group.objects.get(name="admin"))
    if kept.exists() and user.check_password(kept.read_text().strip()):
        return f"sign in as {OPERATOR} with the password {kept.read_text().strip()}"
    return f"sign in as {OPERATOR} with the password you chose (`manage.py changepassword {OPERATOR}` sets a new one)"


if __name__ == "__main__":
    main()
