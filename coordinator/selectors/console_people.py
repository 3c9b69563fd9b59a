"""People as the console lists them: roles, last sign-in, and their personal tokens (console design, 7)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, F, Q, QuerySet

from coordinator.models import OperatorToken

MAX_PEOPLE: Final = 500
TOKENS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Person:
    """`roles` are the names of groups; `tokens` counts the personal tokens that are not revoked."""

    id: int
    username: str
    is_active: bool
    is_superuser: bool
    last_login: datetime | None
    date_joined: datetime
    roles: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class TokenRow:
    id: int
    name: str
    prefix: str
    last4: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    last_used_from: str
    last_used_route: str
    revoked_at: datetime | None
    revoked_by: str | None


def list_people() -> list[Person]:
    """The first MAX_PEOPLE by name."""
    return [_person(row) for row in _people().order_by("username")[:MAX_PEOPLE]]


def find_person(user_id: int) -> Person | None:
    row = _people().filter(pk=user_id).first()
    return _person(row) if row else None


def list_tokens(user_id: int) -> list[TokenRow]:
    """Those that work first, newest first."""
    rows = OperatorToken.objects.filter(user_id=user_id)
    rows = rows.order_by(F("revoked_at").asc(nulls_first=True), "-id")
    return [
        TokenRow(*row) for row in rows.values_list(*TokenRow.__dataclass_fields__)[:TOKENS_SHOWN]
    ]


def _people() -> QuerySet[User, Any]:
    return User.objects.annotate(
        roles=ArrayAgg("groups__name", filter=Q(groups__isnull=False), distinct=True, default=[]),
        tokens=Count("tenure_tokens", filter=Q(tenure_tokens__revoked_at=None), distinct=True),
    ).values_list(*Person.__dataclass_fields__)


def _person(row: tuple[Any, ...]) -> Person:
    found = Person(*row)
    return replace(found, roles=tuple(sorted(found.roles)))
