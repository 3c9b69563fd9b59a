"""`tenure incident`: the whole rollback from two shells, and exit codes that are 0 only where something was done."""

import io
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from coordinator.models import Event, Incident
from coordinator.services.epochs import bump_epoch
from coordinator.states import Guarantee
from tenure.cli import main
from tests import world
from tests.effects import ledger
from tests.history import history_holds
from tests.incidents import rollback
from tests.sdk.conftest import Site, served
from tests.world import node

__all__ = ["history_holds", "served"]

pytestmark = pytest.mark.usefixtures("history_holds")

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def shell(served: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> "Shell":
    world.queue(name="q")
    world.worker(name="green", pool_name="green")
    site = Site(served.url, "q", "")
    monkeypatch.setenv("TENURE_URL", site.url)
    return Shell(monkeypatch, [site.operator_token("operator") for _ in range(2)])


class Shell:
    """One terminal that two people use in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens: list[str]) -> None:
        self._monkeypatch = monkeypatch
        self._tokens = tokens

    def run(self, *words: str, who: int = 0, typed: str = "") -> int:
        self._monkeypatch.setenv("TENURE_TOKEN", self._tokens[who])
        self._monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        return main(["incident", *words])


def told(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


def incident_id() -> UUID:
    return Incident.objects.get().incident_id


def busy() -> None:
    by = world.worker()
    claim, _, _ = ledger.sent(by=by, guarantee=Guarantee.GATED)
    world.stage(claim, by=by)
    world.submit(node("idle"))


def test_two_people_roll_back_by_hand(shell: Shell, capsys: Capture) -> None:
    busy()
    assert shell.run("open", "--queue", "q", "--reason", "bad deploy") == 0
    assert "STOPPED  version 1" in capsys.readouterr().out
    incident = str(incident_id())
    assert shell.run("preview", incident) == 0
    shown = capsys.readouterr().out
    assert "q: epoch 1 → 2" in shown
    assert "claims to revoke: 1" in shown
    assert "effects that become UNKNOWN: 0; that are closed: 1" in shown
    assert "results that will wait for a decision: 1" in shown

    assert shell.run("bump", incident, who=1, typed="\n") == 1  # nothing was typed
    assert "nothing was bumped" in capsys.readouterr().err
    assert shell.run("bump", incident, who=1, typed="queue\n") == 1
    assert "/confirm: Type `q`" in capsys.readouterr().err
    assert shell.run("bump", incident, who=1, typed="q\n") == 0
    assert "BUMPED  version 2" in capsys.readouterr().out

    assert shell.run("gate", incident) == 1  # closed
    shown = capsys.readouterr().out
    assert "closed" in shown
    assert "leases of the old epoch: 1, the last until" in shown
    assert "results to decide about: 1" in shown
    assert shell.run("switch", incident, "--to", "green") == 1
    assert "NOT_DRAINED" in capsys.readouterr().err
    assert shell.run("candidates", incident, "keep", "--reason", "to compare") == 0
    assert capsys.readouterr().out == "KEEP: 1\n"
    rollback.run_out(incident_id())
    assert shell.run("gate", incident) == 0
    assert "open" in capsys.readouterr().out
    assert shell.run("switch", incident, "--to", "green", "--expected-version", "3") == 0
    assert shell.run("resume", incident, "--percent", "10", "--reason", "carefully") == 0
    assert "SWITCHED  version 6" in capsys.readouterr().out
    assert shell.run("show", incident) == 0
    assert "CANARY  operator:" in capsys.readouterr().out
    assert shell.run("resume", incident, "--percent", "0", "--expected-version", "5") == 1
    assert "STATE_VERSION_MISMATCH" in capsys.readouterr().err
    assert shell.run("resume", incident) == 0
    assert shell.run("resume", incident) == 0
    assert "CLOSED  version 7 (taken before)" in capsys.readouterr().out
    assert shell.run("show", incident) == 0
    shown = capsys.readouterr().out
    assert "queue   q: epoch 2, intake OPEN, pool green" in shown
    assert [line.split()[3] for line in shown.splitlines()[4:]] == [
        "STOPPED", "BUMPED", "DRAINED", "SWITCHED", "CLOSED",
    ]  # fmt: skip
    assert shell.run("list") == 0
    assert f"{incident}\tCLOSED\tq\t" in capsys.readouterr().out
    assert shell.run("list", "--open") == 0
    assert capsys.readouterr().out == ""


def test_a_script_gets_one_document_of_each_verb(shell: Shell, capsys: Capture) -> None:
    assert shell.run("open", "--queue", "q", "--reason", "bad deploy", "--json") == 0
    incident = told(capsys)["incident_id"]
    assert shell.run("list", "--json") == 0
    assert [each["incident_id"] for each in told(capsys)] == [incident]
    assert shell.run("preview", incident, "--json") == 0
    preview = told(capsys)
    words = ["--expected-epoch", f"q={preview['epochs']['q']}", "--confirm", preview["confirm"]]
    assert shell.run("bump", incident, *words, "--json", who=1) == 0
    assert told(capsys)["queues"][0]["scheduler_epoch"] == 2
    assert shell.run("gate", incident, "--json") == 0
    assert told(capsys)["open"] is True
    assert shell.run("candidates", incident, "discard", "--reason", "none", "--json") == 0
    assert told(capsys)["decided"] == 0
    assert shell.run("switch", incident, "--to", "green", "--json") == 0
    assert told(capsys)["state"] == "SWITCHED"
    assert shell.run("resume", incident, "--json") == 0
    assert told(capsys)["state"] == "CLOSED"
    assert shell.run("show", incident, "--json") == 0
    assert len(told(capsys)["steps"]) == 5
    assert shell.run("report", incident, "--json") == 0
    assert told(capsys)["incident"]["state"] == "CLOSED"


def test_the_report_is_a_document(shell: Shell, capfdbinary: Any) -> None:
    assert shell.run("open", "--all", "--reason", "bad deploy — Käse") == 0
    capfdbinary.readouterr()
    assert shell.run("report", str(incident_id())) == 0
    out = capfdbinary.readouterr().out.decode()
    assert out.startswith(f"# Incident {incident_id()}\n")
    assert "bad deploy — Käse" in out


def test_the_opener_alone_types_a_reason(shell: Shell, capsys: Capture) -> None:
    assert shell.run("open", "--queue", "q", "--reason", "bad deploy") == 0
    incident = str(incident_id())
    assert shell.run("bump", incident, typed="q\n") == 1
    assert "/reason" in capsys.readouterr().err
    assert shell.run("bump", incident, "--reason", "nobody else is awake", typed="q\n") == 0
    assert Event.objects.filter(kind="ALARM").count() == 1


def test_what_was_shown_is_what_is_bumped(shell: Shell, capsys: Capture) -> None:
    """Somebody raises the epoch between the preview and the typed name."""
    assert shell.run("open", "--queue", "q", "--reason", "bad deploy") == 0

    class Slow(io.StringIO):
        def readline(self, *_: Any) -> str:  # type: ignore[override]
            bump_epoch(queue="q", expected_epoch=1, reason="meanwhile", actor=rollback.OTTO)
            return "q\n"

    shell._monkeypatch.setenv("TENURE_TOKEN", shell._tokens[1])
    shell._monkeypatch.setattr("sys.stdin", Slow())
    assert main(["incident", "bump", str(incident_id())]) == 1
    assert "STATE_VERSION_MISMATCH" in capsys.readouterr().err
    assert world.epoch() == 2


@pytest.mark.parametrize(
    "words",
    [
        ["open", "--reason", "r"],
        ["open", "--queue", "q"],
        ["open", "--queue", "q", "--all", "--reason", "r"],
        ["bump", "x", "--json"],
        ["bump", "x", "--expected-epoch", "q=1"],
        ["bump", "x", "--expected-epoch", "7"],
        ["candidates", "x", "keep"],
        ["candidates", "x", "perhaps", "--reason", "r"],
        ["switch", "x"],
        ["abort", "x"],
        ["resume", "x", "--expected-version", "0"],
        ["resume", "x", "--percent", "101"],
        ["resume", "x", "--percent", "-1"],
        [],
    ],
)
def test_wrong_use_is_told_as_such(shell: Shell, words: list[str]) -> None:
    assert _exit_code(lambda: shell.run(*words)) == 2


def _exit_code(run: Callable[[], int]) -> int:
    try:
        return run()
    except SystemExit as ended:
        return int(ended.code or 0)


def test_an_aborted_incident_opens_intake_again(shell: Shell, capsys: Capture) -> None:
    assert shell.run("open", "--queue", "q", "--reason", "bad deploy") == 0
    assert shell.run("open", "--queue", "q", "--reason", "again") == 1
    assert "INCIDENT_OPEN" in capsys.readouterr().err
    assert shell.run("abort", str(incident_id()), "--reason", "false alarm") == 0
    assert "ABORTED" in capsys.readouterr().out
    assert shell.run("resume", str(incident_id())) == 1
    assert "WRONG_STEP" in capsys.readouterr().err
