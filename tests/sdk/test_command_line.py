"""The command line: what it prints, and an exit code that is 0 only when it did what it says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.states import Guarantee
from tenure.cli import main
from tests import restoring
from tests.effects import ledger
from tests.sdk.conftest import Site
from tests.sdk.scripted import Reply, ScriptedServer, Seen, in_turn, problem, scripted
from tests.sdk.threads import ended, started

RUN = {
    "run_id": "r1",
    "queue": "q",
    "state": "ACTIVE",
    "name": "nightly",
    "created_at": "2026-11-30T06:00:00Z",
}
TASK = {
    "task_id": "t1",
    "run_id": "r1",
    "node_id": "a",
    "kind": "k",
    "queue": "q",
    "state": "READY",
    "state_version": 3,
}


def _connect(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", server.url)
    monkeypatch.setenv("TENURE_TOKEN", "tnr_w_secret")


def _site(*states: str) -> Any:
    """A coordinator whose run goes through these states."""
    left = list(states)

    def script(seen: Seen) -> Reply:
        path = seen.path.split("?")[0]
        if seen.method == "POST":
            receipt = {
                "run_id": "r1",
                "state": "ACTIVE",
                "tasks": [{"node_id": "a", "task_id": "t1", "state": "READY"}],
            }
            return Reply(201, receipt)
        if path.endswith("/runs/r1"):
            return Reply(
                200,
                {
                    **RUN,
                    "progress": {"COMMITTED": 1},
                    "state": left.pop(0) if len(left) > 1 else left[0],
                },
            )
        return Reply(
            200, {"next": None, "previous": None, "results": [{**TASK, "state": "COMMITTED"}]}
        )

    return script


def test_submit_prints_the_run_and_sends_what_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    file.write_text(
        json.dumps({"queue": "q", "nodes": [{"node_id": "a", "kind": "k", "input": {}}]})
    )
    with scripted(_site("ACTIVE")) as server:
        _connect(server, monkeypatch)
        assert main(["submit", str(file), "--name", "nightly", "--key", "nightly-2026-11-30"]) == 0
    assert capsys.readouterr().out == "r1\n"
    assert server.seen[0].json["name"] == "nightly"
    assert server.seen[0].key == "nightly-2026-11-30"


def test_submit_reads_a_single_task_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = {"kind": "k", "input": {"a": 1}, "priority": 5}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(task)))
    with scripted(in_turn(Reply(201, TASK))) as server:
        _connect(server, monkeypatch)
        assert main(["submit", "-", "--queue", "q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task_id"] == "t1"
    assert server.seen[0].path == "/api/v1/tasks"
    assert server.seen[0].json == {"node_id": "task", "queue": "q", **task}


@pytest.mark.parametrize(("state", "code"), [("COMMITTED", 0), ("FAILED", 1), ("CANCELLED", 1)])
def test_watch_succeeds_only_if_the_run_is_committed(
    state: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted(_site("ACTIVE", state)) as server:
        _connect(server, monkeypatch)
        assert main(["watch", "r1"]) == code
    assert f"run r1: {state} (1 of 1 committed)" in capsys.readouterr().out


def test_watch_prints_one_document_for_scripts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted(_site("COMMITTED")) as server:
        _connect(server, monkeypatch)
        assert main(["watch", "r1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"COMMITTED": 1}


def test_get_finds_a_run_where_there_is_no_such_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted(in_turn(problem(404, "NOT_FOUND"), Reply(200, RUN))) as server:
        _connect(server, monkeypatch)
        assert main(["get", "r1"]) == 0
    assert "nightly" in capsys.readouterr().out


def test_list_prints_tab_separated_rows_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = {"next": None, "results": [TASK, {**TASK, "task_id": "t2", "node_id": "tab\there"}]}
    with scripted(in_turn(Reply(200, page))) as server:
        _connect(server, monkeypatch)
        assert main(["list", "tasks", "--state", "READY", "--limit", "2"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows == ["t1\tREADY\ta\tk\t", "t2\tREADY\ttab here\tk\t"]
    assert "state=READY" in server.seen[0].path


def test_explain_lists_the_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = {"claimable": False, "reasons": [{"code": "BLOCKED", "detail": "waits for b"}]}
    with scripted(in_turn(Reply(200, why))) as server:
        _connect(server, monkeypatch)
        assert main(["explain", "t1"]) == 0
    assert "BLOCKED: waits for b" in capsys.readouterr().out


def test_cancel_tells_what_may_still_be_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = {"outcome": "CANCELLED", "cancel_generation": 1, "effects": [{"slot": "mail"}]}
    with scripted(in_turn(Reply(200, receipt))) as server:
        _connect(server, monkeypatch)
        assert main(["cancel", "t1", "--reason", "wrong folder"]) == 0
    out = capsys.readouterr().out
    assert "CANCELLED" in out
    assert "mail" in out


def test_revise_binds_itself_to_the_version_that_it_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"path": "b"}')
    revised = {**TASK, "task_id": "t2", "revision": 2, "supersedes": "t1"}
    with scripted(in_turn(Reply(200, TASK), Reply(201, revised))) as server:
        _connect(server, monkeypatch)
        assert main(["revise", "t1", str(file), "--reason", "typo"]) == 0
    assert server.seen[1].json["expected_state_version"] == 3
    assert "t2 (revision 2)" in capsys.readouterr().out


def test_a_refusal_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted(in_turn(problem(409, "ALREADY_COMMITTED", detail="the commit won"))) as server:
        _connect(server, monkeypatch)
        assert main(["cancel", "t1", "--reason", "too late"]) == 1
    assert capsys.readouterr().err == "tenure: ALREADY_COMMITTED: the commit won\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "a submission is an object"),
        ('{"nodes": []}', "a run needs a queue"),
        ('{"queue": "q", "nodes": [], "nmae": "x"}', "a run has no nmae"),
        ('{"queue": "q"}', "a task needs input, kind"),
    ],
)
def test_a_document_that_is_no_submission_is_refused_before_anything_is_sent(
    text: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "run.json"
    file.write_text(text)
    with scripted(_site("ACTIVE")) as server:
        _connect(server, monkeypatch)
        assert main(["submit", str(file)]) == 2
    assert told in capsys.readouterr().err
    assert server.seen == []


def test_what_is_missing_is_named_with_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TENURE_URL", raising=False)
    monkeypatch.delenv("TENURE_TOKEN", raising=False)
    assert main(["list"]) == 2
    assert "TENURE_URL" in capsys.readouterr().err
    assert main(["list", "--url", "http://127.0.0.1:1"]) == 2
    assert "TENURE_TOKEN" in capsys.readouterr().err
    assert (
        main(["list", "--url", "http://127.0.0.1:1", "--token-file", str(tmp_path / "none")]) == 2
    )
    assert "cannot read the token" in capsys.readouterr().err


def test_names_of_others_cannot_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = {"next": None, "results": [{**TASK, "node_id": "\x1b[2Jgone"}]}
    with scripted(in_turn(Reply(200, page))) as server:
        _connect(server, monkeypatch)
        assert main(["list", "tasks"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "gone" in out


def test_a_task_is_submitted_watched_and_read_back_on_a_real_coordinator(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = site.worker()
    worker.handler("greet")(lambda claim: {"greeting": f"Hello, {claim.input['name']}"})
    thread = started(worker)
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.token)
    task = {"queue": site.queue, "kind": "greet", "input": {"name": "Ada"}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(task)))
    try:
        assert main(["submit", "-", "--watch"]) == 0
    finally:
        worker.stop()
        ended(thread)
    assert "COMMITTED (1 of 1 committed)" in capsys.readouterr().out
    assert main(["list", "tasks", "--queue", site.queue, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["state"], row["kind"]) == ("COMMITTED", "greet")
    assert main(["explain", row["task_id"]]) == 0
    assert "not claimable" in capsys.readouterr().out
    assert main(["get", row["run_id"]]) == 0
    assert main(["cancel", row["task_id"], "--reason", "a worker may not"]) == 1
    assert "FORBIDDEN" in capsys.readouterr().err


def test_a_person_steers_from_the_command_line(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [task_id] = site.submit(1)
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token())
    assert main(["cancel", task_id, "--reason", "wrong folder"]) == 0
    assert capsys.readouterr().out == "CANCELLED\n"
    assert main(["reopen", task_id, "--reason", "right after all"]) == 0
    assert capsys.readouterr().out == "READY\n"
    file = tmp_path / "input.json"
    file.write_text('{"number": 2}')
    assert main(["revise", task_id, str(file), "--reason", "typo", "--json"]) == 0
    revised = json.loads(capsys.readouterr().out)
    assert (revised["revision"], revised["supersedes"]) == (2, task_id)
    assert main(["cancel", revised["run_id"], "--reason", "enough"]) == 0
    assert main(["watch", revised["run_id"]]) == 1
    assert "CANCELLED" in capsys.readouterr().out


def test_a_task_that_a_restore_holds_is_released_from_the_command_line(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [held] = site.submit(1, slots={ledger.SLOT: ledger.register(Guarantee.CONDITIONAL_WRITE)})
    [free] = site.submit(1)
    restoring.restored(even_without_doubt=True)
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.token)
    assert main(["release-hold", held, "--reason", "a worker may not"]) == 1
    assert "FORBIDDEN" in capsys.readouterr().err
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token())
    assert main(["explain", held]) == 0
    assert "RESTORE_HOLD" in capsys.readouterr().out
    why = ["--reason", "their log shows nothing of it"]
    assert main(["release-hold", held, *why, "--expected-state-version", "99"]) == 1
    assert "STATE_VERSION_MISMATCH" in capsys.readouterr().err
    assert main(["release-hold", held, *why]) == 0
    assert capsys.readouterr().out == "READY\n"
    assert main(["release-hold", held, *why, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["state"], again["replayed"]) == ("READY", True)
    assert main(["release-hold", free, *why]) == 1
    assert "ALREADY_SETTLED" in capsys.readouterr().err
