"""Credentials of workers: made, rotated, revoked; and when tokens were last used (contract 15)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User
from django.db.models.functions import Now

from coordinator.actors import Actor, ActorKind, Worker
from coordinator.clock import CLOCK, clock_of, read_clock
from coordinator.ids import new_id
from coordinator.models import Credential, OperatorToken, Pool, Queue
from coordinator.outcomes import FieldError, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.seen import TokenSeen, changed_since
from coordinator.selectors.credentials import CredentialRecord, FoundWorker, credential_record
from coordinator.selectors.credentials import find_worker as find_worker_row
from coordinator.services.answers import RequestKey, look_up, store, stored_answer
from coordinator.services.events import EventKind, Fact, record
from coordinator.services.transactions import in_transaction
from coordinator.tokens import TokenKind, derived_secret, new_token, read_token

SCOPES: Final = ("work", "submit", "shadow", "gate")
MAX_NAME: Final = 200
MAX_QUEUES: Final = 100
MAX_ROUTE_CHARS: Final = 200
MAX_CONTRACT_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class Issued:
    """A new credential. `token` is shown here and never again; None where it can't be told any more."""

    credential: CredentialRecord
    token: str | None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Revoked:
    outcome: str
    credential_id: UUID
    revoked_at: datetime


@in_transaction
def issue_credential(
    *,
    name: str,
    pool: str,
    queues: Sequence[str],
    scopes: Sequence[str],
    expires_at: datetime | None = None,
    actor: Actor,
    request: RequestKey | None = None,
) -> Issued | Refusal:
    """Make a worker's credential, bound to a pool, queues and scopes. A repeat of `request` answers the same token.

    Refuses, all faults at once, an unknown pool, queue or scope and an expiry in the past.
    """
    run_round(name_point("administer"))
    if request is not None:
        (rows,) = run_round(look_up(request))
        match stored_answer(request, rows):
            case Refusal() as conflict:
                return conflict
            case str() as answer:
                return _issued_before(UUID(orjson.loads(answer)["credential_id"]), request)
    faults = _faults(name=name, pool=pool, queues=queues, scopes=scopes, expires_at=expires_at)
    if faults:
        return invalid(*faults)
    token = new_token(TokenKind.WORKER, secret=_secret(request) if request else None)
    credential = Credential.objects.create(
        credential_id=new_id(),
        name=name,
        pool_id=pool,
        queues=list(dict.fromkeys(queues)),
        scopes=[scope for scope in SCOPES if scope in scopes],
        prefix=token.prefix,
        last4=token.last4,
        token_sha256=token.sha256,
        created_by=actor.label,
        expires_at=expires_at,
    )
    credential.refresh_from_db()
    (at,) = run_round(CLOCK)
    told = {
        "credential_id": credential.credential_id,
        "name": name,
        "pool": pool,
        "queues": credential.queues,
        "scopes": credential.scopes,
    }
    event = record([Fact(EventKind.CREDENTIAL_CREATED, data=told)], actor=actor, at=clock_of(at))
    if request is None:
        run_round(event)
    else:
        run_round(
            event,
            store(request, orjson.dumps({"credential_id": credential.credential_id}).decode()),
        )
    return Issued(credential_record(credential), token.text)


def create_credential(
    *,
    name: str,
    pool: str,
    queues: Sequence[str],
    scopes: Sequence[str],
    actor: Actor,
    expires_at: datetime | None = None,
) -> tuple[Credential, str]:
    """As `issue_credential`, for callers that made the pool and the queues themselves.

    Raises ValueError with every fault where they did not.
    """
    match issue_credential(
        name=name, pool=pool, queues=queues, scopes=scopes, actor=actor, expires_at=expires_at
    ):
        case Refusal(errors=errors):
            raise ValueError("; ".join(f"{error.pointer[1:]}: {error.detail}" for error in errors))
        case Issued(credential=made, token=token):
            assert token is not None
            return Credential.objects.get(credential_id=made.credential_id), token


@in_transaction
def revoke_credential(
    *, credential_id: UUID, actor: Actor, reason: str | None = None, seen: TokenSeen | None = None
) -> Revoked | Refusal:
    """Revoke a worker's credential at once; its row stays, because attempts point at it. A repeat changes nothing.

    What it holds can't be renewed any more: the leases run out, and others take the work over. Refused:
    STATE_VERSION_MISMATCH where it is not as it was `seen`, NOT_FOUND.
    """
    run_round(name_point("administer"))
    credential = Credential.objects.select_for_update().filter(credential_id=credential_id).first()
    if credential is None:
        return not_found("credential")
    if changed := changed_since(seen, TokenSeen(credential.expires_at, credential.revoked_at)):
        return changed
    if credential.revoked_at is not None:
        return Revoked("REVOKED", credential_id, credential.revoked_at)
    at = clock_of(run_round(CLOCK)[0])
    rows = Credential.objects.filter(id=credential.id, revoked_at=None)
    assert rows.update(revoked_at=at, revoked_by=actor.label) == 1, "the row is locked"
    told = {"credential_id": credential_id, "name": credential.name}
    if reason:
        told["reason"] = reason
    run_round(record([Fact(EventKind.CREDENTIAL_REVOKED, data=told)], actor=actor, at=at))
    return Revoked("REVOKED", credential_id, at)


def create_operator_token(*, user: User | AbstractBaseUser, name: str) -> tuple[OperatorToken, str]:
    """A person's token, for whoever holds the database already (the command line). The text is shown once."""
    token = new_token(TokenKind.OPERATOR)
    row = OperatorToken.objects.create(
        user_id=user.pk,
        name=name,
        prefix=token.prefix,
        last4=token.last4,
        token_sha256=token.sha256,
    )
    return row, token.text


def find_worker(*, token: str) -> Worker | None:
    """Who a worker's token belongs to; None where it is malformed, unknown, revoked or expired."""
    parts = read_token(token)
    if parts is None or parts.kind is not TokenKind.WORKER:
        return None
    found = find_worker_row(parts)
    return None if found is None else worker_of(found)


def worker_of(found: FoundWorker) -> Worker:
    return Worker(
        ActorKind.WORKER,
        found.name,
        found.id,
        pool=found.pool,
        queues=frozenset(found.queues),
        scopes=frozenset(found.scopes),
    )


def note_worker_use(*, id_: int, address: str, route: str, contract: str) -> None:
    """Stamp the last use. Nothing depends on it, so a rival that stamps at the same time is no harm."""
    Credential.objects.filter(id=id_).update(
        last_used_at=Now(),
        last_used_from=address,
        last_used_route=route[:MAX_ROUTE_CHARS],
        last_contract=contract[:MAX_CONTRACT_CHARS],
    )


def note_operator_use(*, id_: int, address: str, route: str) -> None:
    """As `note_worker_use`, for a personal token."""
    OperatorToken.objects.filter(id=id_).update(
        last_used_at=Now(), last_used_from=address, last_used_route=route[:MAX_ROUTE_CHARS]
    )


def _issued_before(credential_id: UUID, request: RequestKey) -> Issued:
    credential = Credential.objects.get(credential_id=credential_id)
    token = new_token(TokenKind.WORKER, secret=_secret(request))
    token = type(token)(token.kind, credential.prefix, token.secret)
    # After a change of SECRET_KEY the token can't be made again.
    text = token.text if token.matches(credential.token_sha256) else None
    return Issued(credential_record(credential), text, replayed=True)


def _secret(request: RequestKey) -> str:
    return derived_secret(
        server_secret=settings.SECRET_KEY, request=f"{request.scope}\n{request.key}"
    )


def _faults(
    *,
    name: str,
    pool: str,
    queues: Sequence[str],
    scopes: Sequence[str],
    expires_at: datetime | None,
) -> list[FieldError]:
    faults = []
    if not name or len(name) > MAX_NAME:
        faults.append(FieldError("/name", f"give it a name of 1 to {MAX_NAME} characters"))
    if not Pool.objects.filter(name=pool).exists():
        faults.append(FieldError("/pool", f"there is no pool {pool!r}; create it first"))
    if not 1 <= len(queues) <= MAX_QUEUES:
        faults.append(FieldError("/queues", f"name 1 to {MAX_QUEUES} queues"))
    known = set(
        Queue.objects.filter(name__in=list(queues)[:MAX_QUEUES]).values_list("name", flat=True)
    )
    faults += [
        FieldError(f"/queues/{index}", f"there is no queue {queue!r}; create it first")
        for index, queue in enumerate(queues[:MAX_QUEUES])
        if queue not in known
    ]
    if not scopes:
        faults.append(FieldError("/scopes", f"name at least one of {', '.join(SCOPES)}"))
    faults += [
        FieldError(f"/scopes/{index}", f"{scope!r} is no scope; the scopes are {', '.join(SCOPES)}")
        for index, scope in enumerate(scopes)
        if scope not in SCOPES
    ]
    if expires_at is not None and expires_at <= read_clock():
        faults.append(
            FieldError("/expires_at", "this instant has passed; give a later one or leave it out")
        )
    return faults
