"""Shared memory as it is read: the newest version of a key, and the ones before it (contract 11)."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import orjson
from django.db.models import F, QuerySet

from coordinator.models import MemoryFact


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One version of one key. `value` is None where it was not asked for."""

    namespace: str
    key: str
    version: int
    value: orjson.Fragment | None
    value_digest: str
    result_commit_id: UUID
    created_at: datetime
    #: Places that people are shown masked (contract 15); what stands there is revealed for a reason.
    masked: list[str] = field(default_factory=list)


def find_fact(*, namespace: str, key: str, version: int | None = None) -> MemoryFact | None:
    """The newest version of a key, or the named one."""
    facts = list_versions(namespace=namespace, key=key)
    return facts.filter(version=F("memory_key__version") if version is None else version).first()


def list_versions(*, namespace: str, key: str) -> QuerySet[MemoryFact]:
    """All versions of a key, newest first; page by `version__lt`."""
    facts = MemoryFact.objects.select_related("memory_key")
    return facts.filter(memory_key__namespace=namespace, memory_key__key=key).order_by("-version")


def memory_record(fact: MemoryFact, *, with_value: bool = True) -> MemoryRecord:
    return MemoryRecord(
        namespace=fact.memory_key.namespace,
        key=fact.memory_key.key,
        version=fact.version,
        value=orjson.Fragment(fact.value) if with_value else None,
        value_digest=fact.value_digest,
        result_commit_id=fact.result_commit_id,
        created_at=fact.created_at,
    )
