"""The audit as a person reads and exports it: the filter of an address, before and after, and files."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from console.files import Item, text_of
from console.filters import MAX_TEXT, as_number, as_uuid, query_string
from coordinator.secrets import mask_members
from coordinator.selectors.console_audit import AuditFilter, AuditRow

REFUSED: Final = ("only", "without")
_NAMES: Final = ("actor", "kind", "queue", "object", "refused", "since", "until")
_ADDRESS: Final = "address"
_HIDDEN: Final = frozenset({_ADDRESS, "before", "after", "reason"})


@dataclass(frozen=True, slots=True)
class WantedAudit:
    """The filter as typed and as understood; `faults` by field. `before` is where a page goes on."""

    typed: dict[str, str]
    audit: AuditFilter
    before: int | None = None
    faults: dict[str, str] = field(default_factory=dict)

    def link(self, **changes: str) -> str:
        return query_string({**self.typed, **changes})


@dataclass(frozen=True, slots=True)
class Told:
    """An event in parts: why, what changed (name, before, after), and what else it says."""

    row: AuditRow
    reason: str
    changes: list[tuple[str, str, str]]
    rest: dict[str, Any]
    address: str
    name: str


def wanted_audit(query: Mapping[str, Any], zone: ZoneInfo) -> WantedAudit:
    typed = {name: str(query[name]).strip()[:MAX_TEXT] for name in _NAMES if query.get(name)}
    typed = {name: value.replace("\x00", "") for name, value in typed.items() if value}
    faults: dict[str, str] = {}
    ids = as_uuid(typed.get("object"))
    wanted = AuditFilter(
        actor=typed.get("actor", ""),
        kind=typed.get("kind", ""),
        queue=typed.get("queue", ""),
        object="" if ids else typed.get("object", ""),
        ids=ids,
        refused=typed.get("refused", "") if typed.get("refused") in REFUSED else "",
        since=_instant("since", typed, zone, faults),
        until=_instant("until", typed, zone, faults),
    )
    return WantedAudit(typed, wanted, as_big_number(query.get("before")), faults)


def as_big_number(text: str | None) -> int | None:
    """An id of an event: as `as_number`, up to 18 digits."""
    if text and text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return as_number(text)


def tell(row: AuditRow) -> Told:
    data = mask_members(row.data)
    before, after = data.get("before"), data.get("after")
    changes = []
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        changes = [(name, text_of(before.get(name)), text_of(after.get(name))) for name in names]
    rest = {name: value for name, value in data.items() if name not in _HIDDEN}
    if not changes:
        rest |= {name: data[name] for name in ("before", "after") if name in data}
    return Told(
        row=row,
        reason=str(data.get("reason") or ""),
        changes=changes,
        rest=rest,
        address=str(data.get(_ADDRESS) or ""),
        name=str(data.get("name") or data.get("person") or ""),
    )


def export_items(rows: Iterator[AuditRow | int], *, addresses: bool) -> Iterator[Item]:
    """The rows of a file. Addresses are for administrators alone."""
    return (row if isinstance(row, int) else _record(row, addresses) for row in rows)


#: What a table tells; the place in the chain is for whoever verifies a file of lines.
_TOLD: Final = tuple(
    name for name in AuditRow.__dataclass_fields__ if name not in ("queue_id", "run_key", "link")
)


def export_names(*, addresses: bool) -> list[str]:
    return [*_TOLD, *(["address"] if addresses else [])]


def _record(row: AuditRow, addresses: bool) -> dict[str, Any]:
    record = {name: getattr(row, name) for name in _TOLD}
    data = mask_members(row.data)
    if row.link is not None:
        place = {"queue_id": row.queue_id, "run_id": row.run_key}
        complete = (addresses or _ADDRESS not in row.data) and data == row.data
        record["chain"] = {**asdict(row.link), **place, "complete": complete}
    record["data"] = {name: value for name, value in data.items() if name != _ADDRESS}
    if addresses:
        record["address"] = row.data.get(_ADDRESS)
    return record


def _instant(
    name: str, typed: Mapping[str, str], zone: ZoneInfo, faults: dict[str, str]
) -> datetime | None:
    text = typed.get(name, "")
    if not text:
        return None
    try:
        found = parse_datetime(text) or parse_datetime(f"{text}T00:00")
    except ValueError:
        found = None
    if found is None:
        faults[name] = _("Not an instant. Write it as 2026-05-31 or 2026-05-31T14:00.")
        return None
    return found if found.tzinfo else found.replace(tzinfo=zone)
