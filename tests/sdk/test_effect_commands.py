"""Effects and approvals from the command line: what is shown is what is bound, and nothing moves by accident."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from coordinator.models import Downstream, Event
from tenure import Claim
from tenure.cli import main
from tenure.cli.approvals import exact
from tests.downstreams import parts
from tests.downstreams.relay import Fault
from tests.downstreams.stage import Stage
from tests.sdk.conftest import Site
from tests.sdk.scripted import Reply, Seen, scripted

Capture = pytest.CaptureFixture[str]
Typed = Callable[[str], None]


@pytest.fixture
def mail(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A mail that waits for its approval, and an admin at the command line."""
    with parts.smtp() as part:
        stage = Stage(site, part)
        assert stage.run()["parked"] == 1
        monkeypatch.setenv("TENURE_URL", site.url)
        monkeypatch.setenv("TENURE_TOKEN", site.operator_token())
        yield stage


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def _waiting(capsys: Capture) -> str:
    capsys.readouterr()
    assert main(["approvals", "--json"]) == 0
    [approval] = json.loads(capsys.readouterr().out)
    return str(approval["approval_id"])


def test_a_mail_is_listed_shown_approved_and_sent_once(
    mail: Stage, typed: Typed, capsys: Capture
) -> None:
    approval_id = _waiting(capsys)
    assert main(["approvals"]) == 0
    assert f"{approval_id}\tPENDING\t" in capsys.readouterr().out
    typed("yes\n")
    assert main(["approve", approval_id, "--comment", "read it"]) == 0
    out = capsys.readouterr().out
    assert mail.effect.payload_digest in out
    assert '"subject": "Käse"' in out
    assert out.endswith("Approve exactly this? (yes/no) APPROVED\n")
    mail.run()
    assert (mail.state, mail.performed) == ("COMMITTED", 1)
    assert main(["approvals"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["approvals", "--state", "ALL"]) == 0
    assert f"{approval_id}\tCONSUMED\t" in capsys.readouterr().out


@pytest.mark.parametrize("answer", ["no\n", "\n", ""])
def test_without_a_yes_nothing_is_approved(
    answer: str, mail: Stage, typed: Typed, capsys: Capture
) -> None:
    approval_id = _waiting(capsys)
    typed(answer)
    assert main(["approve", approval_id]) == 1
    assert "nothing was approved" in capsys.readouterr().err
    assert main(["approve", approval_id, "--json"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert mail.state == "AWAITING_APPROVAL"


def test_a_script_approves_with_yes_and_reads_one_document(mail: Stage, capsys: Capture) -> None:
    approval_id = _waiting(capsys)
    assert main(["approve", approval_id, "--yes", "--json"]) == 0
    decided = json.loads(capsys.readouterr().out)
    assert (decided["state"], decided["replayed"]) == ("APPROVED", False)
    assert main(["approve", approval_id, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replayed"] is True


def test_a_rejected_mail_fails_its_task_with_the_reason(mail: Stage, capsys: Capture) -> None:
    approval_id = _waiting(capsys)
    assert main(["reject", approval_id, "--reason", "wrong address"]) == 0
    assert capsys.readouterr().out == "REJECTED\n"
    assert (mail.state, mail.performed) == ("FAILED", 0)
    assert main(["approve", approval_id, "--yes"]) == 1
    assert "ALREADY_SETTLED" in capsys.readouterr().err


def test_a_mail_is_sent_back_passed_on_and_prepared_anew(mail: Stage, capsys: Capture) -> None:
    approval_id = _waiting(capsys)
    mail.site.operator_token("approver")
    paul = User.objects.get(groups__name="approver").username
    assert main(["pass", approval_id, "--to", paul, "--reason", "his customer"]) == 0
    assert capsys.readouterr().out == f"it is {paul}'s turn\n"
    assert main(["pass", approval_id, "--to", "nobody", "--reason", "why not"]) == 1
    assert "/to" in capsys.readouterr().err
    words = "leave the attachment out"
    assert main(["ask-for-changes", approval_id, "--reason", words, "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert (asked["reason_code"], asked["revision"]) == ("CHANGES_ASKED", 2)
    heard: list[str] = []

    def perform(claim: Claim) -> Any:
        assert claim.changes_asked is not None
        heard.append(claim.changes_asked.comment)
        return mail.perform(claim)

    assert mail.run(perform)["parked"] == 1
    assert heard == [words]
    assert _waiting(capsys) != approval_id


def test_a_masked_payload_is_approved_once_it_was_revealed_for_a_reason(
    mail: Stage, capsys: Capture
) -> None:
    Downstream.objects.filter(name=mail.name).update(secret_pointers=["/subject"])
    approval_id = _waiting(capsys)
    assert main(["approve", approval_id, "--yes"]) == 1
    told = capsys.readouterr()
    assert "masked: /payload/subject" in told.err
    assert "Käse" not in told.out + told.err
    effect_id = mail.effect.effect_id
    assert main(["reveal", effect_id, "--reason", "short"]) == 1
    assert "/reason" in capsys.readouterr().err
    assert main(["reveal", effect_id, "--reason", "the customer asks"]) == 0
    assert json.loads(capsys.readouterr().out)["value"]["subject"] == "Käse"
    assert main(["approve", approval_id, "--yes", "--reveal", "it names the customer"]) == 0
    assert '"subject": "Käse"' in capsys.readouterr().out
    event = Event.objects.filter(kind="SECRET_REVEALED").latest("id")
    assert (event.data["reason"], event.data["places"]) == ("it names the customer", ["/subject"])


def test_each_kind_of_id_is_revealed_by_its_own_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a coordinator that only writes down what it is asked."""
    told = Reply(200, {"part": "p", "value": 1, "digest": "d", "places": []})
    whole = "a" * 64
    a_task = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"
    tries: list[tuple[list[str], str, dict[str, Any]]] = [
        ([whole], f"effects/{whole}/reveal", {"part": "payload"}),
        (
            [whole, "--part", "evidence", "--evidence", "7"],
            f"effects/{whole}/reveal",
            {"part": "evidence", "evidence_id": 7},
        ),
        ([a_task], f"tasks/{a_task}/reveal", {"part": "input"}),
        (
            [a_task, "--part", "error", "--attempt", "A"],
            f"tasks/{a_task}/reveal",
            {"part": "error", "attempt_id": "A"},
        ),
        ([a_task, "--part", "metadata"], f"runs/{a_task}/reveal", {}),
        (["17"], "events/17/reveal", {}),
        (
            ["mail/a/b", "--version", "2"],
            "memory/reveal",
            {"namespace": "mail", "key": "a/b", "version": 2},
        ),
    ]
    with scripted(lambda _seen: told) as server:
        monkeypatch.setenv("TENURE_URL", server.url)
        monkeypatch.setenv("TENURE_TOKEN", "tnr_o_x")
        for words, _, _ in tries:
            assert main(["reveal", *words, "--reason", "why"]) == 0, words
        wrong = [["x", "--part", "event"], ["y", "--part", "memory"], [whole, "--evidence", "z"]]
        for words in wrong:
            assert main(["reveal", *words, "--reason", "why"]) == 2, words
    assert [(one.path, one.json) for one in server.seen] == [
        (f"/api/v1/{path}", {**body, "reason": "why"}) for _, path, body in tries
    ]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_may_not_approve_does_not(
    role: str, mail: Stage, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    approval_id = _waiting(capsys)
    monkeypatch.setenv("TENURE_TOKEN", mail.site.operator_token(role))
    assert main(["approve", approval_id, "--yes"]) == 1
    assert ("nothing was approved" if role == "viewer" else "FORBIDDEN") in capsys.readouterr().err
    monkeypatch.setenv("TENURE_TOKEN", mail.site.token)
    assert main(["approve", approval_id, "--yes"]) == 1
    assert "FORBIDDEN" in capsys.readouterr().err
    assert mail.state == "AWAITING_APPROVAL"


def test_an_unknown_mail_is_found_and_settled_by_a_person(
    mail: Stage, tmp_path: Path, capsys: Capture
) -> None:
    mail.approve()
    mail.part.relay.fault = Fault.LOSE_REQUEST
    mail.run()
    effect_id = mail.effect.effect_id
    capsys.readouterr()
    assert main(["effects", "--unknown", "--queue", mail.site.queue]) == 0
    assert capsys.readouterr().out.startswith(f"{effect_id}\tUNKNOWN\t")
    assert main(["reconcile", effect_id]) == 2
    assert main(["reconcile", effect_id, "happened", "--detail", "seen"]) == 2
    assert "--receipt" in capsys.readouterr().err
    receipt = tmp_path / "receipt.json"
    receipt.write_text('{"queue_id": "4711"}')
    how = ["--detail", "seen in the mail server's log", "--receipt", str(receipt)]
    assert main(["reconcile", effect_id, "happened", "--dispatches", "2", *how]) == 1
    assert "STALE_EVIDENCE" in capsys.readouterr().err
    assert main(["reconcile", effect_id, "happened", *how]) == 0
    assert capsys.readouterr().out == "COMMITTED\n"
    assert main(["effect", effect_id]) == 0
    out = capsys.readouterr().out
    assert "seen in the mail server's log" in out
    assert "approval " in out
    assert main(["effects", "--unknown", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_look_up_is_stamped_before_it_is_made(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token("approver"))
    with parts.http_key() as part:
        stage = Stage(site, part)
        part.relay.fault = Fault.LOSE_REQUEST
        part.log["world"].settings.look_up = False
        stage.run()
        effect_id = stage.effect.effect_id
        assert main(["reconcile", effect_id, "--begin", "--json"]) == 0
        look_up = json.loads(capsys.readouterr().out)
        found = ["not-happened", "--look-up", look_up["lookup_id"], "--detail", "no such payment"]
        assert main(["reconcile", effect_id, *found]) == 0
        assert capsys.readouterr().out == "RESENDABLE\n"


def test_a_payload_that_is_not_the_bound_one_is_never_approved(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    approval: dict[str, Any] = {
        "approval_id": "a1",
        "effect_id": "e" * 64,
        "task_id": "t1",
        "slot": "mail",
        "downstream": "mail",
        "payload": {"to": "somebody else"},
        "payload_digest": "sha256:" + "0" * 64,
        "state": "PENDING",
        "expires_at": "2026-11-30T09:00:00Z",
    }
    effect = {"slot": "mail", "state": "PREPARED", "downstream": "mail"}

    def script(seen: Seen) -> Reply:
        return Reply(200, approval if "approvals" in seen.path else {"effect": effect})

    with scripted(script) as server:
        monkeypatch.setenv("TENURE_URL", server.url)
        monkeypatch.setenv("TENURE_TOKEN", "tnr_o_x")
        assert main(["approve", "a1", "--yes"]) == 1
    assert "nothing was approved" in capsys.readouterr().err
    assert [seen.method for seen in server.seen] == ["GET", "GET"]


def test_what_eyes_would_miss_is_escaped_and_the_rest_is_as_it_is() -> None:
    hidden = {"to": "a\u202eb\u200bc\x7f", "text": "Käse\n\U000e0041"}
    shown = exact(hidden)
    assert json.loads(shown) == hidden
    assert "Käse" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)


@pytest.mark.parametrize(
    "command",
    [
        "effects",
        "effect",
        "reconcile",
        "approvals",
        "approve",
        "reject",
        "ask-for-changes",
        "pass",
        "reveal",
    ],
)
def test_each_command_explains_itself_with_an_example(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"example: tenure {command}" in capsys.readouterr().out
