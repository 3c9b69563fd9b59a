"""The one database: which it is, how its connections are pooled, and how long anything in it may take."""

from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from coordinator.site import environment
from coordinator.site.places import default_places

POSTGRESQL = "django.db.backends.postgresql"
#: The same, with a pool that looks before it hands out.
ENGINE = "coordinator.site.postgresql"


def database_url(state: Path) -> str:
    """DATABASE_URL, else the server that `up` runs for this state folder (whether or not it is up right now)."""
    given = environment.text("DATABASE_URL")
    if given:
        return given
    try:
        return (state / "database_url").read_text().strip()
    except OSError:
        return default_places(state).url


def database_settings(state: Path) -> dict[str, Any]:
    """Django's settings for the database. Raises ImproperlyConfigured for a URL that isn't PostgreSQL's."""
    url = database_url(state)
    try:
        parsed: dict[str, Any] = {**dj_database_url.parse(url)}
    except (ValueError, dj_database_url.UnknownSchemeError) as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL is not a database address ({type(error).__name__}). "
            "Write it as postgresql://USER:PASSWORD@HOST:5432/NAME, or leave it out for the embedded server."
        ) from None
    if parsed.get("ENGINE") != POSTGRESQL:
        raise ImproperlyConfigured(
            "DATABASE_URL names a database that is not PostgreSQL. Tenure's fences are PostgreSQL's locks, constraints "
            "and triggers: use postgresql://USER:PASSWORD@HOST:5432/NAME, or leave it out for the embedded server."
        )
    if not parsed.get("NAME"):
        raise ImproperlyConfigured(
            "DATABASE_URL has no database name. Write postgresql://USER@HOST:5432/NAME."
        )
    parsed["ENGINE"] = ENGINE
    options: dict[str, Any] = parsed.setdefault("OPTIONS", {})
    options["application_name"] = environment.text("TENURE_PROCESS_NAME", "tenure")
    options["options"] = " ".join(filter(None, [options.get("options", ""), *_server_timeouts()]))
    options["pool"] = {
        "min_size": environment.number("TENURE_DB_POOL_MIN", 1, maximum=200),
        "max_size": environment.number("TENURE_DB_POOL_MAX", 8, minimum=1, maximum=200),
        "timeout": environment.number("TENURE_DB_POOL_TIMEOUT_SECONDS", 5, minimum=1),
    }
    parsed["CONN_MAX_AGE"] = 0  # the pool keeps them
    parsed["CONN_HEALTH_CHECKS"] = environment.flag("TENURE_DB_HEALTH_CHECKS")
    return parsed


def _server_timeouts() -> list[str]:
    """Contract 4: shorter than the shortest lease, so that a frozen process cannot hold a gate."""
    if environment.text("TENURE_DB_TIMEOUTS", "on") == "off":
        return []
    lock = environment.number("TENURE_LOCK_TIMEOUT_MS", 2000)
    statement = environment.number("TENURE_STATEMENT_TIMEOUT_MS", 4000)
    idle = environment.number("TENURE_IDLE_TRANSACTION_TIMEOUT_MS", 3000)
    return [
        f"-c lock_timeout={lock}",
        f"-c statement_timeout={statement}",
        f"-c idle_in_transaction_session_timeout={idle}",
    ]


def server_keywords() -> dict[str, Any]:
    """The configured database as keywords for a plain psycopg connection: no pool and no timeouts."""
    from django.db import connection

    parameters: dict[str, Any] = connection.get_connection_params()
    own = {
        "pool",
        "options",
        "context",
        "cursor_factory",
        "prepare_threshold",
        "server_side_binding",
    }
    return {name: value for name, value in parameters.items() if name not in own}


def drop_broken_connections() -> None:
    """After an answer of 5xx: where this thread's connection is broken, its pool's idle ones likely are as well.

    PostgreSQL has restarted, or another took over. What its server has ended is put away before it is used
    (postgresql/base.py); what a network has dropped without a word would cost a later call its answer each.
    Asked all at once, they are replaced now.
    """
    from django.db import connections

    for wrapper in connections.all(initialized_only=True):
        held = wrapper.connection is not None and wrapper.errors_occurred
        if (
            held
            and not wrapper.is_usable()
            and (pool := getattr(wrapper, "pool", None)) is not None
        ):
            pool.check()
