"""Everything that can happen to a run, at once and in no order: the history holds, and the run can be finished."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from coordinator import digests, tasks
from coordinator.actors import Worker
from coordinator.models import CanonicalCommit, Task
from coordinator.outcomes import Refusal
from coordinator.services.cancels import cancel_task
from coordinator.services.commits import commit_results
from coordinator.services.endings import fail_attempt, release_attempt
from coordinator.services.epochs import bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.memory import MemoryWrite
from coordinator.services.results import stage_result
from coordinator.services.revisions import reopen_task, revise_task
from coordinator.services.runs import Submitted
from tests import world
from tests.history import check
from tests.races.crowd import at_once
from tests.world import commit_item, node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

PEOPLE_AND_WORKERS, TURNS = 6, 150
UNFINISHED = ("BLOCKED", "READY", "CLAIMED", "FAILED", "CANCELLED")


@dataclass
class Chaos:
    """One of the crowd: does something at random with whatever anybody was ever granted."""

    run: Submitted
    worker: Worker
    dice: random.Random
    ever_granted: list[Claim]  # shared by the crowd: late ones come back as often as current ones
    told: Counter[str] = field(default_factory=Counter)

    def go(self) -> Counter[str]:
        verbs: list[tuple[Callable[[], Any], int]] = [
            (self.claim, 10), (self.commit, 8), (self.renew, 4), (self.stage, 2), (self.fail, 2), (self.release, 2),
            (self.lapse, 3), (self.sweep, 2), (self.cancel, 1), (self.reopen, 2), (self.revise, 1), (self.bump, 1),
        ]  # fmt: skip
        for _ in range(TURNS):
            verb = self.dice.choices([v for v, _ in verbs], [weight for _, weight in verbs])[0]
            for answer in verb() or ():
                self.told[f"{verb.__name__} {getattr(answer, 'outcome', 'done')}"] += 1
        return self.told

    def claim(self) -> list[Any]:
        try:
            got = world.claim(by=self.worker, limit=self.dice.randint(1, 3))
        except AssertionError:  # the epoch moved between the look and the claim
            return []
        self.ever_granted.extend(got)
        return got

    def _granted(self) -> list[Claim]:
        count = min(len(self.ever_granted), self.dice.randint(1, 3))
        return self.dice.sample(self.ever_granted[-12:], min(count, len(self.ever_granted[-12:])))

    def commit(self) -> list[Any]:
        items = [replace(commit_item(claim), memory=self._memory()) for claim in self._granted()]
        return list(commit_results(items=items, worker=self.worker))

    def _memory(self) -> tuple[MemoryWrite, ...]:
        if self.dice.random() < 0.5:
            return ()
        value = digests.canonical(self.dice.random())
        key = self.dice.choice("xyz")
        expected = self.dice.randint(0, 4)
        return (MemoryWrite("chaos", key, expected, value.decode(), digests.sha256(value)),)

    def renew(self) -> list[Any]:
        items = [Renewal(c.fence.attempt_id, c.fence, c.owner, 60) for c in self._granted()]
        return list(renew_leases(items=items, worker=self.worker))

    def stage(self) -> list[Any]:
        return [
            stage_result(attempt_id=c.fence.attempt_id, fence=c.fence, result=1, worker=self.worker)
            for c in self._granted()
        ]

    def fail(self) -> list[Any]:
        error = {"type": "Chaos", "message": "as the dice fell"}
        return [
            fail_attempt(
                attempt_id=c.fence.attempt_id,
                fence=c.fence,
                error=error,
                retryable=self.dice.random() < 0.8,
                worker=self.worker,
            )
            for c in self._granted()[:1]
        ]

    def release(self) -> list[Any]:
        return [
            release_attempt(attempt_id=c.fence.attempt_id, fence=c.fence, worker=self.worker)
            for c in self._granted()[:1]
        ]

    def lapse(self) -> None:
        for claim in self._granted():
            world.lapse(claim.fence.task_id, seconds_ago=0.001)

    def sweep(self) -> None:
        tasks.sweep()
        tasks.settle_runs()

    def _some_task(self, *states: str) -> tuple[UUID, int] | None:
        found = list(Task.objects.filter(state__in=states).values_list("task_id", "state_version"))
        return self.dice.choice(found) if found else None

    def cancel(self) -> list[Any]:
        found = self._some_task("BLOCKED", "READY", "CLAIMED")
        return (
            [cancel_task(task_id=found[0], reason="dice", actor=world.operator())] if found else []
        )

    def reopen(self) -> list[Any]:
        found = self._some_task("CANCELLED", "FAILED")
        return [self._reopened(*found)] if found else []

    def _reopened(self, task_id: UUID, version: int) -> Any:
        return reopen_task(
            task_id=task_id, expected_state_version=version, reason="dice", actor=world.operator()
        )

    def revise(self) -> list[Any]:
        found = self._some_task("BLOCKED", "READY", "CLAIMED", "COMMITTED", "FAILED")
        if found is None:
            return []
        return [
            revise_task(
                task_id=found[0],
                expected_state_version=found[1],
                input={"dice": self.dice.random()},
                reason="dice",
                actor=world.operator(),
            )
        ]

    def bump(self) -> list[Any]:
        if self.dice.random() < 0.7:
            return []
        return [
            bump_epoch(
                queue="q", expected_epoch=world.epoch(), reason="dice", actor=world.operator()
            )
        ]


def test_whatever_happens_at_once_the_history_holds_and_the_run_can_be_finished() -> None:
    world.queue(max_attempts=4, retry_backoff_seconds=0)
    worker = world.worker()
    run = world.submit(
        *(node(f"a{i}") for i in range(8)),
        *(node(f"b{i}", f"a{i}", f"a{i + 1}", serial_key=f"k{i % 2}") for i in range(6)),
        node("end", *(f"b{i}" for i in range(6)), "a7"),
    )
    seed = random.SystemRandom().randrange(2**32)
    granted: list[Claim] = []
    crowd = [
        Chaos(run, worker, random.Random(seed + number), granted)
        for number in range(PEOPLE_AND_WORKERS)
    ]
    told: Counter[str] = sum(at_once(*(one.go for one in crowd)), Counter())
    check()
    assert told["claim done"] > 20, (seed, told)
    assert told["commit COMMITTED"] > 0, (seed, told)
    assert told["commit FENCED"] + told["commit CANCELLED"] + told["commit STALE_INPUT"] > 0, (
        seed,
        told,
    )
    _finish(crowd[0])
    assert world.run_row(run).state == "COMMITTED", seed
    newest = Task.objects.exclude(state="SUPERSEDED")
    assert newest.count() == 15
    assert CanonicalCommit.objects.filter(task__in=newest).count() == 15


def _finish(one: Chaos) -> None:
    """A person reopens what has ended otherwise, and a worker does the rest."""
    for _ in range(200):
        while (found := one._some_task("CANCELLED", "FAILED")) is not None:
            one._reopened(*found)
        for task_id in Task.objects.filter(state="CLAIMED").values_list("task_id", flat=True):
            world.lapse(task_id)
        for task_id in Task.objects.filter(state="READY").values_list("task_id", flat=True):
            world.make_due(task_id)
        for claim in world.claim(by=one.worker, limit=100):
            answer = world.try_commit(claim, by=one.worker)
            assert not isinstance(answer, Refusal), answer
        if not Task.objects.filter(state__in=UNFINISHED).exists():
            tasks.settle_runs()
            return
    raise AssertionError("the run never ended")
