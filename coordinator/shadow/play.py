"""One task round of a legacy scheduler, played through claim.v1's guard (contract 3, 13).

The task and its attempts are made up here, in a namespace that nobody else sees; the guard that
judges the calls is the one that judges real ones. Each legacy event is first what it claims to be
(a claim, a commit, …), and then what claim.v1 would have answered to the same call.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from coordinator.fence import (
    AttemptRow,
    Call,
    Fence,
    IsRepeat,
    Point,
    TaskRow,
    Verdict,
    judge,
    judge_grant,
)
from coordinator.outcomes import Outcome, Refusal
from coordinator.states import AttemptState, TaskState

from .words import LegacyEvent, LegacyKind, Mismatch, RoundVerdict, Winner

#: One made-up credential, epoch and task: equality is all that the guard looks at.
_CREDENTIAL: Final = 1
_EPOCH: Final = 1
_TASK: Final = UUID(int=1)
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)
_POINTS: Final = {
    LegacyKind.RENEWED: Point.RENEW,
    LegacyKind.RELEASED: Point.RELEASE,
    LegacyKind.COMMITTED: Point.COMMIT,
    LegacyKind.FAILED: Point.FAIL,
}
#: A refused commit is named by the guard's own answer.
_NAMED: Final = {
    Outcome.CANCELLED: RoundVerdict.CANCEL_IGNORED,
    Outcome.STALE_INPUT: RoundVerdict.STALE_INPUT,
    Outcome.ALREADY_COMMITTED: RoundVerdict.WINNER_DIFFERS,
    Outcome.FENCED: RoundVerdict.LATE_COMMIT,
}


_NEW_TASK: Final = TaskRow(
    task_id=_TASK,
    run_id=0,
    queue_id=0,
    node_id="",
    kind="",
    revision=1,
    state=TaskState.READY,
    not_before=None,
    input_digest="",
    replay="REPLAYABLE",
    serial_scope_id=None,
    state_version=1,
    scheduler_epoch=_EPOCH,
    claim_generation=0,
    cancel_generation=0,
    attempt_id=None,
    owner=None,
    lease_expires_at=None,
    claimable_at=None,
    attempts=0,
    spent_attempts=0,
    max_attempts=1,
    dependency_count=0,
    pending_dependencies=0,
    result_commit_id=None,
)


@dataclass(frozen=True, slots=True)
class Side:
    """How one side ended: who won, and with which result."""

    winner: Winner
    owner: str = ""
    result_digest: str | None = None


@dataclass(slots=True)
class _Grant:
    """What the legacy scheduler handed out. `is_held` where claim.v1 would have granted it as well."""

    attempt: AttemptRow
    is_held: bool
    event_id: str
    input_digest: str | None


@dataclass(slots=True)
class Play:
    """The state of one round. Feed it with `take`, in order; then ask how it ended."""

    default_lease_seconds: float
    task: TaskRow = _NEW_TASK
    grants: list[_Grant] = field(default_factory=list)
    by_owner: dict[str, _Grant] = field(default_factory=dict)
    mismatches: list[Mismatch] = field(default_factory=list)
    handed_out: int = 0
    last: LegacyEvent | None = None
    holder: _Grant | None = None  # whose attempt is the task's current, or was its last
    moved_at: datetime = _NO_TIME  # the last event that changed anything, or was refused for it
    legacy_commit: LegacyEvent | None = None
    claim_commit: LegacyEvent | None = None
    legacy_cancelled: bool = False
    legacy_failed: bool = False

    # --- what happens ---------------------------------------------------------------------------

    def take(self, event: LegacyEvent) -> None:
        """The next event of the round, in the order of time."""
        self.last = event
        match event.event:
            case LegacyKind.CLAIMED:
                self._claim(event)
            case LegacyKind.CANCELLED:
                self._cancel(event)
            case LegacyKind.COMMITTED:
                self.legacy_commit, self.legacy_failed = event, False
                self._commit(event)
            case LegacyKind.RENEWED:
                self._renew(event)
            case LegacyKind.RELEASED:
                self._let_go(event, TaskState.READY, AttemptState.RELEASED)
            case LegacyKind.FAILED:
                self.legacy_failed = True
                self._let_go(event, TaskState.FAILED, AttemptState.FAILED)

    def carry_on(self) -> "Play":
        """The next round of a task that has closed, begun by a straggler: what it was granted still counts."""
        return replace(
            self,
            mismatches=[],
            handed_out=0,
            last=None,
            legacy_commit=None,
            legacy_cancelled=False,
            legacy_failed=False,
        )

    def _claim(self, event: LegacyEvent) -> None:
        self.handed_out += 1
        self.legacy_failed = False
        self.moved_at = event.at
        self._revise(event)
        if self.task.state == TaskState.FAILED:  # it is tried again
            self.task = self.task._replace(state=TaskState.READY)
        verdict = judge_grant(self.task, scheduler_epoch=_EPOCH, epoch=_EPOCH, clock=event.at)
        free = verdict is not None
        if not free:
            self._refuse_claim(event)
        elif self.is_claimed:
            self._end_holder(AttemptState.EXPIRED)
        generation = self.task.claim_generation + free
        attempt = self._attempt(event, generation, held=free)
        grant = _Grant(attempt, free, event.event_id, event.input_digest)
        self.grants.append(grant)
        if free or event.owner not in self.by_owner:
            self.by_owner[event.owner] = grant
        if free:
            self.holder = grant
            self.task = self.task._replace(
                state=TaskState.CLAIMED,
                claim_generation=generation,
                attempt_id=attempt.attempt_id,
                owner=event.owner,
                lease_expires_at=attempt.lease_expires_at,
                state_version=self.task.state_version + 1,
            )

    def _refuse_claim(self, event: LegacyEvent) -> None:
        cancelled = self.task.state == TaskState.CANCELLED
        verdict = RoundVerdict.CANCEL_IGNORED if cancelled else RoundVerdict.DOUBLE_CLAIM
        why = (
            f"`{self.task.owner}` holds it until {self.lease_expires_at.isoformat()}"
            if self.is_claimed
            else f"it is {self.task.state}"
        )
        told = f"handed it to `{event.owner}`"
        beside = self.holder.event_id if self.holder else ""
        self._part(verdict, event, beside, told, f"NOT_CLAIMABLE: {why}")

    def _revise(self, event: LegacyEvent) -> None:
        """Another input is another revision: whoever works on the old one is stale, and it may be claimed."""
        wanted = event.input_digest
        known = self.task.input_digest
        if wanted is None or wanted == known:
            return
        self.task = self.task._replace(input_digest=wanted)
        if not known or self.task.state == TaskState.CANCELLED:
            return
        if self.is_claimed:
            self._end_holder(AttemptState.STALE_INPUT)
        if self.task.state in (TaskState.CLAIMED, TaskState.COMMITTED):
            self.claim_commit = self.legacy_commit = None
            self.task = self.task._replace(
                state=TaskState.READY,
                revision=self.task.revision + 1,
                attempt_id=None,
                state_version=self.task.state_version + 1,
            )

    def _cancel(self, event: LegacyEvent) -> None:
        self.legacy_cancelled = True
        self.moved_at = event.at
        if self.task.state in (TaskState.COMMITTED, TaskState.CANCELLED):
            return
        if self.is_claimed:
            self._end_holder(AttemptState.CANCELLED)
        self.task = self.task._replace(
            state=TaskState.CANCELLED,
            cancel_generation=self.task.cancel_generation + 1,
            attempt_id=None,
            state_version=self.task.state_version + 1,
        )

    def _commit(self, event: LegacyEvent) -> None:
        self.moved_at = event.at
        grant = self.by_owner.get(event.owner)
        verdict = self._judge(event, grant)
        if isinstance(verdict, Refusal):
            self._refuse_commit(event, grant, verdict)
        elif not isinstance(verdict, IsRepeat):
            assert grant is not None, "the guard passes none but a holder"
            self.claim_commit = event
            grant.attempt = grant.attempt._replace(
                state=AttemptState.COMMITTED, end_call=_digest(event), end_answer={}
            )
            self.task = self.task._replace(
                state=TaskState.COMMITTED, state_version=self.task.state_version + 1
            )

    def _refuse_commit(self, event: LegacyEvent, grant: _Grant | None, refusal: Refusal) -> None:
        if refusal.outcome is Outcome.FENCED:
            if grant is not None and not grant.is_held:
                return  # its claim was refused before: that has been told
            if not self.grants:
                return  # nobody ever held it: told when the round closes
        verdict = _NAMED[refusal.outcome]
        if grant is None and refusal.outcome is Outcome.FENCED:
            verdict = RoundVerdict.WINNER_DIFFERS
        holder = self.holder
        beside = holder.event_id if holder and holder is not grant else ""
        self._part(
            verdict,
            event,
            beside,
            f"took the result of `{event.owner}`",
            f"{refusal.outcome}: {refusal.reason or refusal.detail}",
        )

    def _renew(self, event: LegacyEvent) -> None:
        if isinstance(self._judge(event, self.by_owner.get(event.owner)), Refusal):
            return
        self.moved_at = event.at
        lease = event.at + self._lease(event)
        self.task = self.task._replace(lease_expires_at=max(self.lease_expires_at, lease))

    def _let_go(self, event: LegacyEvent, to: TaskState, end: AttemptState) -> None:
        if isinstance(self._judge(event, self.by_owner.get(event.owner)), Refusal):
            return
        self.moved_at = event.at
        self._end_holder(end)
        self.task = self.task._replace(
            state=to, attempt_id=None, state_version=self.task.state_version + 1
        )

    def snapshot(self) -> "Play":
        """The same, with mismatches of its own."""
        return replace(self, mismatches=list(self.mismatches))

    # --- how it ended ---------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more comes: compare how the two sides ended."""
        assert self.last is not None, "a round has an event at least"
        legacy, claimed = self.legacy, self.claimed
        if self.task.state in (TaskState.READY, TaskState.CLAIMED):
            if self.legacy_commit is not None:
                why = "no claim of it was seen" if not self.handed_out else "nobody held it"
                self._lost(self.legacy_commit, f"took the result of `{legacy.owner}`", why)
            elif self.handed_out:
                self._lost(self.last, "never finished it", "it would be offered again")
        elif self.legacy_commit and self.claim_commit and not _same_result(legacy, claimed):
            self._part(
                RoundVerdict.WINNER_DIFFERS,
                self.legacy_commit,
                self.claim_commit.event_id,
                f"kept the result of `{legacy.owner}`",
                f"COMMITTED: the result of `{claimed.owner}`",
            )

    def closes_at(self, *, settle: timedelta, patience: timedelta) -> datetime:
        """From when on nothing belongs to this round any more, by the legacy clock.

        A finished round waits for `settle`; one that is held until its lease has lapsed besides;
        one that was given back for `patience`.
        """
        assert self.last is not None, "a round has an event at least"
        if self.is_claimed:
            closes = max(self.moved_at, self.lease_expires_at) + settle
        else:
            closes = self.moved_at + (patience if self.waits else settle)
        return max(closes, self.last.at)

    @property
    def legacy(self) -> Side:
        """How the legacy scheduler ended it: the last result that it took counts."""
        if self.legacy_commit is not None:
            return self._winner(self.legacy_commit)
        if self.legacy_cancelled:
            return Side(Winner.CANCELLED)
        return Side(Winner.FAILED if self.legacy_failed else Winner.NOBODY)

    @property
    def claimed(self) -> Side:
        """How claim.v1 would have ended it."""
        if self.claim_commit is not None:
            return self._winner(self.claim_commit)
        ends = {TaskState.CANCELLED: Winner.CANCELLED, TaskState.FAILED: Winner.FAILED}
        return Side(ends.get(TaskState(self.task.state), Winner.NOBODY))

    @property
    def verdict(self) -> RoundVerdict:
        return self.mismatches[0].verdict if self.mismatches else RoundVerdict.AGREE

    @property
    def is_counted(self) -> bool:
        """Whether the round says anything: a heartbeat that came after the end alone doesn't."""
        return bool(self.handed_out or self.legacy_commit or self.legacy_cancelled)

    @property
    def waits(self) -> bool:
        """It was given back and may be handed out again, however long that takes."""
        return self.task.state == TaskState.READY and bool(self.grants)

    @property
    def is_claimed(self) -> bool:
        return self.task.state == TaskState.CLAIMED

    @property
    def lease_expires_at(self) -> datetime:
        assert self.task.lease_expires_at is not None, "it was claimed"
        return self.task.lease_expires_at

    # --- inside ---------------------------------------------------------------------------------

    def _judge(self, event: LegacyEvent, grant: _Grant | None) -> Verdict:
        """The guard's word on this event as a call of its owner. Who was never granted has a fence of nothing."""
        attempt = grant.attempt if grant else self._attempt(event, 0, held=False)
        fence = Fence(
            _TASK,
            attempt.attempt_id,
            _EPOCH,
            attempt.claim_generation,
            attempt.cancel_generation if grant else self.task.cancel_generation,
        )
        point = _POINTS[LegacyKind(event.event)]
        commits = point is Point.COMMIT
        made_from = event.input_digest or (grant.input_digest if grant else None)
        call = Call(
            point,
            fence,
            _CREDENTIAL,
            _digest(event) if commits else "",
            made_from if commits and self.task.input_digest else None,
        )
        return judge(call, task=self.task, attempt=attempt, epoch=_EPOCH)

    def _attempt(self, event: LegacyEvent, generation: int, *, held: bool) -> AttemptRow:
        return AttemptRow(
            attempt_id=UUID(int=len(self.grants) + 2),
            task_id=_TASK,
            claim_generation=generation,
            scheduler_epoch=_EPOCH,
            cancel_generation=self.task.cancel_generation,
            owner=event.owner,
            credential_id=_CREDENTIAL,
            state=AttemptState.STARTED if held else AttemptState.EXPIRED,
            started_at=event.at,
            lease_expires_at=event.at + self._lease(event),
            end_call=None,
            end_answer=None,
        )

    def _lease(self, event: LegacyEvent) -> timedelta:
        return timedelta(seconds=event.lease_seconds or self.default_lease_seconds)

    def _end_holder(self, state: AttemptState) -> None:
        assert self.holder is not None, "a claimed task has a holder"
        self.holder.attempt = self.holder.attempt._replace(state=state)

    def _winner(self, commit: LegacyEvent) -> Side:
        owners = [grant.attempt.owner for grant in self.grants]
        if commit.owner not in owners:
            kind = Winner.STRANGER
        else:
            kind = Winner.FIRST if commit.owner == owners[0] else Winner.LATER
        return Side(kind, commit.owner, commit.result_digest)

    def _lost(self, event: LegacyEvent, legacy: str, why: str) -> None:
        self._part(RoundVerdict.LOST, event, "", legacy, f"not finished: {why}")

    def _part(
        self, verdict: RoundVerdict, event: LegacyEvent, beside: str, legacy: str, claim_v1: str
    ) -> None:
        self.mismatches.append(Mismatch(verdict, event.event_id, beside, legacy, claim_v1))


def _digest(event: LegacyEvent) -> str:
    """Names a commit: the same owner with the same result again is a repeat, not another commit."""
    return f"{event.result_digest}"


def _same_result(one: Side, other: Side) -> bool:
    """By the results where both are told, else by who made them."""
    if one.result_digest is not None and other.result_digest is not None:
        return one.result_digest == other.result_digest
    return one.owner == other.owner
