"""A worker's credential that was looked up before, and is confirmed by the transaction that acts (docs/adr/0024).

A look-up before each request is a transaction of its own, a third of what a single claim or commit costs. The services
on the hot path read the credential again beside their own statements, with the locks held: what was
revoked, has expired or was changed since acts on nothing.
"""

from dataclasses import dataclass
from typing import Any, Final

from coordinator.pipeline import Statement

#: The columns that say who a worker is and what it may touch.
TOLD: Final = "c.token_sha256, c.id, c.name, c.pool_id, c.queues, c.scopes"
#: The rows of a prefix that stand now.
STANDS: Final = """
FROM coordinator_credential c
WHERE c.prefix = %s AND c.revoked_at IS NULL
  AND (c.expires_at IS NULL OR c.expires_at > clock_timestamp())
"""
_READ: Final = f"SELECT {TOLD} {STANDS}"


class CallerChanged(Exception):
    """The credential is not what it was when it was looked up. Nothing of the transaction has happened."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a look-up told of a prefix's credential: the columns `TOLD`."""

    prefix: str
    told: tuple[Any, ...]

    @classmethod
    def of(cls, prefix: str, row: tuple[Any, ...]) -> "Standing":
        sha256, id_, name, pool, queues, scopes = row
        return cls(prefix, (bytes(sha256), id_, name, pool, tuple(queues), tuple(scopes)))

    def read(self) -> Statement:
        return Statement(_READ, (self.prefix,))

    def confirm(self, rows: list[tuple[Any, ...]]) -> None:
        """Raises CallerChanged where the same look-up tells something else now."""
        if not rows or Standing.of(self.prefix, rows[0]) != self:
            raise CallerChanged
