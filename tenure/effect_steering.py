"""Effects and approvals as people and their automation see them: read, decide, reconcile (contract 8.4, 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tenure.calling import Calling, segment
from tenure.decoding import decode
from tenure.effect_calls import LookUp
from tenure.records import Effect, Json
from tenure.retrying import Repeat


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What one person said of one exact payload."""

    operator: str
    decision: str
    at: datetime
    comment: str = ""
    payload_digest_seen: str = ""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A request to decide on one exact payload, for one dispatch."""

    approval_id: str
    effect_id: str
    task_id: str
    slot: str
    downstream: str
    payload_digest: str
    state: str
    expires_at: datetime
    payload: Json = None
    run_id: str | None = None
    node_id: str | None = None
    queue: str | None = None
    requested_at: datetime | None = None
    dispatch_number: int = 1
    required_approvers: int = 1
    decisions: tuple[Decision, ...] = ()
    #: Of a rejected one, why in one word; CHANGES_ASKED where the task was revised instead of failed.
    reason_code: str | None = None
    end_reason: str | None = None
    #: Whose turn it is, where somebody has passed it on. Everybody else who may decide still can.
    assigned_to: str | None = None
    assigned_by: str | None = None
    #: The requests of the same slot before and after a revision of the task.
    supersedes: str | None = None
    superseded_by: str | None = None
    #: Places of the payload, and of what else is told, that are masked for people.
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PresentState:
    """What is there now, where a payload would be written, in the payload's own form.

    `told` is false where the downstream could not tell. What is masked of it is revealed as evidence by `evidence_id`
    (`Client.reveal`, part `evidence`).
    """

    approval_id: str
    effect_id: str
    evidence_id: int
    told: bool
    actor: str
    at: datetime
    there: Json = None
    instead: Json = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    #: None where the payload is bound to no condition that could tell.
    condition_holds: bool | None = None
    detail: str = ""
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChangesAsked:
    """The request is over; `task_id` is the revision of the task that a worker takes up next."""

    approval_id: str
    state: str
    reason_code: str
    task_id: str
    supersedes: str
    revision: int
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class Passed:
    """Whose turn an approval is now."""

    approval_id: str
    assigned_to: str
    assigned_by: str
    assigned_at: datetime
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class Decided:
    """How an approval stands after a decision."""

    approval_id: str
    state: str
    replayed: bool = False
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What a finding made of an effect."""

    state: str
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a downstream said of one effect (HAPPENED, NOT_HAPPENED or DONT_KNOW), under a look-up stamped before.

    To settle the effect by it, name `lookup_id` and `dispatches`. What is masked of it is revealed as evidence
    (`Client.reveal`, part `evidence`).
    """

    effect_id: str
    lookup_id: str
    started_at: datetime
    dispatches: int
    said: str
    detail: str = ""
    receipt: Json = None
    milliseconds: int = 0
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Effects:
    results: tuple[Effect, ...]


@dataclass(frozen=True, kw_only=True)
class EffectDetail:
    """One effect with everything that is on file about it, and the approvals that were asked for, oldest first."""

    effect: Effect
    evidence: tuple[Json, ...] = ()
    approval_ids: tuple[str, ...] = ()


class EffectSteering(Calling):
    """What `Client` can do about effects."""

    def effects(self, **filters: str) -> Iterator[Effect]:
        """Effects, page by page; `filters` as in the URL: queue, downstream, state, may_be_out."""
        return self._pages("effects", filters, Effect)

    def task_effects(self, task_id: str) -> tuple[Effect, ...]:
        """The effects of a task, by slot."""
        return decode(_Effects, self._get(f"tasks/{segment(task_id)}/effects").body).results

    def effect(self, effect_id: str) -> Effect:
        """One effect as it stands."""
        return self.effect_detail(effect_id).effect

    def effect_detail(self, effect_id: str) -> EffectDetail:
        """One effect with its evidence and the ids of its approvals."""
        return decode(EffectDetail, self._get(f"effects/{segment(effect_id)}").body)

    def evidence(self, effect_id: str) -> tuple[Mapping[str, Json], ...]:
        """Everything that anybody has said about an effect: reports, late receipts, look-ups, a person's word."""
        return self.effect_detail(effect_id).evidence

    def begin_look_up(self, effect_id: str) -> LookUp:
        """Stamp a look-up, before the downstream is asked by the exact effect_id or receipt."""
        answer = self._post(f"effects/{segment(effect_id)}/lookups", {})
        return decode(LookUp, answer.body)

    def ask_downstream(self, effect_id: str) -> Asked:
        """Have the coordinator ask the downstream whether it happened: evidence, which settles nothing.

        Never repeated by itself: each time is a request to somebody else's server. Raises InvalidInput where no adapter
        that can be asked is registered.
        """
        answer = self._post(f"effects/{segment(effect_id)}/ask", {}, repeat=Repeat.NEVER)
        return decode(Asked, answer.body)

    def reconcile(
        self,
        effect_id: str,
        finding: Literal["HAPPENED", "NOT_HAPPENED"],
        *,
        dispatches: int,
        detail: Json,
        method: Literal["query", "operator", "late_receipt"] = "operator",
        receipt: Json = None,
        lookup_id: str | None = None,
    ) -> Settled:
        """Settle an effect by what was found about so many dispatches. The same again is `replayed`.

        HAPPENED needs a receipt. Raises StaleEvidence, AlreadySettled, AbsenceNotSealed.
        """
        body: dict[str, Json] = {
            "finding": finding,
            "dispatches": dispatches,
            "evidence": {"method": method, "detail": detail},
        }
        if receipt is not None:
            body["receipt"] = receipt
        if lookup_id is not None:
            body["lookup_id"] = lookup_id
        return decode(Settled, self._post(f"effects/{segment(effect_id)}/reconcile", body).body)

    def approvals(self, **filters: str) -> Iterator[Approval]:
        """Approvals, newest first; `filters` as in the URL: state, queue, downstream, task_id."""
        return self._pages("approvals", filters, Approval)

    def approval(self, approval_id: str) -> Approval:
        """One approval with its payload and decisions."""
        return decode(Approval, self._get(f"approvals/{segment(approval_id)}").body)

    def approve(self, approval_id: str, *, payload_digest: str, comment: str = "") -> Decided:
        """Approve the payload with exactly this digest: the one that you have seen."""
        body = {"payload_digest": payload_digest, "comment": comment}
        return decode(Decided, self._post(f"approvals/{segment(approval_id)}/approve", body).body)

    def reject(
        self, approval_id: str, *, payload_digest: str, reason: str, reason_code: str = "OTHER"
    ) -> Decided:
        """Reject it; the task fails with the reason."""
        body = {"payload_digest": payload_digest, "reason": reason, "reason_code": reason_code}
        return decode(Decided, self._post(f"approvals/{segment(approval_id)}/reject", body).body)

    def ask_for_changes(
        self, approval_id: str, *, payload_digest: str, reason: str
    ) -> ChangesAsked:
        """Say no to this payload and what to do otherwise: the task is revised, its next claim carries the words."""
        body = {"payload_digest": payload_digest, "reason": reason}
        answer = self._post(f"approvals/{segment(approval_id)}/ask-for-changes", body)
        return decode(ChangesAsked, answer.body)

    def pass_approval(self, approval_id: str, *, to: str, reason: str) -> Passed:
        """Make it another person's turn; who may decide stays as it is."""
        body = {"to": to, "reason": reason}
        return decode(Passed, self._post(f"approvals/{segment(approval_id)}/pass", body).body)

    def present_state(self, approval_id: str) -> PresentState:
        """What its downstream told last of what is there now; NotFound where nobody has looked."""
        return decode(PresentState, self._get(f"approvals/{segment(approval_id)}/present").body)

    def look_at_present(self, approval_id: str) -> PresentState:
        """Have the downstream of a request that waits asked what is there now: evidence, which decides nothing.

        Never repeated by itself: each look is a request to somebody else's server. Raises AlreadySettled where the
        request is over, InvalidInput where no adapter that can tell is registered.
        """
        answer = self._post(f"approvals/{segment(approval_id)}/present", {}, repeat=Repeat.NEVER)
        return decode(PresentState, answer.body)
