"""Shadow and rollout as people and their automation run them: what the judge found, and a queue's stage (contract 13).

TenureError
└── Problem
└── TryLater
└── GateClosed     what a promotion asks for is not met; `blocking` says what
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.calling import Calling, segment
from tenure.decoding import decode
from tenure.errors import TryLater, refusals
from tenure.records import Json


class GateClosed(TryLater):
    """The gate of the queue's next stage is closed."""

    @property
    def blocking(self) -> Sequence[Mapping[str, Any]]:
        """The criteria that are not met, each with its value, threshold and detail."""
        found = self.details.extra.get("blocking", ())
        return found if isinstance(found, Sequence) else ()


refusals({"GATE_CLOSED": GateClosed})


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """One measured condition of a promotion."""

    name: str
    ok: bool
    value: Json
    threshold: Json
    detail: str
    computed_at: datetime
    link: str


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """The gate of a queue's next stage, as it was measured just now."""

    queue: str
    rollout_stage: str
    next_stage: str | None
    open: bool
    criteria: tuple[Criterion, ...]
    blocking: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PromotionAsked:
    """A request for a promotion; another person confirms it, bound to the digest of what was measured."""

    request_id: str
    queue: str
    state: str
    from_stage: str
    to_stage: str
    evidence_digest: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class PromotionRequest:
    """Who asked for what on which figures, and what came of it."""

    request_id: str
    queue: str
    state: str
    from_stage: str
    to_stage: str
    scheduler_epoch: int
    evidence: Mapping[str, Json]
    evidence_digest: str
    reason: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None
    end_reason: str | None = None
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Promoted:
    """The receipt of a confirmation. `alone`: who asked has confirmed it, too, with a reason and an alarm."""

    request_id: str
    queue: str
    rollout_stage: str
    scheduler_epoch: int
    requested_by: str
    confirmed_by: str
    alone: bool = False
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class StageSet:
    """A queue's stage after it was asked for; `changed` is false where it was in it already."""

    queue: str
    rollout_stage: str
    scheduler_epoch: int
    changed: bool


@dataclass(frozen=True, kw_only=True)
class ShadowClass:
    """One class of mismatch in a queue."""

    verdict: str
    rounds: int
    unexplained: int
    first_at: datetime
    last_at: datetime
    exemplar: str


@dataclass(frozen=True, kw_only=True)
class ShadowSummary:
    """How often the legacy scheduler and claim.v1 agree in a queue, and where they part."""

    queue: str
    rollout_stage: str
    window_hours: int
    sample: int
    mismatched: int
    rate: float | None
    rate_upper: float | None
    unexplained: int
    open_rounds: int
    classes: tuple[ShadowClass, ...]
    sources: tuple[Mapping[str, Json], ...]
    matrix: tuple[Mapping[str, Json], ...]


@dataclass(frozen=True, kw_only=True)
class ShadowRound:
    """One round of one task of the legacy scheduler; `verdict` is None while it is open."""

    round_id: str
    queue: str
    source: str
    task_key: str
    number: int
    verdict: str | None
    mismatches: tuple[Mapping[str, Json], ...]
    opened_at: datetime
    settled_at: datetime | None
    explained: bool
    events: int


class RolloutSteering(Calling):
    """What a `Client` can do about shadow and rollout; mixed into it."""

    def shadow(self, queue: str, *, window_hours: int = 24) -> ShadowSummary:
        """How the two sides compare in a queue."""
        params = {"window_hours": str(window_hours)}
        return decode(ShadowSummary, self._get(f"queues/{segment(queue)}/shadow", params).body)

    def shadow_rounds(self, **filters: str) -> Iterator[ShadowRound]:
        """Rounds, newest first; `filters` as in the URL: queue, verdict, mismatch, explained, task_key, source."""
        return self._pages("shadow/rounds", filters, ShadowRound)

    def shadow_round(self, round_id: str) -> Mapping[str, Json]:
        """One round with the events behind it and what people said about it, as the API tells it."""
        body: Mapping[str, Json] = self._get(f"shadow/rounds/{segment(round_id)}").body
        return body

    def explain_round(
        self,
        round_id: str,
        *,
        reason: str,
        triage: str = "EXPECTED",
        of_class: str | None = None,
        expires_at: str | None = None,
        link: str = "",
    ) -> Mapping[str, Json]:
        """Explain a mismatch; with `of_class`, its whole class in its queue until `expires_at`. It is kept."""
        body: dict[str, Json] = {"reason": reason, "triage": triage, "link": link}
        given = {"class": of_class, "expires_at": expires_at}
        body.update({name: value for name, value in given.items() if value is not None})
        answer = self._post(f"shadow/rounds/{segment(round_id)}/explain", body)
        told: Mapping[str, Json] = answer.body
        return told

    def promotion(self, queue: str) -> Promotion:
        """The gate of the queue's next stage, measured now."""
        return decode(Promotion, self._get(f"queues/{segment(queue)}/promotion").body)

    def promote(
        self, queue: str, *, expected_stage: str, confirm: str, reason: str
    ) -> PromotionAsked:
        """Ask to move a queue one stage forward; `confirm` is its name, typed out. Raises GateClosed.

        Nothing moves until another person has confirmed it (`confirm_promotion`).
        """
        body = {"expected_stage": expected_stage, "confirm": confirm, "reason": reason}
        return decode(PromotionAsked, self._post(f"queues/{segment(queue)}/promote", body).body)

    def promotion_requests(self, **filters: str) -> Iterator[PromotionRequest]:
        """Requests, newest first; `filters` as in the URL: queue, state."""
        return self._pages("promotions", filters, PromotionRequest)

    def promotion_request(self, request_id: str) -> PromotionRequest:
        """One request with the figures that it is based on."""
        return decode(PromotionRequest, self._get(f"promotions/{segment(request_id)}").body)

    def confirm_promotion(
        self,
        request_id: str,
        *,
        evidence_digest: str,
        confirm: str,
        reason: str = "",
        alone: bool = False,
    ) -> Promoted:
        """Confirm what somebody else has asked for, as you saw it. Raises GateClosed.

        Who asked themselves says that they are `alone`, and why; it raises an alarm.
        """
        body: dict[str, Json] = {
            "evidence_digest": evidence_digest,
            "confirm": confirm,
            "reason": reason,
            "alone": alone,
        }
        return decode(Promoted, self._post(f"promotions/{segment(request_id)}/confirm", body).body)

    def withdraw_promotion(self, request_id: str, *, reason: str) -> PromotionRequest:
        """Call a request off; the request as it stands then."""
        self._post(f"promotions/{segment(request_id)}/withdraw", {"reason": reason})
        return self.promotion_request(request_id)

    def demote(self, queue: str, *, to_stage: str, expected_stage: str, reason: str) -> StageSet:
        """Move a queue back, which bumps its epoch: whatever was claimed there is fenced."""
        body = {"to_stage": to_stage, "expected_stage": expected_stage, "reason": reason}
        return decode(StageSet, self._post(f"queues/{segment(queue)}/demote", body).body)
