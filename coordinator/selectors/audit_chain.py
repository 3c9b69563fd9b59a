"""The audit's chain as it is read: the newest seal, and whether a range of it still fits (adr/0021)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.db import connection

from coordinator.chain_digests import GENESIS, link_digest
from coordinator.models import AuditChain, AuditLink, Event

from .audit_chain_rows import LinkRow, PrunedLinks, read_links

#: What is chained: what people and the coordinator itself did, and what was refused to anybody. Not what workers did
#: to their own tasks: that is told, and audited by its invariants, and is far more.
IS_CHAINED: Final = (
    "({0}.refusal_key IS NOT NULL OR {0}.actor NOT LIKE 'worker:%%' AND {0}.kind <> 'RUN_SETTLED')"
)
#: Links that one look verifies; a longer range is verified in parts, each from the last one's end.
MAX_VERIFIED: Final = 20_000
#: No chain is longer; a number beyond it is a mistake.
MAX_NUMBER: Final = 10**15
#: Ids of events that one statement goes through for those that were never sealed.
_STRETCH: Final = 50_000
#: And one look over so many in all: where links are far apart, it ends earlier.
MAX_IDS: Final = 1_000_000
#: Sealed long after it says it happened: events are sealed in the order of their transactions, which are short.
_OUT_OF_STEP: Final = timedelta(hours=1)


class Misfit(StrEnum):
    CHANGED = "CHANGED"  # the event is not what was sealed
    REMOVED = "REMOVED"  # the event, or its link, is not there
    INSERTED = "INSERTED"  # an event that was not there when its neighbours were sealed
    REORDERED = "REORDERED"  # the link does not follow from the one before it
    ANCHOR = "ANCHOR"  # the digest that was kept elsewhere is not the one here


@dataclass(frozen=True, slots=True)
class ChainFault:
    """The first row that does not fit: its place in the chain, and its event where that is known."""

    misfit: Misfit
    number: int | None
    event_id: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The newest seal: keep `number` and `digest` elsewhere, and everything up to it can be held against them."""

    number: int
    digest: str
    sealed_at: datetime | None
    sealed_until: datetime | None


@dataclass(frozen=True, slots=True)
class Verification:
    """`links` were looked at, from `first` on; `pruned` of them have lost their events in their time.

    `next_number` is where a longer range goes on, with `digest`, the last one's, as the anchor;
    None where its end was reached.
    """

    holds: bool
    first: int
    last: int
    links: int
    pruned: int
    fault: ChainFault | None
    next_number: int | None
    digest: str
    head: ChainHead


@dataclass(frozen=True, slots=True)
class SealedLink:
    """An event's link, with the digest before it: enough to verify the event's line on its own."""

    number: int
    previous: str
    content: str
    digest: str


def read_head() -> ChainHead:
    chain = AuditChain.objects.filter(id=1).first()
    if chain is None:
        return ChainHead(0, GENESIS, None, None)
    newest = AuditLink.objects.filter(number=chain.number).values_list("sealed_at", flat=True)
    return ChainHead(chain.number, chain.digest, newest.first(), chain.sealed_until)


def links_of(event_ids: Sequence[int]) -> dict[int, SealedLink]:
    """The links of these events, by event; what is not chained, or not yet, has none."""
    with connection.cursor() as cursor:
        cursor.execute(_LINKS_OF, [list(event_ids)])
        rows = cursor.fetchall()
    return {
        event_id: SealedLink(number, previous or GENESIS, content, digest)
        for event_id, number, previous, content, digest in rows
    }


def verify_chain(
    *, first: int = 1, last: int | None = None, anchor: str | None = None
) -> Verification:
    """Whether the links `first` to `last` (the newest) fit, and their events; `anchor` is the digest before `first`.

    Named is the first row that doesn't, in the order of the chain. At most MAX_VERIFIED links, over MAX_IDS events.
    """
    head = read_head()
    wanted = head.number if last is None else last
    end = min(wanted, head.number, first + MAX_VERIFIED - 1)
    walk = _Walk(head, first, end, anchor)
    fault = walk.begin() or walk.links() or walk.unsealed() or walk.end()
    return Verification(
        holds=fault is None,
        first=first,
        last=walk.last,
        links=walk.looked,
        pruned=walk.pruned,
        fault=fault,
        next_number=_next(walk.last, min(wanted, head.number)) if fault is None else None,
        digest=walk.digest,
        head=head,
    )


def _next(last: int, wanted: int) -> int | None:
    return last + 1 if last < wanted else None


class _Walk:
    """One verification: where it is, and what it has seen."""

    def __init__(self, head: ChainHead, first: int, end: int, anchor: str | None) -> None:
        self._head, self._first, self._end, self._anchor = head, first, end, anchor
        self.digest = GENESIS
        self.looked = self.pruned = 0
        self._latest: datetime | None = None
        self._lowest: int | None = None
        self._highest = 0
        self._before: int | None = None  # the event of the link before the range
        self._told: PrunedLinks | None = None

    def begin(self) -> ChainFault | None:
        """What the range follows: the link before it, which a kept digest is held against."""
        before = self._first - 1
        if before > self._head.number:
            detail = f"The chain ends with {self._head.number}; what was behind it is gone."
            return ChainFault(Misfit.REMOVED, before, None, detail)
        if before == 0:
            self.digest = GENESIS
        else:
            found = (
                AuditLink.objects.filter(number=before).values_list("digest", "event_id").first()
            )
            if found is None:
                return _missing(before)
            self.digest, self._before = found
        if self._anchor is None or self._anchor == self.digest:
            return None
        detail = f"Link {before} has another digest than the one that was kept: {self.digest}."
        return ChainFault(Misfit.ANCHOR, before, None, detail)

    def links(self) -> ChainFault | None:
        expected = self._first
        for row in read_links(self._first, self._end):
            fault = _missing(expected) if row.number != expected else self._fits(row)
            if fault is not None:
                return fault
            self.looked += 1
            self.digest = row.digest
            self._lowest = min(self._lowest or row.event_id, row.event_id)
            self._highest = max(self._highest, row.event_id)
            expected += 1
            if self._highest - self._lowest > MAX_IDS:
                self._end = row.number
                return None
        return _missing(expected) if expected <= self._end else None

    def _fits(self, row: LinkRow) -> ChainFault | None:
        fault = self._event_fits(row)
        if fault is not None:
            return fault
        due = link_digest(number=row.number, previous=self.digest, content=row.content)
        if row.digest != due:
            detail = "It does not follow from the link before it."
            return ChainFault(Misfit.REORDERED, row.number, row.event_id, detail)
        return None

    def _event_fits(self, row: LinkRow) -> ChainFault | None:
        if row.found is None:
            return self._may_be_gone(row)
        if row.content_now() != row.content:
            detail = "The event is not the one that was sealed."
            return ChainFault(Misfit.CHANGED, row.number, row.event_id, detail)
        moment = max(row.at, row.last_at or row.at)
        if self._latest is not None and moment < self._latest - _OUT_OF_STEP:
            detail = (
                f"It says {row.at:%Y-%m-%d %H:%M:%S} and was sealed behind what came long after."
            )
            return ChainFault(Misfit.INSERTED, row.number, row.event_id, detail)
        self._latest = max(moment, self._latest or moment)
        return None

    def _may_be_gone(self, row: LinkRow) -> ChainFault | None:
        """Pruned in its time, if the chain itself says so; else somebody has removed it."""
        if row.pruned and self._told is not None and row.number not in self._told:
            self._told = None  # pruned since they were read
        self._told = self._told or PrunedLinks()
        if row.pruned and row.number in self._told:
            self.pruned += 1
            return None
        detail = "The event is gone, and no pruning says that it took it."
        return ChainFault(Misfit.REMOVED, row.number, row.event_id, detail)

    def unsealed(self) -> ChainFault | None:
        """An event among those of the range that should have a link by now, and has none."""
        if self._lowest is None:
            return None
        low, high = min(self._lowest, self._begins()), self._highest
        with connection.cursor() as cursor:
            while low <= high:
                cursor.execute(_UNSEALED, [low, min(high, low + _STRETCH)])
                found = cursor.fetchone()
                if found is not None:
                    detail = "It has no link, and its neighbours have."
                    return ChainFault(Misfit.INSERTED, None, found[0], detail)
                low += _STRETCH + 1
        return None

    def _begins(self) -> int:
        """The event from which on this part answers for: nothing between two parts is left out."""
        if self._before is not None:
            return max(self._before, self._highest - 2 * MAX_IDS)
        oldest = Event.objects.order_by("id").values_list("id", flat=True).first() or 0
        return max(oldest, (self._lowest or 0) - MAX_IDS)

    @property
    def last(self) -> int:
        return self._end

    def end(self) -> ChainFault | None:
        """The chain's own memory of its end, and nothing behind it."""
        if self._end != self._head.number:
            return None
        if self.digest != self._head.digest:
            detail = "The newest link is not the one that the chain remembers."
            return ChainFault(Misfit.REORDERED, self._end or None, None, detail)
        behind = AuditLink.objects.filter(number__gt=self._end).order_by("number").first()
        if behind is None or behind.number <= read_head().number:
            return None  # nothing, or what was sealed since this look began
        detail = "It stands behind the end of the chain."
        return ChainFault(Misfit.INSERTED, behind.number, behind.event_id, detail)


def _missing(number: int) -> ChainFault:
    return ChainFault(Misfit.REMOVED, number, None, f"Link {number} is not there.")


_UNSEALED: Final = f"""
SELECT e.id FROM coordinator_event e, coordinator_auditchain c
WHERE e.id BETWEEN %s AND %s AND {IS_CHAINED.format("e")} AND (e.xid, e.id) <= (c.xid, c.event_id)
  AND NOT EXISTS (SELECT FROM coordinator_auditlink l WHERE l.event_id = e.id) ORDER BY e.id LIMIT 1
"""  # noqa: S608
_LINKS_OF: Final = """
SELECT l.event_id, l.number, p.digest, l.content, l.digest
FROM coordinator_auditlink l LEFT JOIN coordinator_auditlink p ON p.number = l.number - 1
WHERE l.event_id = ANY(%s::bigint[])
"""
