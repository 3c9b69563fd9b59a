"""The effect protocol, searched whole: what is promised stays clean, and what must fail is seen to fail."""

from dataclasses import replace
from pathlib import Path

import pytest

from coordinator import states

from . import search as searching
from .__main__ import main
from .mutants import FENCE, MUTANTS, SPARE
from .rules import Downstream, Guarantee, Model, may_be_out
from .scenarios import (
    BLIND,
    BLIND_DEAD,
    CONDITIONAL,
    CONDITIONAL_DEAD,
    CONDITIONAL_LATE,
    GATED,
    GATED_DEAD,
    KEYED,
    KEYED_DEAD,
    PROMISED,
    QUERIED_DEAD,
    QUERIED_LATE,
    RESERVED,
    RESERVED_DEAD,
    RESERVED_LATE,
    UNKEPT,
    Failure,
    Promise,
)
from .search import ARROWS, TooLarge, search
from .story import tell
from .stuck import stuck
from .world import KEY_LAPSED, Call, Effect, Task, Violation

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
DEAD = (CONDITIONAL_DEAD, KEYED_DEAD, RESERVED_DEAD, GATED_DEAD, QUERIED_DEAD, BLIND_DEAD)


def name_of(row: Promise | Failure) -> str:
    return row.name


@pytest.mark.parametrize("promise", [*PROMISED, *SPARE], ids=name_of)
def test_every_order_of_events_keeps_the_promise(promise: Promise) -> None:
    found = search(promise.model())
    assert found.exhausted
    assert not found.stories, "\n\n".join(tell(story) for story in found.stories.values())
    if promise in PROMISED:
        row = f"| {promise.name} | {promise.dispatches} | {found.states:,} | {found.depth} |"
        assert row in PAGE.read_text(), "docs/protocol.md says what was visited"


@pytest.mark.parametrize("failure", [*UNKEPT, *MUTANTS], ids=name_of)
def test_what_must_fail_is_seen_to_fail_in_the_fewest_steps(failure: Failure) -> None:
    found = search(failure.model(), until=failure.finds)
    lengths = {violation: len(found.stories.get(violation, [])) for violation in failure.finds}
    assert lengths == failure.finds
    for violation in failure.finds:
        *before, last = found.stories[violation]
        assert last.violation is violation
        assert violation not in [step.violation for step in before]


def test_the_page_tells_of_every_search() -> None:
    page = PAGE.read_text()
    for spare in SPARE:
        assert f"| {spare.name} |" in page
    for failure in (*UNKEPT, *MUTANTS):
        told = ", ".join(f"`{violation.name}` in {n}" for violation, n in failure.finds.items())
        assert f"| {failure.name} | {failure.why} | {told} |" in page


def test_every_guarantee_of_the_contract_is_promised_in_some_world() -> None:
    promised = {promise.downstream.guarantee.name for promise in PROMISED}
    assert promised == {guarantee.value for guarantee in states.Guarantee}


def test_the_arrows_are_those_of_the_coordinator() -> None:
    theirs = {(a.value, b.value) for a, ends in states.EFFECT_ARROWS.items() for b in ends}
    ours = {(a.name, b.name) for a, b in ARROWS if a is not Effect.UNBOUND}
    assert ours == theirs
    outs = {effect.name for effect in Effect if may_be_out(effect)}
    assert outs == {state.value for state in states.MAY_BE_OUT}


def test_every_arrow_is_walked_and_one_only_where_a_word_was_not_kept() -> None:
    """A receipt turns up for a PREPARED slot only where a seal was false: a net, which no promised class falls into."""
    kept = [Model(downstream=downstream) for downstream in (CONDITIONAL_LATE, GATED, QUERIED_LATE)]
    walked = set().union(*(search(model).arrows for model in kept))
    assert walked == ARROWS - {(Effect.PREPARED, Effect.UNKNOWN)}
    assert (Effect.PREPARED, Effect.UNKNOWN) in search(Model(downstream=BLIND)).arrows


@pytest.mark.parametrize(
    "downstream", [CONDITIONAL, GATED, QUERIED_LATE, BLIND], ids=lambda d: str(d.guarantee.name)
)
def test_taking_like_worlds_for_one_changes_no_verdict(downstream: Downstream) -> None:
    brief = search(Model(downstream=downstream))
    whole = search(Model(downstream=downstream, every_world=True))
    assert {v: len(s) for v, s in whole.stories.items()} == {
        v: len(s) for v, s in brief.stories.items()
    }
    assert whole.arrows == brief.arrows
    assert whole.states > brief.states


@pytest.mark.parametrize("failure", FENCE, ids=name_of)
def test_taking_like_worlds_for_one_hides_no_broken_fence(failure: Failure) -> None:
    found = search(replace(failure.model(), every_world=True), until=failure.finds)
    assert {v: len(found.stories[v]) for v in failure.finds} == failure.finds


@pytest.mark.parametrize("downstream", DEAD, ids=lambda d: str(d.guarantee.name))
def test_a_person_who_knows_the_old_process_dead_can_settle_anything(
    downstream: Downstream,
) -> None:
    worlds, story = stuck(Model(downstream=downstream))
    assert worlds == 0, tell(story)


@pytest.mark.parametrize(
    "downstream",
    [CONDITIONAL_LATE, RESERVED_LATE, GATED, QUERIED_LATE],
    ids=lambda d: str(d.guarantee.name),
)
def test_a_downstream_that_refuses_late_calls_needs_no_person(
    downstream: Downstream,
) -> None:
    worlds, story = stuck(Model(downstream=downstream))
    assert worlds == 0, tell(story)


@pytest.mark.parametrize(
    "downstream", [CONDITIONAL, KEYED, RESERVED], ids=lambda d: str(d.guarantee.name)
)
def test_without_that_some_absences_can_only_be_asserted(downstream: Downstream) -> None:
    """In an incident nothing is sent again, and a re-send seal does not open the gate: it takes a person's word."""
    worlds, _ = stuck(Model(downstream=downstream))
    assert worlds > 0


def test_a_slot_whose_key_was_forgotten_goes_on_where_nothing_is_out() -> None:
    """And with a call that may still arrive it does not."""
    reached = searching.reachable(Model(downstream=KEYED_DEAD))
    old = [world for world in reached if world.place == KEY_LAPSED and len(world.dispatches) == 1]
    goes = {
        world.effect
        for world in old
        for step in searching.successors(Model(downstream=KEYED_DEAD), world)
        if "accepts dispatch 2" in step.text
    }
    assert goes == {Effect.PREPARED}
    assert {Effect.RESENDABLE, Effect.UNKNOWN} <= {world.effect for world in old}


def test_a_taken_over_worker_that_wakes_can_still_send_and_nothing_comes_of_it() -> None:
    """The search is not clean for want of unkindness: a zombie's call does go out after the task is committed."""
    model = Model(downstream=CONDITIONAL)
    reached = searching.reachable(model)
    zombies = [
        world
        for world in reached
        if world.task == Task.COMMITTED and any(d.call == Call.SENT for d in world.dispatches)
    ]
    assert zombies
    assert all(world.performed and world.effect == Effect.COMMITTED for world in zombies)


def test_a_search_that_meets_its_bound_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_WORLDS", 100)
    with pytest.raises(TooLarge, match="more than 100 worlds"):
        search(Model(downstream=GATED))


def test_a_story_names_workers_generations_and_what_the_ledger_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--story", "no generation check"]) == 0
    lines = [line.split("  [")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line][1:] == [
        "1. A (generation 1) claims the task",
        "2. B (generation 2) takes over: the lease has run out",
        "3. A (generation 1) commits the task",
        f"✗ {Violation.STALE_OWNER.text}",
    ]


def test_a_story_that_is_not_there_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--story", "no such thing"]) == 2
    out = capsys.readouterr().out
    assert "'no such thing'" in out
    assert all(failure.name in out for failure in (*UNKEPT, *MUTANTS))


def test_guarantees_are_the_contracts_and_the_one_it_warns_of() -> None:
    names = {guarantee.name for guarantee in Guarantee}
    assert names - {guarantee.value for guarantee in states.Guarantee} == {"FENCING_TOKEN"}
