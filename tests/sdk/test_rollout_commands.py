"""`tenure shadow …` and `tenure queue …` against a coordinator that is really there (contract 13)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from coordinator.actors import system
from coordinator.models import Queue
from coordinator.services.drills import run_drill
from coordinator.services.shadow_verdicts import settle_rounds
from tenure import GateClosed
from tenure.cli import main
from tests import world
from tests.shadow import feeds

from .conftest import Site

pytestmark = pytest.mark.django_db(transaction=True)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def shadowed(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A queue in SHADOW with a round on which both agree, and one with a fault."""
    Queue.objects.filter(name=site.queue).update(rollout_stage="SHADOW", promotion_rounds=2)
    by = feeds.feeder(site.queue)
    told: dict[str, Any] = {"by": by, "queue": site.queue, "source": f"legacy-{site.queue}"}
    feeds.tell("A claims 0", "A commits 9 r", key="fine", **told)
    feeds.tell("A claims 0", "B claims 9", "A commits 12 r", key="twice", **told)
    feeds.let_windows_pass()
    settle_rounds(actor=system("shadow"))
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token())
    return site


def said(capsys: Capture, *words: str) -> Any:
    """What a command prints as JSON; it has done what it says."""
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_queue_goes_through_its_gate_from_the_command_line(
    shadowed: Site, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    queue = shadowed.queue
    assert main(["queue", "gate", queue]) == 1
    out = capsys.readouterr().out
    assert "SHADOW → IDEMPOTENT_READS  closed" in out
    assert "not met  unexplained_mismatches" in out
    assert main(["queue", "promote", queue, "--confirm", queue, "--reason", "now"]) == 1
    assert "the gate is closed" in capsys.readouterr().err
    status = said(capsys, "shadow", "status", queue)
    assert (status["sample"], status["mismatched"], status["unexplained"]) == (2, 1, 1)
    (found,) = said(capsys, "shadow", "rounds", "--queue", queue, "--unexplained")
    assert main(["shadow", "round", found["round_id"]]) == 0
    out = capsys.readouterr().out
    assert "handed it to `B`" in out
    assert "claim.v1 would have said NOT_CLAIMABLE" in out
    explain = ["shadow", "explain", found["round_id"], "--reason", "known", "--triage", "BUG"]
    assert said(capsys, *explain)["outcome"] == "EXPLAINED"
    run_drill(queue=queue, reason="before a promotion", actor=world.operator())
    assert said(capsys, "queue", "gate", queue)["open"]
    asked = said(capsys, "queue", "promote", queue, "--confirm", queue, "--reason", "measured")
    assert (asked["to_stage"], asked["state"]) == ("IDEMPOTENT_READS", "ASKED")
    (waiting,) = said(capsys, "queue", "promotions", "--queue", queue)
    assert waiting["evidence_digest"] == asked["evidence_digest"]
    confirm = ["queue", "confirm", asked["request_id"], "--confirm", queue, "--yes"]
    assert main(confirm) == 1
    assert "FORBIDDEN" in capsys.readouterr().err
    monkeypatch.setenv("TENURE_TOKEN", shadowed.operator_token("operator"))
    assert main(confirm) == 0
    out = capsys.readouterr().out
    assert "unexplained_mismatches: 0 mismatches" in out
    assert out.endswith(f"{queue}  IDEMPOTENT_READS  epoch 1\n")
    assert said(capsys, *confirm)["replayed"] is True
    assert main(["queue", "withdraw", asked["request_id"], "--reason", "too late"]) == 1
    assert "ALREADY_SETTLED" in capsys.readouterr().err
    assert main(["queue", "demote", queue, "--to", "SHADOW", "--reason", "doubts"]) == 0
    assert f"{queue}  SHADOW  epoch 2" in capsys.readouterr().out


def test_people_read_how_both_sides_compare(shadowed: Site, capsys: Capture) -> None:
    assert main(["shadow", "status", shadowed.queue, "--hours", "1"]) == 0
    out = capsys.readouterr().out
    assert "2 rounds in 1 h, 0 open" in out
    assert "mismatches 50.000%" in out
    assert "DOUBLE_CLAIM  1, 1 unexplained" in out
    assert main(["shadow", "rounds", "--queue", shadowed.queue, "--verdict", "AGREE"]) == 0
    assert "fine\tAGREE" in capsys.readouterr().out


def test_a_class_is_explained_until_it_expires(shadowed: Site, capsys: Capture) -> None:
    (found,) = said(capsys, "shadow", "rounds", "--queue", shadowed.queue, "--unexplained")
    soon = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    asked = ["shadow", "explain", found["round_id"], "--reason", "known", "--whole-class"]
    assert main([*asked, "DOUBLE_CLAIM"]) == 1
    assert "/expires_at" in capsys.readouterr().err
    told = said(capsys, *asked, "DOUBLE_CLAIM", "--expires-at", soon)
    assert told["explanation"]["of_class"]
    assert said(capsys, "shadow", "rounds", "--queue", shadowed.queue, "--unexplained") == []


def test_a_closed_gate_is_an_exception_that_says_what_blocks(shadowed: Site) -> None:
    with shadowed.client(token=shadowed.operator_token("operator")) as client:
        with pytest.raises(GateClosed) as closed:
            client.promote(
                shadowed.queue, expected_stage="SHADOW", confirm=shadowed.queue, reason="now"
            )
        assert {each["name"] for each in closed.value.blocking} >= {"unexplained_mismatches"}
        assert not client.promotion(shadowed.queue).open


@pytest.mark.parametrize(
    "words",
    [
        *[("shadow", verb) for verb in ("status", "rounds", "round", "explain")],
        *[
            ("queue", verb)
            for verb in ("gate", "promote", "promotions", "confirm", "withdraw", "demote")
        ],
    ],
)
def test_each_command_explains_itself_with_an_example(
    words: tuple[str, str], capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert f"example: tenure {' '.join(words)}" in capsys.readouterr().out
