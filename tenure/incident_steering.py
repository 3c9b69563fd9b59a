"""Incidents as people and their automation run them: the guarded rollback, step by step (contract 12).

TenureError
└── Problem
├── WrongStep          the incident is not at this step; nothing is skipped or taken back
└── TryLater
├── IncidentOpen   the queue has an open incident already
└── NotDrained     something of the old epoch is still out
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Literal

from tenure.calling import Calling, segment
from tenure.decoding import decode
from tenure.errors import Problem, TryLater, refusals
from tenure.records import Json
from tenure.transport import Answer


class WrongStep(Problem):
    """Another step comes next, or this one can't come any more."""


class IncidentOpen(TryLater):
    """The queue has an open incident: go on with that one."""


class NotDrained(TryLater):
    """A lease of the old epoch runs, an effect may be out, or a result waits for a decision."""


refusals({"WRONG_STEP": WrongStep, "INCIDENT_OPEN": IncidentOpen, "NOT_DRAINED": NotDrained})


@dataclass(frozen=True, kw_only=True)
class IncidentQueue:
    """A queue of an incident, before and after."""

    name: str
    scheduler_epoch: int
    intake: str
    active_pool: str
    intake_share: int = 0
    intake_before: str = ""
    pool_before: str = ""
    pool_after: str | None = None
    epoch_before: int | None = None
    epoch_after: int | None = None


@dataclass(frozen=True, kw_only=True)
class IncidentStep:
    """A step that was taken: who, when, from where and why."""

    step: str
    version: int
    by: str
    at: datetime
    reason: str = ""
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class IncidentCanary:
    """A part of the intake that was let in; 0 is a stop. `held`: the server did that by itself."""

    share: int
    version: int
    by: str
    at: datetime
    reason: str = ""
    held: bool = False
    commits: int | None = None
    fenced: int | None = None


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Where an incident stands; `version` rises with each decision."""

    incident_id: str
    state: str
    version: int
    reason: str
    opened_by: str
    opened_at: datetime
    covers_all: bool = False
    ended_at: datetime | None = None
    queues: tuple[IncidentQueue, ...] = ()
    steps: tuple[IncidentStep, ...] = ()
    canaries: tuple[IncidentCanary, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepTaken:
    """The receipt of a step; a repeat gets the same, `replayed`."""

    incident_id: str
    step: str
    state: str
    version: int
    by: str
    at: datetime
    reason: str = ""
    queues: tuple[IncidentQueue, ...] = ()
    revoked: int = 0
    unknown_effects: int = 0
    voided_approvals: int = 0
    pending_results: int = 0
    alone: bool = False
    share: int = 0
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class BumpPreview:
    """What a bump would take back; `confirm` is what must be typed for it."""

    incident_id: str
    version: int
    epochs: Mapping[str, int]
    confirm: str
    revoked: int
    effects_unknown: int
    effects_closed: int
    approvals_void: int
    staged_results: int
    cost: Mapping[str, Json]
    claims: tuple[Json, ...] = ()
    effects: tuple[Json, ...] = ()
    approvals: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IncidentGate:
    """What of the old epoch is still out; the switch is refused until it is `open`."""

    incident_id: str
    state: str
    active_leases: int
    unknown_effects: int
    pending_results: int
    open: bool
    blocking: tuple[Mapping[str, Json], ...] = ()
    latest_expiry: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class CandidatesDecided:
    """How many results were decided about, of which attempts."""

    incident_id: str
    decision: str
    decided: int
    attempt_ids: tuple[str, ...]
    version: int
    replayed: bool = False


class IncidentSteering(Calling):
    """What `Client` can do about incidents. A step may carry the version that was seen."""

    def incidents(self, **filters: str) -> Iterator[Incident]:
        """Incidents, newest first; `filters` as in the URL: queue, open."""
        return self._pages("incidents", filters, Incident)

    def incident(self, incident_id: str) -> Incident:
        """One incident with its queues and steps."""
        return decode(Incident, self._get(f"incidents/{segment(incident_id)}").body)

    def open_incident(
        self, *, queues: Sequence[str] | None, reason: str, key: str | None = None
    ) -> StepTaken:
        """Stop the intake of these queues at once, or of all (`None`). Raises IncidentOpen."""
        scope: dict[str, Json] = {"all": True} if queues is None else {"queues": list(queues)}
        answer = self._post("incidents", {**scope, "reason": reason}, key=key or _new_key())
        return decode(StepTaken, answer.body)

    def preview_bump(self, incident_id: str) -> BumpPreview:
        """What the bump would take back as things stand."""
        return decode(BumpPreview, self._get(f"incidents/{segment(incident_id)}/preview").body)

    def bump_incident(
        self,
        incident_id: str,
        *,
        expected: Mapping[str, int],
        confirm: str,
        reason: str = "",
        expected_version: int | None = None,
    ) -> StepTaken:
        """Raise the epoch of each queue from the one that was seen. `confirm`: the name typed out."""
        epochs: dict[str, Json] = {"expected_epochs": dict(expected)}
        body = {**epochs, "confirm": confirm, "reason": reason}
        return self._step(incident_id, "bump", body, expected_version)

    def incident_gate(self, incident_id: str) -> IncidentGate:
        """What of the old epoch is still out."""
        return decode(IncidentGate, self._get(f"incidents/{segment(incident_id)}/gate").body)

    def decide_candidates(
        self,
        incident_id: str,
        decision: Literal["KEEP", "DISCARD"],
        *,
        reason: str,
        attempt_ids: Sequence[str] | None = None,
        expected_version: int | None = None,
    ) -> CandidatesDecided:
        """Keep or discard what revoked attempts had put aside: of these attempts, or all that is undecided."""
        body: dict[str, Json] = {"decision": decision, "reason": reason}
        if attempt_ids is not None:
            body["attempt_ids"] = list(attempt_ids)
        answer = self._take(incident_id, "candidates", body, expected_version)
        return decode(CandidatesDecided, answer.body)

    def switch_pool(
        self,
        incident_id: str,
        *,
        to_pool: str,
        reason: str = "",
        expected_version: int | None = None,
    ) -> StepTaken:
        """Make another pool the active one. Raises NotDrained."""
        body: dict[str, Json] = {"to_pool": to_pool, "reason": reason}
        return self._step(incident_id, "switch", body, expected_version)

    def resume_intake(
        self, incident_id: str, *, reason: str = "", expected_version: int | None = None
    ) -> StepTaken:
        """Open intake again: the incident is over."""
        return self._step(incident_id, "resume", {"reason": reason}, expected_version)

    def let_in(
        self, incident_id: str, percent: int, *, expected_version: int, reason: str = ""
    ) -> StepTaken:
        """Let `percent` of the tasks in before the whole intake is opened; 0 stops that again."""
        body: dict[str, Json] = {"percent": percent, "reason": reason}
        return self._step(incident_id, "resume", body, expected_version)

    def abort_incident(
        self, incident_id: str, *, reason: str, expected_version: int | None = None
    ) -> StepTaken:
        """Call it off before the bump."""
        return self._step(incident_id, "abort", {"reason": reason}, expected_version)

    def incident_report(self, incident_id: str) -> Json:
        """The whole story, as it is told in JSON."""
        return self._get(f"incidents/{segment(incident_id)}/report").body

    def write_incident_report(self, incident_id: str, into: IO[bytes]) -> None:
        """The same story as a Markdown document, written into a file."""
        self._download(f"incidents/{segment(incident_id)}/report", into, {"format": "markdown"})

    def _step(
        self, incident_id: str, step: str, body: Mapping[str, Json], expected_version: int | None
    ) -> StepTaken:
        return decode(StepTaken, self._take(incident_id, step, body, expected_version).body)

    def _take(
        self, incident_id: str, step: str, body: Mapping[str, Json], expected_version: int | None
    ) -> Answer:
        seen: dict[str, Json] = (
            {} if expected_version is None else {"expected_version": expected_version}
        )
        return self._post(f"incidents/{segment(incident_id)}/{step}", {**body, **seen})


def _new_key() -> str:
    return uuid.uuid4().hex
