"""What is wrong with this installation, and how to mend it. Reads; changes nothing."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core import checks
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError
from psycopg_pool import PoolTimeout

from coordinator.outside import Unreadable, read_record
from coordinator.site.broker import OWN_BROKER_URL
from coordinator.site.databases import server_keywords

MINIMUM_PYTHON = (3, 11)
MINIMUM_SERVER = 150_000
CONNECT_SECONDS = 3
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>\S+)(?P<condition>\s*;.*)?$"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `mend` is empty when it is in order."""

    what: str
    ok: bool
    detail: str
    mend: str = ""


def diagnose() -> list[Finding]:
    """All findings, in the order in which a person should mend them."""
    findings: list[Finding] = []
    for look in (
        _python,
        _dependencies,
        _git,
        _state_folder,
        _settings,
        _database,
        _outside_broker,
        _static_files,
    ):
        findings += look()
    return findings


def _python() -> Iterator[Finding]:
    running = sys.version_info[:3]
    yield Finding(
        "python",
        running >= MINIMUM_PYTHON,
        ".".join(map(str, running)),
        "" if running >= MINIMUM_PYTHON else "Use Python 3.11 or newer.",
    )


def _dependencies() -> Iterator[Finding]:
    pins = settings.BASE_DIR / "requirements" / "server.txt"
    missing, different, count = [], [], 0
    for line in pins.read_text().splitlines():
        pin = PIN.match(line.strip())
        if pin is None or pin["condition"]:  # of other platforms, or a comment
            continue
        count += 1
        try:
            installed = version(pin["name"])
        except PackageNotFoundError:
            missing.append(pin["name"])
            continue
        if installed != pin["version"]:
            different.append(f"{pin['name']} {installed} (pinned: {pin['version']})")
    told = [f"missing: {', '.join(missing)}"] if missing else []
    told += [f"other versions: {', '.join(different)}"] if different else []
    yield Finding(
        "dependencies",
        not missing,
        "; ".join(told) or f"{count} packages as pinned",
        f"{sys.executable} -m pip install -r requirements/server.txt" if missing else "",
    )


def _git() -> Iterator[Finding]:
    """Nothing here needs it, but for workers that push: one on this machine, such as the example's fleet."""
    path = shutil.which("git")
    yield Finding(
        "git",
        ok=True,
        detail=path or "not on the PATH: the example commits its report to no repository",
    )


def _state_folder() -> Iterator[Finding]:
    state: Path = settings.STATE_DIR
    nearest = next(folder for folder in (state, *state.parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        yield Finding(
            "state folder",
            ok=False,
            detail=f"{state} cannot be written",
            mend="Choose another with TENURE_STATE, or give this user the right to write there.",
        )
        return
    data = state / "postgres" / "data"
    if os.access(data.parent, os.X_OK) and data.exists() and not (data / "PG_VERSION").exists():
        yield Finding(
            "state folder",
            ok=False,
            detail=f"{data} is not a complete database folder",
            mend="Restore it from a backup, or move it away to start empty.",
        )
        return
    yield Finding(
        "state folder", ok=True, detail=str(state) + ("" if state.exists() else " (not made yet)")
    )


def _settings() -> Iterator[Finding]:
    try:
        messages = checks.run_checks(include_deployment_checks=settings.PRODUCTION)
    except ImportError as error:  # half an upgrade, or a package that is gone
        detail = f"the application cannot be loaded: {error}"
        yield Finding("settings", ok=False, detail=detail, mend="Install this version completely.")
        return
    faults = [
        message
        for message in messages
        if message.level >= (checks.WARNING if settings.PRODUCTION else checks.ERROR)
        and not message.is_silenced()
    ]
    for fault in faults:
        yield Finding(
            "settings",
            ok=False,
            detail=f"{fault.id}: {fault.msg}",
            mend=fault.hint or "See docs/configuration.md.",
        )
    if not faults:
        yield Finding(
            "settings", ok=True, detail=f"{settings.ENVIRONMENT}, nothing to complain about"
        )


def _database() -> Iterator[Finding]:
    """The server, and only if it answers: what lies in it."""
    outside = bool(os.environ.get("DATABASE_URL", "").strip())
    try:
        with psycopg.connect(**server_keywords(), connect_timeout=CONNECT_SECONDS) as probe:
            number = probe.info.server_version
    except psycopg.OperationalError as error:
        complaint = " ".join(str(error).split())
        mend = (
            "Start that server or correct DATABASE_URL." if outside else "Start it: manage.py up."
        )
        yield Finding("database", ok=False, detail=f"not reachable: {complaint}", mend=mend)
        return
    recent = number >= MINIMUM_SERVER
    shown = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    yield Finding("database", recent, shown, "" if recent else "Use PostgreSQL 15 or newer.")
    looks: dict[str, Callable[[], Finding]] = {"migrations": _migrations, "identity": _identity}
    if settings.CELERY_BROKER_URL == OWN_BROKER_URL:
        looks["broker"] = _own_broker
    for what, look in looks.items():
        try:
            yield look()
        except (OperationalError, PoolTimeout) as error:
            yield Finding(what, ok=False, detail=str(error), mend="Look at the database first.")


def _migrations() -> Finding:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan[:5])
    more = f" and {len(plan) - 5} more" if len(plan) > 5 else ""
    return Finding(
        "migrations",
        not plan,
        f"not applied: {names}{more}" if plan else "all applied",
        "manage.py migrate" if plan else "",
    )


def _identity() -> Finding:
    """Whether the database is the one that is on file, as it was last found."""
    path: Path = settings.IDENTITY_FILE
    try:
        kept = read_record(path, str(connection.settings_dict["NAME"]))
    except Unreadable as error:
        mend = (
            "Restore it, or move it away: it is written anew from what the database says of itself."
        )
        return Finding("identity", ok=False, detail=str(error), mend=mend)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('coordinator_installation') IS NOT NULL")
        if cursor.fetchone() == (False,):
            return Finding("identity", ok=True, detail="nothing is on file yet")
        cursor.execute("SELECT held_because FROM coordinator_installation")
        row = cursor.fetchone()
    if row is not None and row[0] is not None:
        return Finding("identity", ok=False, detail=row[0], mend="manage.py after_restore")
    on_file = "epochs are on file in" if kept else "nothing is on file yet in"
    return Finding("identity", ok=True, detail=f"not in doubt; {on_file} {path}")


def _own_broker() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'pgmq'")
        known = cursor.fetchone() is not None
    return Finding(
        "broker",
        known,
        "queues in the same database" if known else "its schema is missing",
        "" if known else "python -m coordinator.site.prepare",
    )


def _outside_broker() -> Iterator[Finding]:
    if settings.CELERY_BROKER_URL == OWN_BROKER_URL:
        return
    from coordinator.site.celery import app

    scheme = settings.CELERY_BROKER_URL.partition(":")[0]
    if scheme in {"redis", "rediss"} and find_spec("redis") is None:
        detail = "the client library `redis` is not installed"
        yield Finding("broker", ok=False, detail=detail, mend="pip install redis")
        return
    mend = "Start it, or correct CELERY_BROKER_URL."
    try:
        with app.connection_for_write(connect_timeout=CONNECT_SECONDS) as broker:
            shown = broker.as_uri()  # without the password
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_SECONDS)
    except Exception as error:  # noqa: BLE001 - each transport has its own exceptions
        yield Finding("broker", ok=False, detail=f"not reachable: {error}", mend=mend)
        return
    yield Finding("broker", ok=True, detail=shown)


def _static_files() -> Iterator[Finding]:
    root: Path | None = settings.STATIC_ROOT
    if root is None:
        yield Finding("static files", ok=True, detail="served from the sources")
        return
    collected = (root / "staticfiles.json").exists()
    yield Finding(
        "static files",
        collected,
        str(root) if collected else f"{root} has not been collected",
        "" if collected else "manage.py collectstatic --no-input",
    )


def as_json(findings: list[Finding]) -> dict[str, Any]:
    return {
        "ok": all(finding.ok for finding in findings),
        "findings": [
            {"what": item.what, "ok": item.ok, "detail": item.detail, "mend": item.mend}
            for item in findings
        ],
    }
