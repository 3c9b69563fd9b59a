"""`manage.py doctor`: what is wrong, how to mend it, and an exit code that says whether anything is."""

import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest

from coordinator.site.postgres import Postgres
from tests.site.launching import manage


def findings_of(**environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = manage("doctor", "--json", **environment)
    assert "Traceback" not in done.stderr, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] is (done.returncode == 0)
    return done.returncode, {finding["what"]: finding for finding in told["findings"]}


def test_without_a_server_it_says_how_to_start_one(state: Path) -> None:
    code, found = findings_of(TENURE_STATE=str(state / "var"))
    assert code == 1
    assert found["database"]["ok"] is False
    assert found["database"]["mend"] == "Start it: manage.py up."
    assert found["python"]["ok"]
    assert found["dependencies"]["ok"]
    assert not (state / "var").exists(), "it looks and changes nothing"


def test_where_there_is_no_git_it_says_what_goes_without(state: Path) -> None:
    _, found = findings_of(TENURE_STATE=str(state), PATH=str(state))
    assert found["git"]["ok"]
    assert "no repository" in found["git"]["detail"]


def test_an_empty_database_lacks_its_migrations_and_its_broker(state: Path) -> None:
    with Postgres(state, settings={"fsync": "off"}) as server:
        code, found = findings_of(TENURE_STATE=str(state))
        assert code == 1
        assert found["database"]["ok"]
        assert found["migrations"]["mend"] == "manage.py migrate"
        assert (
            "coordinator.0001" in found["migrations"]["detail"]
            or "more" in found["migrations"]["detail"]
        )
        assert found["broker"]["mend"] == "python -m coordinator.site.prepare"
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT to_regclass('django_migrations')").fetchone() == (
                None,
            )


def test_a_wrong_database_url_is_told_apart_from_a_server_that_is_not_started(state: Path) -> None:
    code, found = findings_of(
        TENURE_STATE=str(state), DATABASE_URL="postgresql://me:tell-nobody@127.0.0.1:1/x"
    )
    assert code == 1
    assert "DATABASE_URL" in found["database"]["mend"]
    assert "tell-nobody" not in json.dumps(found)


def test_a_broker_that_does_not_answer_is_named_without_its_password(state: Path) -> None:
    _, found = findings_of(
        TENURE_STATE=str(state), CELERY_BROKER_URL="amqp://me:tell-nobody@127.0.0.1:1//"
    )
    assert found["broker"]["ok"] is False
    assert "CELERY_BROKER_URL" in found["broker"]["mend"]
    assert "tell-nobody" not in json.dumps(found)


def test_a_broker_whose_client_is_not_installed_says_what_to_install(
    state: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['redis'] = None\n")
    _, found = findings_of(
        TENURE_STATE=str(state),
        CELERY_BROKER_URL="redis://127.0.0.1:1/0",
        PYTHONPATH=str(tmp_path),
    )
    assert found["broker"]["ok"] is False
    assert found["broker"]["mend"] == "pip install redis"


def test_an_incomplete_database_folder_is_found(state: Path) -> None:
    (state / "postgres" / "data").mkdir(parents=True)
    _, found = findings_of(TENURE_STATE=str(state))
    assert "not a complete database folder" in found["state folder"]["detail"]
    assert found["state folder"]["mend"]


def test_a_state_folder_that_is_a_file_is_found(state: Path) -> None:
    (state / "file").write_text("")
    _, found = findings_of(TENURE_STATE=str(state / "file"))
    assert found["state folder"]["ok"] is False
    assert "TENURE_STATE" in found["state folder"]["mend"]


def test_for_people_it_is_text(state: Path) -> None:
    done = manage("doctor", TENURE_STATE=str(state))
    assert done.returncode == 1
    assert "WRONG  database: not reachable" in done.stdout
    assert "mend: Start it: manage.py up." in done.stdout


def test_production_wants_its_static_files_collected(state: Path) -> None:
    _, found = findings_of(
        TENURE_STATE=str(state),
        TENURE_ENV="production",
        SECRET_KEY=os.urandom(40).hex(),
        ALLOWED_HOSTS="tenure.example",
        TENURE_STATIC_ROOT=str(state / "static"),
    )
    assert "collectstatic" in found["static files"]["mend"]


@pytest.mark.parametrize("command", ["up", "doctor"])
def test_the_help_has_an_example(command: str) -> None:
    done = manage(command, "--help")
    assert done.returncode == 0
    assert f"Example: manage.py {command}" in " ".join(done.stdout.split())
