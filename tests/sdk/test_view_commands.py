"""`tenure views …` against a coordinator that is really there."""

import json
from typing import Any

import pytest

from coordinator.models import SavedView
from tenure.cli import main

from .conftest import Site

pytestmark = pytest.mark.django_db(transaction=True)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def shell(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TENURE_URL", site.url)
    monkeypatch.setenv("TENURE_TOKEN", site.operator_token())
    return site


def said(capsys: Capture, *words: str) -> Any:
    assert main(["views", *words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_view_is_saved_listed_renamed_and_deleted_from_a_shell(
    shell: Site, capsys: Capture
) -> None:
    shell.submit(3)
    made = said(capsys, "save", "Ready ones", f"queue={shell.queue}&state=READY")
    assert main(["views", "list", "--counts"]) == 0
    table = capsys.readouterr().out
    assert "Ready ones" in table
    assert "3" in table.split("Ready ones")[1]
    assert said(capsys, "list")[0]["count"] is None
    renamed = said(capsys, "rename", "ready ones", "Mine")
    assert (renamed["view_id"], renamed["name"]) == (made["view_id"], "Mine")
    assert said(capsys, "delete", "Mine")["name"] == "Mine"
    assert not SavedView.objects.exists()


def test_a_view_that_is_not_there_and_a_filter_that_is_none_are_told(
    shell: Site, capsys: Capture
) -> None:
    assert main(["views", "delete", "Nothing"]) == 2
    assert "tenure views list" in capsys.readouterr().err
    assert main(["views", "save", "Red ones", "colour=red"]) != 0
    assert "no such filter" in capsys.readouterr().err
