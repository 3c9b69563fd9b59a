"""Who a bearer token belongs to, and the list of credentials (contract 15)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from coordinator.models import Credential
from coordinator.pipeline import Statement, run
from coordinator.standing import STANDS, TOLD, Standing
from coordinator.tokens import Token


@dataclass(frozen=True, slots=True)
class FoundWorker:
    """A live credential. `stale_use` when its last use should be noted anew."""

    id: int
    name: str
    pool: str
    queues: tuple[str, ...]
    scopes: tuple[str, ...]
    stale_use: bool
    standing: Standing


@dataclass(frozen=True, slots=True)
class FoundOperator:
    token_id: int
    user_id: int
    name: str
    permissions: tuple[str, ...]
    stale_use: bool


@dataclass(frozen=True, slots=True)
class CredentialRecord:
    """A worker credential as people read it; its token is nowhere."""

    credential_id: UUID
    name: str
    pool: str
    queues: list[str]
    scopes: list[str]
    prefix: str
    last4: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    last_used_from: str
    last_used_route: str
    last_contract: str
    revoked_at: datetime | None
    revoked_by: str | None


#: Last use is noted at most once a minute: not one write per request.
_STALE: Final = (
    "(c.last_used_at IS NULL OR c.last_used_at < statement_timestamp() - interval '1 minute')"
)

_WORKER: Final = f"SELECT {TOLD}, {_STALE} {STANDS}"

_OPERATOR: Final = f"""
SELECT c.token_sha256, c.id, u.id, u.username, {_STALE},
  ARRAY(
    SELECT p.codename FROM auth_permission p JOIN django_content_type t ON t.id = p.content_type_id
    WHERE t.app_label = 'coordinator' AND t.model = 'access' AND (
      u.is_superuser
      OR EXISTS (SELECT FROM auth_user_user_permissions d WHERE d.permission_id = p.id AND d.user_id = u.id)
      OR EXISTS (
        SELECT FROM auth_group_permissions g JOIN auth_user_groups m ON m.group_id = g.group_id
        WHERE g.permission_id = p.id AND m.user_id = u.id))
  )
FROM coordinator_operatortoken c JOIN auth_user u ON u.id = c.user_id
WHERE c.prefix = %s AND c.revoked_at IS NULL AND u.is_active
  AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
"""  # noqa: S608 (constants of ours)


def find_worker(token: Token) -> FoundWorker | None:
    """The live credential of a worker's token, in one query; None if unknown, revoked or expired."""
    row = _row(_WORKER, token)
    if row is None:
        return None
    *told, stale = row
    standing = Standing.of(token.prefix, tuple(told))
    _, id_, name, pool, queues, scopes = standing.told
    return FoundWorker(id_, name, pool, queues, scopes, stale, standing)


def find_operator(token: Token) -> FoundOperator | None:
    """The person behind a personal token with what they may do now, in one query."""
    row = _row(_OPERATOR, token)
    if row is None:
        return None
    _, token_id, user_id, name, stale, permissions = row
    return FoundOperator(token_id, user_id, name, tuple(permissions), stale)


def _row(sql: str, token: Token) -> tuple[Any, ...] | None:
    """Run past Django's cursors: this precedes every request, and the server keeps it prepared."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        (rows,) = run(connection.connection, [Statement(sql, (token.prefix,))])
    return rows[0] if rows and token.matches(rows[0][0]) else None


def all_credentials() -> QuerySet[Credential]:
    """Every worker credential, revoked ones too."""
    return Credential.objects.all()


def page_of_credentials(*, before: UUID | None = None) -> QuerySet[Credential]:
    """Newest first; page by `credential_id`, which is ordered by time."""
    rows = Credential.objects.order_by("-credential_id")
    return rows if before is None else rows.filter(credential_id__lt=before)


def find_credential(credential_id: UUID) -> CredentialRecord | None:
    credential = Credential.objects.filter(credential_id=credential_id).first()
    return credential_record(credential) if credential else None


def credential_record(credential: Credential) -> CredentialRecord:
    return CredentialRecord(
        credential_id=credential.credential_id,
        name=credential.name,
        pool=credential.pool_id,
        queues=list(credential.queues),
        scopes=list(credential.scopes),
        prefix=credential.prefix,
        last4=credential.last4,
        created_by=credential.created_by,
        created_at=credential.created_at,
        expires_at=credential.expires_at,
        last_used_at=credential.last_used_at,
        last_used_from=credential.last_used_from,
        last_used_route=credential.last_used_route,
        last_contract=credential.last_contract,
        revoked_at=credential.revoked_at,
        revoked_by=credential.revoked_by,
    )
