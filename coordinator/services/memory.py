"""Shared memory: written only by a commit, all or nothing with it (contract 11)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import Statement


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """One key to write. `expected_version` is 0 for a key that was never written."""

    namespace: str
    key: str
    expected_version: int
    value: str  # RFC 8785 text
    value_digest: str


_ADD_KEYS: Final = """
INSERT INTO coordinator_memorykey (namespace, key, version)
SELECT n.namespace, n.key, 0 FROM unnest(%s::text[], %s::text[]) AS n(namespace, key) ORDER BY 1, 2
ON CONFLICT (namespace, key) DO NOTHING
"""
_LOCK_KEYS: Final = """
SELECT k.namespace, k.key, k.id, k.version FROM coordinator_memorykey k
WHERE (k.namespace, k.key) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
ORDER BY k.namespace, k.key FOR UPDATE
"""
_REMOVE_UNWRITTEN: Final = (
    "DELETE FROM coordinator_memorykey WHERE id = ANY(%s::bigint[]) AND version = 0"
)
_RAISE_VERSIONS: Final = """
UPDATE coordinator_memorykey k SET version = n.version
FROM unnest(%s::bigint[], %s::bigint[]) AS n(id, version) WHERE k.id = n.id
"""
_INSERT_FACTS: Final = """
INSERT INTO coordinator_memoryfact (memory_key_id, version, value, value_digest, result_commit_id, created_at)
SELECT n.id, n.version, n.value, n.digest, n.commit_id, c.clock
FROM (SELECT %s::timestamptz) AS c(clock),
     unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::uuid[]) AS n(id, version, value, digest, commit_id)
"""


def memory_locks(writes: Sequence[MemoryWrite]) -> list[Statement]:
    """Lock the keys in (namespace, key) order, making those that are new.

    A key at version 0 is seen by nobody else: `MemoryBook.writes` raises or removes it.
    """
    if not writes:
        return []
    names = sorted({(write.namespace, write.key) for write in writes})
    columns = ([namespace for namespace, _ in names], [key for _, key in names])
    return [Statement(_ADD_KEYS, columns), Statement(_LOCK_KEYS, columns)]


@dataclass(slots=True)
class MemoryBook:
    """The locked keys with the versions that the accepted items of this batch have given them."""

    ids: dict[tuple[str, str], int]
    versions: dict[tuple[str, str], int]
    facts: list[tuple[int, int, str, str, UUID]] = field(default_factory=list)

    @classmethod
    def of(cls, rounds: Sequence[list[tuple[Any, ...]]]) -> "MemoryBook":
        rows = rounds[-1] if rounds else []
        return cls(
            ids={(namespace, key): key_id for namespace, key, key_id, _ in rows},
            versions={(namespace, key): version for namespace, key, _, version in rows},
        )

    def conflict(self, writes: Sequence[MemoryWrite]) -> Refusal | None:
        """MEMORY_CONFLICT where a version moved: the commit has not happened, the attempt is current."""
        moved = [
            {
                "namespace": write.namespace,
                "key": write.key,
                "expected_version": write.expected_version,
                "version": self.versions[write.namespace, write.key],
            }
            for write in writes
            if self.versions[write.namespace, write.key] != write.expected_version
        ]
        if not moved:
            return None
        return Refusal(
            Outcome.MEMORY_CONFLICT,
            "A version of shared memory moved; read it again and commit with the new `expected_version`.",
            evidence_recorded=True,
            extra={"conflicts": moved},
        )

    def take(self, writes: Sequence[MemoryWrite], commit_id: UUID) -> None:
        for write in writes:
            name = (write.namespace, write.key)
            self.versions[name] += 1
            self.facts.append(
                (self.ids[name], self.versions[name], write.value, write.value_digest, commit_id)
            )

    def writes(self, clock: datetime) -> list[Statement]:
        """The accepted facts; the keys that were made for refused ones are gone again."""
        unwritten = [self.ids[name] for name, version in self.versions.items() if version == 0]
        removals = [Statement(_REMOVE_UNWRITTEN, (unwritten,))] if unwritten else []
        if not self.facts:
            return removals
        newest = {key_id: version for key_id, version, *_ in self.facts}
        return [
            Statement(_RAISE_VERSIONS, (list(newest), list(newest.values()))),
            Statement(_INSERT_FACTS, (clock, *map(list, zip(*self.facts, strict=True)))),
            *removals,
        ]
