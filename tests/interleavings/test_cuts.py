"""The connection breaks before or after each statement, COMMIT's lost answer among them; the caller asks again.

Whatever was cut, the call has taken effect once when its repeat is answered, and the repeat
is answered as the first would have been.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from coordinator.ids import new_id
from coordinator.models import CanonicalCommit, Dispatch, EffectSlot, StagedResult
from coordinator.services.acceptances import Accepted
from coordinator.services.cancels import Cancelled
from coordinator.services.claims import Claimed, claim_tasks
from coordinator.services.commits import Committed
from coordinator.services.effects import Prepared
from coordinator.services.endings import Released, RetryScheduled, fail_attempt, release_attempt
from coordinator.services.epochs import Bumped
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.results import Staged
from tests import world
from tests.effects import ledger
from tests.history import check
from tests.interleavings.scenes import Cast, bump, cancel, cast, held, outcome, prepared
from tests.interleavings.schedule import Cut, Stage, stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

#: No verb sends more statements than this in one go; a search that gets there has lost its way.
MOST_STATEMENTS = 60


@dataclass(frozen=True)
class Verb:
    """`make` prepares a world and gives the call and what must be true once it is answered."""

    name: str
    make: Callable[[Cast], tuple[Callable[[], Any], Callable[[Any], None]]]


def claims(people: Cast) -> Any:
    run = world.submit(world.node("a", kind=f"kind-{new_id()}"))
    task = world.task(world.task_id(run, "a"))
    call = partial(
        claim_tasks,
        queue="q",
        worker=people.first,
        scheduler_epoch=world.epoch(),
        owner="first",
        kinds=[task.kind],
        request=ledger.key(),
    )

    def judge(answer: Any) -> None:
        assert isinstance(answer, Claimed), answer
        (claim,) = answer.claims
        assert world.task(task.task_id).claim_generation == 1
        assert world.task(task.task_id).attempt_id == claim.fence.attempt_id

    return call, judge


def renewals(people: Cast) -> Any:
    claim = held(people)
    item = Renewal(claim.fence.attempt_id, claim.fence, "worker-1", 60)

    def judge(answer: Any) -> None:
        assert isinstance(answer[0], Renewed), answer
        assert world.task(claim.fence.task_id).lease_expires_at == answer[0].lease_expires_at

    return partial(renew_leases, items=[item], worker=people.first, queue=None), judge


def stages(people: Cast) -> Any:
    claim = held(people)

    def judge(answer: Any) -> None:
        assert isinstance(answer, Staged), answer
        assert StagedResult.objects.filter(attempt_id=claim.fence.attempt_id).count() == 1

    return partial(world.stage, claim, by=people.first), judge


def prepares(people: Cast) -> Any:
    claim = held(people, slots={ledger.SLOT: "there"})

    def judge(answer: Any) -> None:
        assert isinstance(answer, Prepared), answer
        assert EffectSlot.objects.filter(task_id=claim.fence.task_id).count() == 1

    return partial(ledger.try_prepare, claim, by=people.first), judge


def accepts(people: Cast) -> Any:
    claim, effect = prepared(people)

    def judge(answer: Any) -> None:
        assert isinstance(answer, Accepted), answer
        (dispatch,) = Dispatch.objects.filter(effect_id=effect.effect_id)
        assert dispatch.dispatch_id == answer.dispatch_id

    request = ledger.key()
    call = partial(ledger.try_accept, effect, claim.fence, by=people.first, request=request)
    return call, judge


def commits(people: Cast) -> Any:
    run = world.submit(world.node("a"), world.node("b", "a"))
    claim = world.claim_one(by=people.first, of=world.task_id(run, "a"))

    def judge(answer: Any) -> None:
        assert isinstance(answer, Committed), answer
        assert answer.released == ["b"]
        (commit,) = CanonicalCommit.objects.filter(task_id=claim.fence.task_id)
        assert commit.result_commit_id == answer.result_commit_id
        assert world.current(run, "b").pending_dependencies == 0

    return partial(world.try_commit, claim, by=people.first), judge


def fails(people: Cast) -> Any:
    claim = held(people)
    call = partial(
        fail_attempt,
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        error={"type": "Late", "message": "no"},
        retryable=True,
        retry_after_seconds=0,
        usage=None,
        worker=people.first,
    )

    def judge(answer: Any) -> None:
        assert isinstance(answer, RetryScheduled), answer
        assert world.task(claim.fence.task_id).spent_attempts == 1

    return call, judge


def releases(people: Cast) -> Any:
    claim = held(people)
    call = partial(
        release_attempt,
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        usage=None,
        worker=people.first,
    )

    def judge(answer: Any) -> None:
        assert isinstance(answer, Released), answer
        assert world.task(claim.fence.task_id).state == "READY"

    return call, judge


def cancels(people: Cast) -> Any:
    claim = held(people)

    def judge(answer: Any) -> None:
        assert isinstance(answer, Cancelled), answer
        assert world.task(claim.fence.task_id).cancel_generation == answer.cancel_generation == 1

    return partial(cancel, claim.fence.task_id), judge


def bumps(people: Cast) -> Any:
    claim, epoch = held(people), world.epoch()

    def judge(answer: Any) -> None:
        # The repeat names the epoch that it saw: it bumps once more only if the first one was lost.
        assert isinstance(answer, Bumped) or outcome(answer) == "STATE_VERSION_MISMATCH", answer
        assert world.epoch() == epoch + 1
        assert world.task(claim.fence.task_id).state == "READY"

    return bump(), judge


VERBS = [
    Verb("claim", claims),
    Verb("renew", renewals),
    Verb("stage", stages),
    Verb("prepare", prepares),
    Verb("accept", accepts),
    Verb("commit", commits),
    Verb("fail", fails),
    Verb("release", releases),
    Verb("cancel", cancels),
    Verb("bump", bumps),
]


def again(call: Callable[[], Any]) -> Any:
    """What a caller does that has lost its connection: the same once more, over another one."""
    try:
        return call()
    except OperationalError:
        connection.close()
        return call()


@pytest.mark.parametrize("how", Cut, ids=lambda cut: cut.name.lower())
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_call_that_is_cut_anywhere_and_repeated_takes_effect_once(verb: Verb, how: Cut) -> None:
    people = cast()
    with stage(1) as players:
        for statement in range(1, MOST_STATEMENTS):
            if not cut_at(players, people, verb, statement, how):
                break
        else:
            raise AssertionError(f"{verb.name} never ended")
    assert statement > 5  # there was something to cut
    check()


def cut_at(players: Stage, people: Cast, verb: Verb, statement: int, how: Cut) -> bool:
    """Whether the verb sends so many statements at all; where it does, the cut happened and was mended."""
    call, judge = verb.make(people)
    (player,) = players.players
    player.cut = (statement, how)
    try:
        (answer,) = players.perform([partial(again, call)], seed=statement)
    except BaseException as error:
        error.add_note(f"{verb.name}, cut {how.name} statement {statement}")
        raise
    judge(answer)
    was_cut = player.was_cut
    player.cut, player.was_cut = None, False
    return was_cut
