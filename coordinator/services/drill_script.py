"""What a fence drill tries, step by step, each with the answer that the contract asks for (contract 14)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from coordinator import digests
from coordinator.actors import Worker, system
from coordinator.canary import DRILL
from coordinator.clock import read_clock
from coordinator.models import CanonicalCommit, EffectSlot, Task
from coordinator.outcomes import Refusal

from .cancels import cancel_task
from .claims import claim_task
from .commits import CommitItem, commit_results
from .effects import prepare_effect
from .grants import Claim
from .leases import Renewal, renew_leases

#: Long enough to renew under, short enough to wait for.
LEASE_SECONDS: Final = 1
MAX_WAITS: Final = 20
NODES: Final = ("late", "cancelled", "conflict")
SLOT: Final = "canary"
_STALE_EPOCH: Final = "FENCED STALE_EPOCH"
_STALE_GENERATION: Final = "FENCED STALE_GENERATION"

#: Every step of a drill with its expected answer: one that was not reached has failed.
STEPS: Final = {
    "the canary is claimed": "CLAIMED",
    "a renewal under an older epoch": _STALE_EPOCH,
    "a commit under an older epoch": _STALE_EPOCH,
    "another worker takes the lapsed canary over": "CLAIMED",
    "the late worker's renewal": _STALE_GENERATION,
    "the late worker's commit": _STALE_GENERATION,
    "the holder's commit": "COMMITTED",
    "whose result is canonical": "the holder's",
    "a canary to be cancelled is claimed": "CLAIMED",
    "it is cancelled": "CANCELLED",
    "its worker's commit": "CANCELLED",
    "a canary with an effect is claimed": "CLAIMED",
    "its payload is bound": "PREPARED",
    "another payload for the same slot": "PAYLOAD_CONFLICT",
    "whose payload is bound": "the first",
    "its commit": "COMMITTED",
}


@dataclass(frozen=True, slots=True)
class DrillStep:
    step: str
    expected: str
    answered: str
    passed: bool


class _Stuck(Exception):
    """A claim that later steps need was not granted."""


@dataclass(slots=True)
class Script:
    """One drill of one queue: its canaries by node, and what each step was answered with."""

    tasks: dict[str, UUID]
    epoch: int
    worker: Worker
    wait: Callable[[Claim], None]
    answered: dict[str, str] = field(default_factory=dict)

    def run(self) -> list[DrillStep]:
        """All parts, each whatever became of the others; nothing that a service raises ends the drill."""
        for part in (self._late, self._cancelled, self._conflict):
            try:
                part()
            except _Stuck:
                continue
        return [
            DrillStep(step, expected, told, told == expected)
            for step, expected in STEPS.items()
            for told in [self.answered.get(step, "not reached")]
        ]

    def _late(self) -> None:
        first = self._claim("the canary is claimed", "late")
        stale = replace(first.fence, scheduler_epoch=self.epoch - 1)
        self._try("a renewal under an older epoch", lambda: self._renew(first, stale))
        self._try("a commit under an older epoch", lambda: self._commit(first, stale))
        self.wait(first)
        second = self._claim("another worker takes the lapsed canary over", "late", after=first)
        self._try("the late worker's renewal", lambda: self._renew(first, first.fence))
        self._try("the late worker's commit", lambda: self._commit(first, first.fence))
        self._try("the holder's commit", lambda: self._commit(second, second.fence))
        commit = CanonicalCommit.objects.filter(task_id=self.tasks["late"]).first()
        is_holders = commit is not None and commit.attempt_id == second.fence.attempt_id
        self.answered["whose result is canonical"] = "the holder's" if is_holders else "another's"

    def _cancelled(self) -> None:
        claim = self._claim("a canary to be cancelled is claimed", "cancelled")
        self._try(
            "it is cancelled",
            lambda: cancel_task(
                task_id=claim.fence.task_id, reason="fence drill", actor=system("drill")
            ),
        )
        self._try("its worker's commit", lambda: self._commit(claim, claim.fence))

    def _conflict(self) -> None:
        claim = self._claim("a canary with an effect is claimed", "conflict")
        self._try("its payload is bound", lambda: self._prepare(claim, 1))
        self._try("another payload for the same slot", lambda: self._prepare(claim, 2))
        slot = EffectSlot.objects.filter(task_id=claim.fence.task_id).first()
        is_first = slot is not None and slot.payload == digests.canonical(_payload(1)).decode()
        self.answered["whose payload is bound"] = "the first" if is_first else "another"
        self._try("its commit", lambda: self._commit(claim, claim.fence))

    # --- the calls ----------------------------------------------------------------------------

    def _claim(self, step: str, node: str, *, after: Claim | None = None) -> Claim:
        task = Task.objects.get(task_id=self.tasks[node])
        answer = self._try(
            step,
            lambda: claim_task(
                task_id=task.task_id,
                expected_state_version=task.state_version,
                scheduler_epoch=self.epoch,
                owner=f"{DRILL} {'second' if after else 'first'}",
                worker=self.worker,
                ttl_seconds=LEASE_SECONDS,
            ),
        )
        if not isinstance(answer, Claim):
            raise _Stuck
        if after and answer.fence.claim_generation != after.fence.claim_generation + 1:
            self.answered[step] = f"generation {answer.fence.claim_generation}"
        return answer

    def _renew(self, claim: Claim, fence: Any) -> Any:
        renewal = Renewal(claim.fence.attempt_id, fence, claim.owner, LEASE_SECONDS)
        return renew_leases(items=[renewal], worker=self.worker)[0]

    def _commit(self, claim: Claim, fence: Any) -> Any:
        item = CommitItem(
            attempt_id=claim.fence.attempt_id,
            fence=fence,
            input_digest=claim.input_digest,
            result={"attempt": str(claim.fence.attempt_id)},
        )
        return commit_results(items=[item], worker=self.worker)[0]

    def _prepare(self, claim: Claim, number: int) -> Any:
        return prepare_effect(
            attempt_id=claim.fence.attempt_id,
            fence=claim.fence,
            slot=SLOT,
            downstream=DRILL,
            payload=_payload(number),
            worker=self.worker,
        )

    def _try(self, step: str, call: Callable[[], Any]) -> Any:
        """The call's answer, noted under the step; what it raises is an answer too."""
        try:
            answer = call()
        except Exception as error:  # noqa: BLE001 (a broken guard may end in any error; the drill names it)
            self.answered[step] = f"error {type(error).__name__}"
            return None
        self.answered[step] = _told(answer)
        return answer


def _payload(number: int) -> dict[str, int]:
    return {"canary": number}


def _told(answer: Any) -> str:
    if isinstance(answer, Claim):
        return "CLAIMED"
    if isinstance(answer, Refusal) and answer.reason is not None:
        return f"{answer.outcome} {answer.reason}"
    return str(answer.outcome)


def wait_until_lapsed(claim: Claim) -> None:
    """Until the database's clock has passed the lease: a drill tries a real expiry."""
    for _ in range(MAX_WAITS):
        left = (claim.lease_expires_at - read_clock()).total_seconds()
        if left < 0:
            return
        time.sleep(min(left, LEASE_SECONDS) + 0.005)
