"""The tables of states.py, the triggers, the drawing and the enums say the same (contract 2, 16)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from coordinator.states import (
    APPROVAL_ARROWS,
    ATTEMPT_ARROWS,
    CANCELLABLE_TASK,
    EFFECT_ARROWS,
    INCIDENT_ARROWS,
    LIVE_ATTEMPT,
    MAY_BE_OUT,
    PROMOTION_ARROWS,
    RUN_ARROWS,
    SETTLED_TASK,
    TASK_ARROWS,
    ApprovalState,
    AttemptState,
    EffectState,
    IncidentState,
    PromotionState,
    RunState,
    TaskState,
)

DRAWING = Path(__file__).parents[2] / "docs" / "state-machines.md"
MACHINES: dict[str, Mapping[Any, frozenset[Any]]] = {
    "task": TASK_ARROWS,
    "attempt": ATTEMPT_ARROWS,
    "run": RUN_ARROWS,
    "effectslot": EFFECT_ARROWS,
    "approval": APPROVAL_ARROWS,
    "incident": INCIDENT_ARROWS,
    "promotionrequest": PROMOTION_ARROWS,
}
#: In the order in which they are drawn.
TABLES: dict[str, set[tuple[str, str]]] = {
    machine: {(str(old), str(new)) for old, states in table.items() for new in states}
    for machine, table in MACHINES.items()
}


@pytest.mark.parametrize("machine", TABLES)
@pytest.mark.django_db
def test_the_trigger_allows_exactly_the_arrows_of_the_table(machine: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = %s AND tgenabled = 'O'",
            [f"{machine}_arrows"],
        )
        ((definition,),) = cursor.fetchall()
    assert set(re.findall(r"'(\w+)>(\w+)'", definition)) == TABLES[machine]


@pytest.mark.parametrize("machine", TABLES)
def test_the_drawing_has_exactly_the_arrows_of_the_table(machine: str) -> None:
    drawings = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", DRAWING.read_text(), re.DOTALL)
    drawn = {
        (old, new)
        for old, new in re.findall(
            r"^ *(\w+) --> (\w+)", drawings[list(TABLES).index(machine)], re.MULTILINE
        )
    }
    assert drawn == TABLES[machine]


@pytest.mark.parametrize("machine", TABLES)
def test_each_arrow_of_the_drawing_says_what_leads_along_it(machine: str) -> None:
    drawings = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", DRAWING.read_text(), re.DOTALL)
    unlabelled = re.findall(
        r"^ *\w+ --> \w+ *$", drawings[list(TABLES).index(machine)], re.MULTILINE
    )
    assert unlabelled == []


def test_every_state_has_its_row() -> None:
    assert set(TASK_ARROWS) == set(TaskState)
    assert set(ATTEMPT_ARROWS) == set(AttemptState)
    assert set(RUN_ARROWS) == set(RunState)
    assert set(EFFECT_ARROWS) == set(EffectState)
    assert set(APPROVAL_ARROWS) == set(ApprovalState)
    assert set(INCIDENT_ARROWS) == set(IncidentState)
    assert set(PROMOTION_ARROWS) == set(PromotionState)


def test_what_is_final_has_no_way_out() -> None:
    assert TASK_ARROWS[TaskState.SUPERSEDED] == frozenset()
    assert TASK_ARROWS[TaskState.COMMITTED] == {TaskState.SUPERSEDED}
    ended = set(AttemptState) - LIVE_ATTEMPT - {AttemptState.EXPIRED}
    assert all(ATTEMPT_ARROWS[state] == frozenset() for state in ended)
    assert ATTEMPT_ARROWS[AttemptState.EXPIRED] == {AttemptState.FENCED}


def test_what_may_be_out_is_never_written_off() -> None:
    assert all(EffectState.VOID not in EFFECT_ARROWS[state] for state in MAY_BE_OUT)
    assert EFFECT_ARROWS[EffectState.COMMITTED] == EFFECT_ARROWS[EffectState.VOID] == frozenset()


def test_what_may_be_cancelled_has_the_arrow() -> None:
    assert {
        state for state in TaskState if TaskState.CANCELLED in TASK_ARROWS[state]
    } == CANCELLABLE_TASK
    assert not CANCELLABLE_TASK & SETTLED_TASK


def test_every_state_is_reached_from_where_tasks_begin() -> None:
    reached, edge = set[TaskState](), {TaskState.BLOCKED, TaskState.READY}
    while edge:
        reached |= edge
        edge = {new for old in edge for new in TASK_ARROWS[old]} - reached
    assert reached == set(TaskState)


@pytest.mark.django_db
def test_the_states_of_the_checks_are_those_of_the_enums() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = ANY(%s)",
            [
                [
                    "task_state",
                    "attempt_state",
                    "run_state",
                    "effect_state",
                    "approval_state",
                    "incident_state",
                    "promotionrequest_state",
                ]
            ],
        )
        found = {name: set(re.findall(r"'(\w+)'", text)) for name, text in cursor.fetchall()}
    assert found == {
        "task_state": set(TaskState),
        "attempt_state": set(AttemptState),
        "run_state": set(RunState),
        "effect_state": set(EffectState),
        "approval_state": set(ApprovalState),
        "incident_state": set(IncidentState),
        "promotionrequest_state": set(PromotionState),
    }
