"""`tenure read` and `tenure send`: any operation by its path, told as the verbs tell theirs."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.models import Credential, Queue
from tenure.cli import main
from tests import world
from tests.sdk.conftest import Site, served

__all__ = ["served"]

pytestmark = pytest.mark.django_db(transaction=True)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def shell(
    served: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    world.queue(name="q")
    site = Site(served.url, "q", "")
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token("admin"))

    def run(*words: str, typed: str = "") -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        try:
            return main(list(words))
        except SystemExit as ended:
            return int(ended.code or 0)

    return run


def test_what_has_no_verb_is_read_by_its_path(shell: Callable[..., int], capsys: Capture) -> None:
    assert shell("read", "queues/q") == 0
    assert json.loads(capsys.readouterr().out)["name"] == "q"
    assert shell("read", "/api/v1/tasks", "--query", "queue=q", "--query", "limit=1") == 0
    assert json.loads(capsys.readouterr().out)["results"] == []
    assert shell("read", "metrics") == 1  # no JSON
    assert shell("read", "metrics", "--raw") == 0
    assert "tenure_queue_epoch" in capsys.readouterr().out


def test_what_has_no_verb_is_sent_by_its_path(shell: Callable[..., int], capsys: Capture) -> None:
    stop = json.dumps({"intake": "STOPPED", "reason": "a look"})
    assert shell("send", "POST", "queues/q/intake", stop) == 0
    assert Queue.objects.get(name="q").intake == "STOPPED"
    policy = json.dumps({"max_attempts": 7})
    assert shell("send", "PATCH", "queues/q", "-", typed=policy) == 0
    assert Queue.objects.get(name="q").max_attempts == 7
    world.worker()
    credential = Credential.objects.get()
    assert shell("send", "DELETE", f"credentials/{credential.credential_id}") == 0
    credential.refresh_from_db()
    assert credential.revoked_at is not None


def test_a_refusal_is_told_as_one(shell: Callable[..., int], capsys: Capture) -> None:
    assert shell("read", "queues/nowhere") == 1
    assert "NOT_FOUND" in capsys.readouterr().err
    assert shell("send", "POST", "queues/q/intake", '{"intake": "HALF"}') == 1
    assert "/intake" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["read"],
        ["read", "../admin"],
        ["read", "queues?limit=1"],
        ["read", "queues", "--query", "limit"],
        ["send", "GET", "queues"],
        ["send", "POST", "queues"],
        ["send", "POST", "queues", "{"],
        ["send", "DELETE", "credentials/x", "{}"],
    ],
)
def test_wrong_use_is_told_as_such(shell: Callable[..., int], words: list[str]) -> None:
    assert shell(*words) == 2
