"""The audit's chain over the API: its newest seal, what the server finds, and its lines (contract 15)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tenure.calling import Calling
from tenure.decoding import decode
from tenure.errors import UnexpectedAnswer
from tenure.records import Json

#: Lines that one call asks for, and parts that one verification takes.
LINES_AT_ONCE = 500
MOST_PARTS = 100_000


@dataclass(frozen=True, kw_only=True)
class AuditSeal:
    """The newest link: keep `number` and `digest` elsewhere, and the audit can be held against them."""

    number: int
    digest: str
    sealed_at: datetime | None = None
    sealed_until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class AuditFault:
    """The first row that does not fit."""

    misfit: str
    detail: str
    number: int | None = None
    event_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class AuditVerification:
    """`links` from `first` to `last` were looked at; `next_number` is where a longer range goes on."""

    holds: bool
    first: int
    last: int
    links: int
    pruned: int
    digest: str
    fault: AuditFault | None = None
    next_number: int | None = None


class AuditReading(Calling):
    """What `Client` can do about the audit's chain."""

    def audit_seal(self) -> AuditSeal:
        """The newest seal."""
        return decode(AuditSeal, self._get("audit/seal").body)

    def verify_audit(
        self, *, first: int = 1, last: int | None = None, anchor: str | None = None
    ) -> Iterator[AuditVerification]:
        """Have the server verify the range, part by part; the last part is the one that does not hold, or the end.

        `anchor` is the digest of the link before `first` that was kept elsewhere.
        """
        for _ in range(MOST_PARTS):
            asked = {"first": str(first)}
            asked |= {} if last is None else {"last": str(last)}
            asked |= {} if anchor is None else {"anchor": anchor}
            part = decode(AuditVerification, self._get("audit/verification", asked).body)
            yield part
            if not part.holds or part.next_number is None:
                return
            first, anchor = part.next_number, part.digest
        raise UnexpectedAnswer(f"the audit has more than {MOST_PARTS} parts")

    def audit_lines(
        self, *, first: int = 1, reveal: str | None = None
    ) -> Iterator[Mapping[str, Json]]:
        """The chain's events, oldest first, each with what verifies it (audit_chain.verify_lines).

        Secrets in them are masked, and of such a line only the link can be verified. `reveal` is a
        reason to be given them whole; that somebody saw them stands in the audit, with it.
        """
        for _ in range(MOST_PARTS):
            page = self._lines(first, reveal)
            if not isinstance(page, dict) or not isinstance(page.get("lines"), list):
                raise UnexpectedAnswer("the lines of the audit are not there")
            yield from page["lines"]
            if page.get("next_number") is None:
                return
            first = int(page["next_number"])
        raise UnexpectedAnswer(f"the audit has more than {MOST_PARTS} parts")

    def _lines(self, first: int, reveal: str | None) -> Json:
        if reveal is None:
            asked = {"first": str(first), "limit": str(LINES_AT_ONCE)}
            return self._get("audit/lines", asked).body
        body: dict[str, Json] = {"first": first, "limit": LINES_AT_ONCE, "reason": reveal}
        return self._post("audit/lines/reveal", body).body
