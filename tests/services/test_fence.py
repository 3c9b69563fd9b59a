"""The guard, row by row in the order of contract 3: the first mismatch decides."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from coordinator.fence import AttemptRow, Call, Fence, IsCurrent, IsRepeat, Point, TaskRow, judge
from coordinator.outcomes import Current, Outcome, Reason, Refusal, Retry
from coordinator.states import AttemptState, TaskState

TASK, MINE, THEIRS = (UUID(int=number) for number in (1, 2, 3))
NOW = timezone.now()
FENCE = Fence(
    task_id=TASK, attempt_id=MINE, scheduler_epoch=7, claim_generation=3, cancel_generation=1
)
STANDS = TaskRow(
    task_id=TASK,
    run_id=1,
    queue_id=1,
    node_id="n",
    kind="k",
    revision=1,
    state=TaskState.CLAIMED,
    not_before=None,
    input_digest="sha256:in",
    replay="READ_ONLY",
    serial_scope_id=None,
    state_version=9,
    scheduler_epoch=7,
    claim_generation=3,
    cancel_generation=1,
    attempt_id=MINE,
    owner="w",
    lease_expires_at=NOW,
    claimable_at=None,
    attempts=3,
    spent_attempts=2,
    max_attempts=5,
    dependency_count=0,
    pending_dependencies=0,
    result_commit_id=None,
)
GRANTED = AttemptRow(
    attempt_id=MINE,
    task_id=TASK,
    claim_generation=3,
    scheduler_epoch=7,
    cancel_generation=1,
    owner="w",
    credential_id=5,
    state=AttemptState.STARTED,
    started_at=NOW,
    lease_expires_at=NOW,
    end_call=None,
    end_answer=None,
)
COMMIT = Call(Point.COMMIT, FENCE, 5, digest="sha256:call", input_digest="sha256:in")
ENDED = {"end_call": "sha256:call", "end_answer": {"outcome": "COMMITTED"}}

#: Each mismatch: what stands otherwise, and what it is answered with. In the contract's order.
LADDER: list[tuple[str, dict[str, Any], tuple[Outcome, Reason | None]]] = [
    ("another credential", {"call": {"credential_id": 6}}, (Outcome.FORBIDDEN, None)),
    ("superseded", {"task": {"state": TaskState.SUPERSEDED}}, (Outcome.STALE_INPUT, None)),
    ("another input", {"call": {"input_digest": "sha256:other"}}, (Outcome.STALE_INPUT, None)),
    ("cancelled since", {"fence": {"cancel_generation": 0}}, (Outcome.CANCELLED, None)),
    ("cancelled now", {"task": {"state": TaskState.CANCELLED}}, (Outcome.CANCELLED, None)),
    ("older epoch", {"fence": {"scheduler_epoch": 6}}, (Outcome.FENCED, Reason.STALE_EPOCH)),
    (
        "another attempt",
        {"task": {"attempt_id": THEIRS}},
        (Outcome.FENCED, Reason.STALE_GENERATION),
    ),
    (
        "older generation",
        {"fence": {"claim_generation": 2}},
        (Outcome.FENCED, Reason.STALE_GENERATION),
    ),
    (
        "not claimed",
        {"task": {"state": TaskState.READY}},
        (Outcome.FENCED, Reason.STALE_GENERATION),
    ),
]


def verdict(*changes: dict[str, Any], epoch: int = 7, attempt: dict[str, Any] | None = None) -> Any:
    """What the guard says when everything stands but for `changes`."""
    merged: dict[str, dict[str, Any]] = {"call": {}, "task": {}, "fence": {}}
    for change in changes:
        for part, fields in change.items():
            merged[part] |= fields
    call = replace(COMMIT, fence=replace(FENCE, **merged["fence"]), **merged["call"])
    row = GRANTED._replace(**(attempt or {}))
    return judge(call, task=STANDS._replace(**merged["task"]), attempt=row, epoch=epoch)


def test_a_call_whose_every_counter_fits_is_current() -> None:
    assert verdict() == IsCurrent(TASK)


@pytest.mark.parametrize(("name", "change", "answer"), LADDER)
def test_each_mismatch_has_its_answer(
    name: str, change: dict[str, Any], answer: tuple[Outcome, Reason | None]
) -> None:
    refusal = verdict(change)
    assert isinstance(refusal, Refusal)
    assert (refusal.outcome, refusal.reason) == answer


@pytest.mark.parametrize("first", range(len(LADDER)))
def test_of_two_mismatches_the_earlier_one_decides(first: int) -> None:
    _, change, answer = LADDER[first]
    for _, later, _ in LADDER[first + 1 :]:
        if _contradict(change, later):
            continue
        refusal = verdict(later, change)
        assert (refusal.outcome, refusal.reason) == answer


def _contradict(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Both set the same field: they cannot stand together."""
    return any(set(one.get(part, ())) & set(fields) for part, fields in other.items())


@pytest.mark.parametrize(("name", "change", "answer"), LADDER[1:])
def test_the_very_call_that_ended_the_attempt_is_answered_again_whatever_came_since(
    name: str, change: dict[str, Any], answer: object
) -> None:
    assert verdict(change, attempt=ENDED) == IsRepeat({"outcome": "COMMITTED"})


def test_a_repeat_by_another_credential_gets_no_answer() -> None:
    assert verdict(LADDER[0][1], attempt=ENDED).outcome is Outcome.FORBIDDEN


def test_another_call_is_no_repeat() -> None:
    ended = ENDED | {"end_call": "sha256:another"}
    assert verdict({"task": {"state": TaskState.READY}}, attempt=ended).outcome is Outcome.FENCED


def test_a_call_without_a_digest_ends_nothing_and_repeats_nothing() -> None:
    ended = {"end_call": "", "end_answer": {"outcome": "RELEASED"}}
    answer = verdict({"call": {"digest": ""}, "task": {"state": TaskState.READY}}, attempt=ended)
    assert isinstance(answer, Refusal)


def test_a_second_commit_of_a_committed_attempt_with_another_result_is_told_so() -> None:
    task = {"task": {"state": TaskState.COMMITTED}}
    answer = verdict(
        task, attempt={"state": AttemptState.COMMITTED} | ENDED | {"end_call": "sha256:1"}
    )
    assert (answer.outcome, answer.retry) == (Outcome.ALREADY_COMMITTED, Retry.NEVER)


def test_any_other_call_of_a_committed_attempt_is_fenced() -> None:
    change = {
        "task": {"state": TaskState.COMMITTED},
        "call": {"point": Point.RENEW, "input_digest": None},
    }
    answer = verdict(change, attempt={"state": AttemptState.COMMITTED})
    assert (answer.outcome, answer.reason, answer.retry) == (
        Outcome.FENCED,
        Reason.STALE_GENERATION,
        Retry.NEVER,
    )


@pytest.mark.parametrize("counter", ["scheduler_epoch", "claim_generation", "cancel_generation"])
def test_a_fence_ahead_of_the_database_is_fenced_as_such(counter: str) -> None:
    answer = verdict({"fence": {counter: 99}})
    assert (answer.outcome, answer.reason, answer.retry) == (
        Outcome.FENCED,
        Reason.AHEAD,
        Retry.NEVER,
    )


def test_only_commit_names_an_input() -> None:
    assert verdict({"call": {"point": Point.RENEW, "input_digest": None}}) == IsCurrent(TASK)


@pytest.mark.parametrize(
    ("state", "retry"),
    [
        (TaskState.READY, Retry.RECLAIM),
        (TaskState.BLOCKED, Retry.RECLAIM),
        (TaskState.AWAITING_APPROVAL, Retry.RECLAIM),
        (TaskState.COMMITTED, Retry.NEVER),
    ],
)
def test_whether_claiming_anew_can_help_is_told(state: TaskState, retry: Retry) -> None:
    assert verdict({"task": {"state": state}}).retry is retry


def test_a_refusal_tells_the_counters_as_they_stand() -> None:
    answer = verdict({"fence": {"claim_generation": 2}})
    assert answer.current == Current(7, 3, 1, 9)
    assert answer.extra == {"task_state": "CLAIMED"}
    assert answer.evidence_recorded


def test_the_epoch_that_counts_is_the_queues_not_the_tasks() -> None:
    assert verdict({"task": {"scheduler_epoch": 3}}) == IsCurrent(TASK)
    assert verdict(epoch=8).reason is Reason.STALE_EPOCH


@given(
    counters=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    mine=st.booleans(),
    state=st.sampled_from(TaskState),
    point=st.sampled_from(Point),
)
def test_nothing_but_equality_in_every_counter_is_current(
    counters: tuple[int, int, int], mine: bool, state: TaskState, point: Point
) -> None:
    epoch, generation, cancel = counters
    task = STANDS._replace(
        state=state,
        claim_generation=generation,
        cancel_generation=cancel,
        attempt_id=MINE if mine else THEIRS,
    )
    fence = replace(FENCE, scheduler_epoch=1, claim_generation=1, cancel_generation=1)
    answer = judge(Call(point, fence, 5), task=task, attempt=GRANTED, epoch=epoch)
    fits = (counters, mine, state) == ((1, 1, 1), True, TaskState.CLAIMED)
    assert isinstance(answer, IsCurrent) == fits
    assert fits or isinstance(answer, Refusal)
