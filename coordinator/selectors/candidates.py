"""Results beside each other: what attempts put aside, and the one that became canonical (contract 11)."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson

from coordinator.models import Attempt, Blob, CanonicalCommit, StagedResult
from coordinator.states import CandidateRuling

#: Of each kind; the newest ones.
MAX_CANDIDATES: Final = 100


@dataclass(frozen=True, slots=True)
class BlobRecord:
    name: str
    digest: str
    size_bytes: int
    content_type: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A result of one attempt. `canonical`: it is the task's. `result` is None for a blob, or where not asked for.

    `canonical_candidate` is false for what an attempt put aside after it had lost the task.
    `decision`: what an operator said of it in an incident; what was discarded is not shown any more.
    """

    attempt_id: UUID
    claim_generation: int
    attempt_state: str
    owner: str
    result_digest: str
    result: orjson.Fragment | None
    blob: BlobRecord | None
    canonical_candidate: bool
    canonical: bool
    result_commit_id: UUID | None
    staged_at: datetime
    decision: str | None
    #: Places that people are shown masked (contract 15); what stands there is revealed for a reason.
    masked: list[str] = field(default_factory=list)


def list_candidates(task_id: UUID, *, with_results: bool = True) -> list[Candidate]:
    """All results of a task, the canonical one first, then the newest; three queries."""
    canonical = (
        CanonicalCommit.objects.filter(task_id=task_id).select_related("attempt", "blob").first()
    )
    found: dict[tuple[UUID, str], Candidate] = {}
    if canonical is not None:
        attempt = canonical.attempt
        found[attempt.pk, canonical.result_digest] = replace(
            _candidate(attempt, canonical.result_digest, canonical.committed_at),
            result=_fragment(canonical.result, with_results),
            blob=_blob(canonical.blob) if canonical.blob else None,
            canonical_candidate=True,
            canonical=True,
            result_commit_id=canonical.result_commit_id,
        )
    staged = StagedResult.objects.filter(attempt__task_id=task_id).select_related(
        "attempt", "ruling"
    )
    for row in staged.order_by("-id")[:MAX_CANDIDATES]:
        said = row.ruling.decision if hasattr(row, "ruling") else None
        found.setdefault(
            (row.attempt_id, row.result_digest),
            replace(
                _candidate(row.attempt, row.result_digest, row.staged_at),
                result=_fragment(row.result, with_results and said != CandidateRuling.DISCARD),
                canonical_candidate=row.canonical_candidate,
                decision=said,
            ),
        )
    blobs = Blob.objects.filter(attempt__task_id=task_id).select_related("attempt")
    for blob in blobs.order_by("-id")[:MAX_CANDIDATES]:
        found.setdefault(
            (blob.attempt_id, blob.digest),
            replace(_candidate(blob.attempt, blob.digest, blob.created_at), blob=_blob(blob)),
        )
    return sorted(found.values(), key=lambda each: (each.canonical, each.staged_at), reverse=True)


def _candidate(attempt: Attempt, digest: str, at: datetime) -> Candidate:
    return Candidate(
        attempt_id=attempt.attempt_id,
        claim_generation=attempt.claim_generation,
        attempt_state=attempt.state,
        owner=attempt.owner,
        result_digest=digest,
        result=None,
        blob=None,
        canonical_candidate=False,
        canonical=False,
        result_commit_id=None,
        staged_at=at,
        decision=None,
    )


def _fragment(text: str | None, wanted: bool) -> orjson.Fragment | None:
    return orjson.Fragment(text) if wanted and text is not None else None


def _blob(blob: Blob) -> BlobRecord:
    return BlobRecord(blob.name, blob.digest, blob.size_bytes, blob.content_type)
