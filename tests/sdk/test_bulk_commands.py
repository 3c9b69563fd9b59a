"""`tenure bulk …`, `tenure snooze` and `tenure wake` against a coordinator that is really there."""

import json
from typing import Any
from uuid import UUID

import pytest

from coordinator.services.bulk_steps import run_bulk_step
from tenure.cli import main
from tests import world

from .conftest import Site

pytestmark = pytest.mark.django_db(transaction=True)
Capture = pytest.CaptureFixture[str]
WHY = ["--reason", "the upload was a mistake"]


@pytest.fixture
def steered(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token())
    return site


def said(capsys: Capture, *words: str) -> Any:
    """What a command prints as JSON; it has done what it says."""
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_set_goes_from_its_review_to_its_outcomes(steered: Site, capsys: Capture) -> None:
    tasks = steered.submit(3)
    job = said(capsys, "bulk", "review", "cancel", "--queue", steered.queue, "--state", "READY")
    assert (job["state"], job["total"], job["waiting"]) == ("REVIEWED", 3, 3)
    assert main(["bulk", "start", job["bulk_id"], *WHY]) == 0
    assert capsys.readouterr().out == f"started  {job['bulk_id']}\n"
    assert said(capsys, "bulk", "start", job["bulk_id"], *WHY)["replayed"]
    while run_bulk_step():
        pass
    told = said(capsys, "bulk", "status", job["bulk_id"], "--items")
    assert told["job"]["outcomes"] == {"DONE": 3}
    assert {item["task_id"] for item in told["items"]} == set(tasks)
    assert main(["bulk", "status", job["bulk_id"]]) == 0
    assert "3 tasks, 0 waiting  DONE 3" in capsys.readouterr().out
    assert main(["bulk", "list"]) == 0
    assert job["bulk_id"] in capsys.readouterr().out
    assert main(["bulk", "stop", job["bulk_id"], *WHY]) == 1
    assert "It is not running." in capsys.readouterr().err


def test_a_snooze_is_started_with_its_time_stopped_and_undone(
    steered: Site, capsys: Capture
) -> None:
    tasks = steered.submit(2)
    job = said(capsys, "bulk", "review", "snooze", *tasks)
    assert main(["bulk", "start", job["bulk_id"], *WHY]) == 1
    assert "/not_before" in capsys.readouterr().err
    assert main(["bulk", "start", job["bulk_id"], *WHY, "--for", "4h"]) == 0
    run_bulk_step(limit=1)
    capsys.readouterr()
    assert main(["bulk", "stop", job["bulk_id"], *WHY]) == 0
    assert capsys.readouterr().out == "stopped; 1 tasks are left alone\n"
    assert main(["bulk", "undo", job["bulk_id"]]) == 0
    undone = capsys.readouterr().out.split()[-1]
    while run_bulk_step():
        pass
    assert said(capsys, "bulk", "status", undone)["outcomes"] == {"DONE": 1}


def test_one_task_is_snoozed_and_woken(steered: Site, capsys: Capture) -> None:
    (task,) = steered.submit()
    assert main(["snooze", task, *WHY, "--until", "2001-01-01T00:00:00Z"]) == 1
    assert "It is past" in capsys.readouterr().err
    assert said(capsys, "snooze", task, *WHY, "--for", "15m")["outcome"] == "SNOOZED"
    assert main(["explain", task]) == 0
    assert "NOT_BEFORE" in capsys.readouterr().out
    assert said(capsys, "wake", task, *WHY)["outcome"] == "WOKEN"
    assert main(["wake", task, *WHY]) == 1
    assert "It waits for no time." in capsys.readouterr().err
    assert world.task(UUID(task)).state_version == 3


@pytest.mark.parametrize(
    "words",
    [
        ["bulk", "review", "cancel"],
        ["bulk", "review", "cancel", "some-task", "--queue", "q"],
        ["bulk", "review", "cancel", "--all", "--queue", "q"],
    ],
)
def test_a_review_without_a_set_or_with_two_is_wrong_use(
    steered: Site, words: list[str], capsys: Capture
) -> None:
    assert main(words) == 2
    assert "one of the three" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["bulk", "review", "approve", "--all"],
        ["snooze", "t", "--reason", "r", "--for", "soon"],
        ["snooze", "t", "--reason", "r", "--until", "2026-05-31T14:00"],
        ["snooze", "t", "--reason", "r", "--until", "noon"],
        ["snooze", "t", "--reason", "r"],
    ],
)
def test_what_the_command_line_does_not_know_is_refused_before_anything_is_sent(
    words: list[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
