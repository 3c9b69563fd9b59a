"""Rotating a worker's credential: a successor with the same rights, and an overlap (contract 15)."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.models import Credential
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.seen import TokenSeen, changed_since

from .answers import RequestKey, look_up
from .credentials import Issued, issue_credential
from .events import EventKind, Fact, record
from .texts import check_reason
from .transactions import in_transaction

MAX_OVERLAP_HOURS: Final = 168


@in_transaction
def rotate_credential(
    *,
    credential_id: UUID,
    overlap_hours: int,
    expires_at: datetime | None,
    reason: str,
    actor: Actor,
    request: RequestKey,
    seen: TokenSeen | None = None,
) -> Issued | Refusal:
    """A new credential with the same pool, queues and scopes; the old one ends after the overlap.

    Attempts belong to the credential that claimed them, so the overlap has to outlast what the
    old one holds. Refused: NOT_FOUND, ALREADY_SETTLED where it is revoked or has expired, and
    STATE_VERSION_MISMATCH where it is not as it was `seen`. The same request: the same answer.
    """
    if not 0 <= overlap_hours <= MAX_OVERLAP_HOURS:
        told = f"from 0 to {MAX_OVERLAP_HOURS} hours"
        return invalid(FieldError("/overlap_hours", told))
    if faults := check_reason(reason):
        return invalid(*faults)
    _, answered = run_round(name_point("administer"), look_up(request))
    old = Credential.objects.select_for_update().filter(credential_id=credential_id).first()
    if old is None:
        return not_found("credential")
    at = clock_of(run_round(CLOCK)[0])
    if not answered and (refusal := _refusal(old, seen, at)):
        return refusal
    answer = issue_credential(
        name=old.name,
        pool=old.pool_id,
        queues=old.queues,
        scopes=old.scopes,
        expires_at=expires_at,
        actor=actor,
        request=request,
    )
    if isinstance(answer, Refusal) or answer.replayed:
        return answer
    ends = at + timedelta(hours=overlap_hours)
    ends = min(ends, old.expires_at or ends)
    Credential.objects.filter(id=old.id).update(expires_at=ends)
    fact = {
        "credential_id": credential_id,
        "name": old.name,
        "successor": answer.credential.credential_id,
        "before": {"expires_at": old.expires_at},
        "after": {"expires_at": ends},
        "reason": reason,
    }
    run_round(record([Fact(EventKind.CREDENTIAL_ROTATED, data=fact)], actor=actor, at=at))
    return answer


def _refusal(old: Credential, seen: TokenSeen | None, at: datetime) -> Refusal | None:
    if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= at):
        told = "It is revoked or has expired: there is nothing to rotate. Create a new one."
        return Refusal(Outcome.ALREADY_SETTLED, told)
    return changed_since(seen, TokenSeen(old.expires_at, old.revoked_at))
