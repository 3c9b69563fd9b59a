"""Downstreams as they are read (contract 8, 12)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from coordinator.models import Downstream


@dataclass(frozen=True, slots=True)
class DownstreamRecord:
    name: str
    kind: str
    guarantee: str
    call_timeout_seconds: int
    key_valid_seconds: int | None
    settle_seconds: int
    refuses_late: bool
    serial_scope: str | None
    probe: str | None
    required_approvers: int
    secret_pointers: tuple[str, ...]
    created_at: datetime


def all_downstreams() -> QuerySet[Downstream]:
    return Downstream.objects.all()


def find_downstream(name: str) -> DownstreamRecord | None:
    found = Downstream.objects.filter(name=name).first()
    return downstream_record(found) if found else None


def secret_pointers(name: str) -> tuple[str, ...]:
    """The places in payloads that the registration of this downstream marks as secret."""
    found = Downstream.objects.filter(name=name).values_list("secret_pointers", flat=True).first()
    return tuple(found or ())


def secret_pointers_of(names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The same for several, in one query."""
    rows = Downstream.objects.filter(name__in=list(names)).exclude(secret_pointers=[])
    return {name: tuple(places) for name, places in rows.values_list("name", "secret_pointers")}


def all_secret_pointers() -> dict[str, tuple[str, ...]]:
    """The same for every downstream that marks any; the registry is small."""
    rows = Downstream.objects.exclude(secret_pointers=[])
    return {name: tuple(places) for name, places in rows.values_list("name", "secret_pointers")}


def downstream_record(downstream: Downstream) -> DownstreamRecord:
    return DownstreamRecord(
        name=downstream.name,
        kind=downstream.kind,
        guarantee=downstream.guarantee,
        call_timeout_seconds=downstream.call_timeout_seconds,
        key_valid_seconds=downstream.key_valid_seconds,
        settle_seconds=downstream.settle_seconds,
        refuses_late=downstream.refuses_late,
        serial_scope=downstream.serial_scope,
        probe=downstream.probe,
        required_approvers=downstream.required_approvers,
        secret_pointers=tuple(downstream.secret_pointers),
        created_at=downstream.created_at,
    )
