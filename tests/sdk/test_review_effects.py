"""The example's effects, by real processes and downstreams: each happens once, and a person lets the mail out."""

from __future__ import annotations

import email
import json
import re
import subprocess
from collections.abc import Iterator
from email.policy import default
from pathlib import Path

import pytest

from coordinator.models import Approval, Dispatch, EffectSlot, Evidence, Run
from examples.review.effects import register_effects
from examples.review.outside import MAIL
from tenure.cli import main
from tests.downstreams.mail import Mailbox
from tests.downstreams.relay import Fault, Relay
from tests.sdk.conftest import Site
from tests.sdk.fleets import Fleet, Sweeping, project, register_outside

APPROVE = re.compile(r"-m tenure\.cli approve (\S+)")


@pytest.fixture
def folder(transactional_db: None, tmp_path: Path) -> Iterator[Path]:
    register_outside()
    with Sweeping():
        yield project(tmp_path)


def _asked(said: str) -> str:
    found = APPROVE.search(said)
    assert found is not None, said
    return found[1]


def test_the_report_is_committed_stored_although_the_answer_is_lost_and_mailed_once_approved(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = folder.parent / "outside"
    with Fleet(site, folder, "--no-freeze") as fleet:
        said = fleet.until("tenure.cli approve")
        assert fleet.stop() == 0
    assert "hangs up without an answer" in said
    assert "it was looked up by its id and found: COMMITTED after 1 call" in said
    assert list((outside / "mail").iterdir()) == []
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token("approver"))
    with Fleet(site, folder, "--no-freeze") as again:
        asked = _asked(again.until("tenure.cli approve"))
        assert asked == _asked(said), "the same approval is waited for"
        assert main(["approve", asked, "--yes"]) == 0
        again.until("waits for more work")
        assert again.stop() == 0
    assert '"subject": "Review: ' in capsys.readouterr().out
    run = Run.objects.get()
    assert run.state == "COMMITTED"
    _look_outside(outside, str(run.run_id))
    _look_at_ledger()


def _look_outside(outside: Path, run_id: str) -> None:
    """What the downstreams themselves have."""
    git = ["git", "-C", str(outside / "reports.git")]
    shown = subprocess.check_output([*git, "show", f"review/{run_id}:report.md"], text=True)
    commits = subprocess.check_output([*git, "rev-list", "--all"], text=True).split()
    assert "imports itself in a circle" in shown
    [stored] = (outside / "objects" / "reviews").iterdir()
    assert json.loads(stored.read_bytes())["markdown"] == shown
    [taken] = (outside / "mail").iterdir()
    message = email.message_from_bytes(taken.read_bytes(), policy=default)
    assert message["To"] == "readers@example.org"
    assert f"Committed as {commits[0]}" in message.get_content()
    assert len(commits) == 1


def _look_at_ledger() -> None:
    """What the coordinator knows of it: one dispatch for each, and how the lost answer was found."""
    effects = {effect.downstream: effect for effect in EffectSlot.objects.all()}
    assert {name: one.state for name, one in effects.items()} == {
        "review-git": "COMMITTED",
        "review-store": "COMMITTED",
        "review-mail": "COMMITTED",
    }
    assert Dispatch.objects.count() == 3
    stored = Evidence.objects.filter(effect_id=effects["review-store"].effect_id).order_by("id")
    assert list(stored.values_list("said", flat=True)) == ["UNKNOWN", "HAPPENED"]
    assert Approval.objects.get().state == "CONSUMED"


def test_without_git_that_node_says_so_and_a_rejected_mail_is_never_sent(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = folder.parent / "outside"
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token("approver"))
    empty = folder.parent / "empty"
    empty.mkdir()
    with Fleet(site, folder, "--no-freeze", "--no-loss", PATH=str(empty)) as fleet:
        said = fleet.until("tenure.cli approve")
        assert main(["reject", _asked(said), "--reason", "not on a Monday"]) == 0
        said = fleet.until("waits for more work")
        assert fleet.stop() == 0
    assert "the report is in no repository: git is not installed" in said
    assert "the report is stored" in said
    assert "UNKNOWN" not in said
    assert "the run is FAILED" in said
    assert list((outside / "mail").iterdir()) == []
    assert not (outside / "reports.git").exists()


def test_a_mail_whose_answer_was_lost_is_settled_by_a_person_and_not_sent_again(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = folder.parent / "outside"
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token("approver"))
    with Fleet(site, folder, "--no-freeze") as fleet:
        asked = _asked(fleet.until("tenure.cli approve"))
        assert fleet.stop() == 0
    assert main(["approve", asked, "--yes"]) == 0
    with Mailbox() as box, Relay(box.address, trigger=b"\r\n.\r\n") as relay:
        relay.fault = Fault.DROP_REPLY
        worker = site.worker()
        register_effects(worker, {MAIL: f"127.0.0.1:{relay.port}"})
        worker.run(until_empty=True)
        assert len(box.messages) == 1
    receipt = folder.parent / "receipt.json"
    receipt.write_text('"seen in the mailbox"')
    with Fleet(site, folder, "--no-freeze") as again:
        said = again.until("tenure.cli reconcile")
        assert "nobody knows whether mail has reached review-mail" in said
        effect_id = EffectSlot.objects.get(downstream="review-mail").effect_id
        assert f"tenure.cli effect {effect_id}" in said
        how = ["--detail", "it lies in the mailbox", "--receipt", str(receipt)]
        assert main(["reconcile", effect_id, "happened", *how]) == 0
        said = again.until("waits for more work")
        assert again.stop() == 0
    assert "the mail went out, a person says" in said
    assert Run.objects.get().state == "COMMITTED"
    assert list((outside / "mail").iterdir()) == []
