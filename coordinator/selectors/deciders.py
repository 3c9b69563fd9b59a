"""Who may decide on payloads: active people with the permission, who may see what they decide on (contract 9, 15)."""

from collections.abc import Collection
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from coordinator.actors import ActorKind

_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
#: So many are offered to choose from.
MAX_DECIDERS: Final = 200


def people_who_decide() -> QuerySet[Any]:
    """They have `approve` and `view_payload` by a group, by themselves, or as superusers."""
    people: Any = get_user_model()._default_manager
    sees = people.with_perm("coordinator.view_payload", backend=_BACKEND).values("pk")
    able: QuerySet[Any] = people.with_perm("coordinator.approve", backend=_BACKEND)
    return able.filter(pk__in=sees)


def who_may_decide(*, submitted_by: str, decided: Collection[int]) -> QuerySet[Any]:
    """Of those, everyone but whoever submitted the run, and whoever has had their word; by name."""
    submitter = submitted_by.removeprefix(f"{ActorKind.OPERATOR}:")
    others = people_who_decide().exclude(pk__in=list(decided))
    if submitter != submitted_by:
        others = others.exclude(username=submitter)
    return others.order_by("username")
