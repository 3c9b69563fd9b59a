"""Downstreams as they are read (contract 8, 12)."""

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
    created_at: datetime


def all_downstreams() -> QuerySet[Downstream]:
    return Downstream.objects.all()


def find_downstream(name: str) -> DownstreamRecord | None:
    found = Downstream.objects.filter(name=name).first()
    return downstream_record(found) if found else None


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
        created_at=downstream.created_at,
    )
