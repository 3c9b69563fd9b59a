"""The model's twin: the same promises in Promela, searched by spin."""

from pathlib import Path

import pytest

from . import twin
from .twin import CLASSES, MUTANTS, REACHED, SPARE, Unfinished, search

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


@pytest.mark.parametrize("names", [*CLASSES, *SPARE])
def test_no_order_of_events_breaks_an_assertion(names: str) -> None:
    found = search(names)
    assert found.broken == ""
    assert found.states > 100_000


@pytest.mark.parametrize(("names", "assertion"), MUTANTS.items())
def test_a_broken_rule_is_caught_by_the_assertion_that_it_endangers(
    names: str, assertion: str
) -> None:
    assert assertion in search(names).broken


@pytest.mark.parametrize("scene", REACHED)
def test_what_the_promises_are_about_does_happen(scene: str) -> None:
    names, condition = REACHED[scene]
    assert search(names, reached=condition).broken


def test_what_can_not_happen_is_not_reached() -> None:
    assert search("REFUSES_LATE", reached="performed == 2").broken == ""


def test_a_model_with_a_fault_of_its_own_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = tmp_path / "claim.pml"
    torn.write_text(twin.MODEL.read_text().replace("inline end_attempt()", "inline end_attempt("))
    monkeypatch.setattr(twin, "MODEL", torn)
    with pytest.raises(Unfinished, match="syntax error"):
        search("KEYED")


def test_the_page_tells_of_every_mutant_of_the_twin() -> None:
    page = PAGE.read_text()
    for names in (*MUTANTS, *SPARE):
        assert f"`{names.split()[-1]}`" in page
