"""`tenure audit`: an export is verified without a server; each line that was meddled with is named (adr/0021)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client as Browser

from coordinator import chain_digests
from coordinator.models import AuditLink
from coordinator.services.audit_seals import seal_events
from coordinator.services.epochs import set_intake
from coordinator.states import Intake
from tenure import audit_chain
from tenure.audit_chain import verify_lines
from tenure.cli import main
from tests import world
from tests.console.scene import person
from tests.incidents import rollback
from tests.sdk.conftest import Site, served

__all__ = ["served"]

pytestmark = pytest.mark.django_db(transaction=True)

Capture = pytest.CaptureFixture[str]


def act() -> None:
    for wanted in (Intake.STOPPED, Intake.OPEN) * 3:
        told = f"look \u202eits\u202c {wanted} 1e21"
        set_intake(queue="q", intake=wanted, reason=told, actor=rollback.person("alice"))
    seal_events()


@pytest.fixture
def shell(
    served: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    world.queue(name="q")
    site = Site(served.url, "q", "")
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token("admin"))
    act()

    def run(*words: str) -> int:
        return main(["audit", *words])

    return run


@pytest.fixture
def lines(transactional_db: None, client: Browser) -> list[dict[str, Any]]:
    """An administrator's export from the console, newest first."""
    world.queue(name="q")
    act()
    client.force_login(person("root", "admin"))
    body = b"".join(client.get("/audit/export.ndjson").streaming_content)  # type: ignore[attr-defined]
    return [json.loads(line) for line in body.splitlines()]


def verified(lines: list[dict[str, Any]], **fields: Any) -> audit_chain.FileVerified:
    return verify_lines([json.dumps(line) for line in lines], **fields)


def test_an_export_of_the_console_holds_whatever_its_order(lines: list[dict[str, Any]]) -> None:
    found = verified(lines, whole=True)
    assert found.holds
    assert (found.links, found.gaps, found.unchecked) == (AuditLink.objects.count(), 0, 0)
    assert found.digest == AuditLink.objects.latest("number").digest
    assert verified(lines[::-1]).holds


def test_without_the_addresses_only_the_links_are_verified(
    lines: list[dict[str, Any]], client: Browser
) -> None:
    client.force_login(person("vera", "viewer"))
    body = b"".join(client.get("/audit/export.ndjson").streaming_content)  # type: ignore[attr-defined]
    found = verify_lines(body.splitlines())
    assert found.holds
    assert (found.links, found.unchecked) == (len(lines), len(lines))
    assert "10.0.0.7" not in body.decode()


@pytest.mark.parametrize(
    ("meddle", "misfit"),
    [
        (lambda lines: lines[2].update(actor="operator:mallory"), "CHANGED"),
        (lambda lines: lines[2]["data"].update(reason="another"), "CHANGED"),
        (lambda lines: lines[2].update(at="2026-01-01T00:00:00Z"), "CHANGED"),
        (lambda lines: lines[2].pop("kind"), "CHANGED"),
        (lambda lines: lines.pop(2), "REMOVED"),
        (lambda lines: lines.append(lines[2]), "INSERTED"),
        (lambda lines: lines[2]["chain"].update(number=99), "REORDERED"),
        (lambda lines: lines[2]["chain"].update(previous=lines[0]["chain"]["digest"]), "REORDERED"),
        (
            lambda lines: (
                lines[2]["chain"].update(number=lines[3]["chain"]["number"]),
                lines.pop(3),
            ),
            "REORDERED",
        ),
    ],
)
def test_a_line_that_was_meddled_with_is_named(
    lines: list[dict[str, Any]], meddle: Callable[[list[dict[str, Any]]], Any], misfit: str
) -> None:
    meddle(lines)
    found = verified(lines, whole=True)
    assert found.fault is not None
    assert found.fault.misfit == misfit
    assert found.fault.line is not None


def test_a_filtered_export_has_gaps_and_each_line_is_verified(lines: list[dict[str, Any]]) -> None:
    some = lines[::2]
    found = verified(some)
    assert (found.holds, found.gaps) == (True, len(some) - 1)
    some[1]["actor"] = "operator:mallory"
    assert not verified(some).holds


def test_a_kept_seal_is_held_against_the_file(lines: list[dict[str, Any]]) -> None:
    newest = lines[0]["chain"]
    assert verified(lines, anchor=(newest["number"], newest["digest"])).holds
    other = verified(lines, anchor=(newest["number"], "sha256:" + "0" * 64))
    assert other.fault is not None
    assert other.fault.misfit == "ANCHOR"
    cut = verified(lines[3:], anchor=(newest["number"], newest["digest"]))
    assert cut.fault is not None
    assert cut.fault.misfit == "REMOVED"
    begin = lines[-1]["chain"]  # the first link's own digest stands in the second line as well
    assert verified(lines[:-1], anchor=(begin["number"], begin["digest"])).holds


def test_what_is_no_line_is_named_and_what_is_not_chained_is_counted() -> None:
    assert verify_lines(['{"id": 1, "kind": "CLAIMED"}', "", '{"continue_before": 7}']).others == 3
    for text in ("no json", '{"id": 1, "chain": {}}', '{"id": 1, "chain": 7}'):
        found = verify_lines([text])
        assert found.fault is not None
        assert (found.fault.misfit, found.fault.line) == ("CHANGED", 1)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"a": 1.0, "b": [1e21, 1e-7, -0.0, 0.1], "\u20ac": "\U0001f600", "z": None, "t": True},
        {"big": 2**63, "small": -(2**60), "float": 1.5e300},
        {"deep": __import__("functools").reduce(lambda inner, _: [inner], range(60), 1)},
        {
            "deep": __import__("functools").reduce(
                lambda inner, _: {"a": inner}, range(90), {"é": 1}
            )
        },
    ],
)
def test_the_server_and_the_sdk_digest_alike(data: dict[str, Any]) -> None:
    from datetime import UTC, datetime

    at = datetime(2026, 5, 31, 14, 0, 0, 120, UTC)
    fields: dict[str, Any] = {
        "kind": "ALARM", "actor": "operator:ada", "task_id": None, "attempt_id": None,
        "state_version": 3, "request_id": "r", "data": data,
    }  # fmt: skip
    theirs = chain_digests.content_digest(event_id=7, at=at, queue_id=1, run_id=None, **fields)
    line = {"id": 7, "at": at.isoformat(), "chain": {"queue_id": 1, "run_id": None}, **fields}
    assert audit_chain.content_digest(line) == theirs
    assert audit_chain.GENESIS == chain_digests.GENESIS
    told = {"number": 4, "previous": theirs, "content": theirs}
    assert audit_chain.link_digest(**told) == chain_digests.link_digest(**told)  # type: ignore[arg-type]


# --- the command ----------------------------------------------------------------------------------


def test_seal_export_and_verify_from_a_shell(
    shell: Callable[..., int], capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("seal") == 0
    seal = capsys.readouterr().out.strip()
    number, _, digest = seal.partition(":")
    assert digest.startswith("sha256:")
    assert shell("verify") == 0
    assert f"{number} links hold, 1 to {number}; 0 of pruned events" in capsys.readouterr().out
    assert shell("verify", "--anchor", seal) == 0
    assert "0 links hold" in capsys.readouterr().out
    assert shell("verify", "--from", "2", "--to", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)[-1]["links"] == 2
    assert shell("export") == 0
    file = tmp_path / "audit.ndjson"
    file.write_text(capsys.readouterr().out)
    for name in ("TENURE_URL", "TENURE_TOKEN"):
        monkeypatch.delenv(name)  # a file needs no server
    assert shell("verify", str(file), "--whole", "--anchor", seal) == 0
    assert f"{number} links hold, 1 to {number}; 0 gaps" in capsys.readouterr().out
    changed = file.read_text().splitlines()
    changed[1] = changed[1].replace('"look', '"took')
    file.write_text("\n".join(changed))
    assert shell("verify", str(file)) == 1
    told = capsys.readouterr().out
    assert "line 2 does not fit: CHANGED link 2 event" in told
    assert shell("verify", str(file), "--json") == 1
    assert json.loads(capsys.readouterr().out)["fault"]["misfit"] == "CHANGED"


def test_an_export_is_masked_and_holds_whole_where_it_is_revealed(
    shell: Callable[..., int], capsys: Capture, tmp_path: Path
) -> None:
    secret = "Bearer hunter2-of-the-bank"
    set_intake(queue="q", intake=Intake.STOPPED, reason=secret, actor=rollback.person("alice"))
    seal_events()
    file = tmp_path / "audit.ndjson"
    for words, unchecked in (((), 1), (("--reveal", "The auditor asks for it."), 0)):
        assert shell("export", *words) == 0
        file.write_text(capsys.readouterr().out)
        assert (secret in file.read_text()) == (unchecked == 0)
        assert shell("verify", str(file), "--whole", "--json") == 0
        assert json.loads(capsys.readouterr().out)["unchecked"] == unchecked


def test_a_row_that_was_changed_is_named_by_the_server(
    shell: Callable[..., int], capsys: Capture
) -> None:
    from tests.console.scene import any_time

    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET actor = 'operator:mallory'"
            " WHERE id = (SELECT event_id FROM coordinator_auditlink WHERE number = 2)"
        )
    assert shell("verify") == 1
    assert "the audit does not fit: CHANGED link 2 event" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "nowhere.ndjson"],
        ["verify", "--anchor", "7"],
        ["verify", "--anchor", "x:sha256:0"],
        ["verify", "--from", "0"],
        ["verify", "--whole"],
        ["verify", "-", "--from", "2"],
        [],
    ],
)
def test_wrong_use_is_told_as_such(shell: Callable[..., int], words: list[str]) -> None:
    try:
        code = shell(*words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
