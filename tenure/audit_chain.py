"""Verifying lines of the audit without a server: each line carries its digest and the one before it.

The form of the digests is written down in the coordinator's docs/operations.md; it is SHA-256 over RFC 8785.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenure.canonical import LARGEST_INTEGER, canonical, digest
from tenure.errors import NotEncodable

#: What the first link follows.
GENESIS = digest(b"tenure audit chain v1")
#: Lines of one file.
MOST_LINES = 2_000_000
_DEEPEST = 32


@dataclass(frozen=True, kw_only=True)
class ChainBreak:
    """The first line that does not fit: its number in the chain, the event's id, its line in the file, and why."""

    misfit: str
    number: int | None
    event_id: int | None
    line: int | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class FileVerified:
    """`links` lines of the chain from `first` to `last`; of `unchecked` ones only the chain was verified.

    `gaps` are places where the file leaves links out: a filter does that. `others` are lines that are not chained.
    """

    holds: bool
    links: int
    first: int | None
    last: int | None
    digest: str | None
    unchecked: int
    others: int
    gaps: int
    fault: ChainBreak | None


@dataclass(frozen=True, kw_only=True)
class _Line:
    number: int
    previous: str
    content: str
    digest: str
    event_id: int | None
    at: int  # its line in the file
    checked: bool


class _DoesNotFit(Exception):
    def __init__(self, fault: ChainBreak) -> None:
        super().__init__(fault.detail)
        self.fault = fault


def verify_lines(
    lines: Iterable[str | bytes], *, anchor: tuple[int, str] | None = None, whole: bool = False
) -> FileVerified:
    """Verify the lines of an NDJSON export, whatever their order.

    `anchor` is a (number, digest) that was kept elsewhere: the file's line of that number must have that digest.
    `whole`: nothing may be left out between the first and the last line; a filtered export has gaps.
    """
    found: dict[int, _Line] = {}
    others = 0
    try:
        for at, text in enumerate(lines, 1):
            if at > MOST_LINES:
                raise _DoesNotFit(_break("TOO_LONG", None, at, f"more than {MOST_LINES} lines"))
            line = _read(text, at)
            if line is None:
                others += 1
            elif line.number in found:
                told = f"link {line.number} is there twice"
                raise _DoesNotFit(_break("INSERTED", line, at, told))
            else:
                found[line.number] = line
        ordered = [found[number] for number in sorted(found)]
        gaps = _walk(ordered, whole=whole)
        _hold_against(found, anchor)
    except _DoesNotFit as error:
        return _told(list(found.values()), others, 0, error.fault)
    return _told(ordered, others, gaps, None)


def _told(ordered: list[_Line], others: int, gaps: int, fault: ChainBreak | None) -> FileVerified:
    numbers = [line.number for line in ordered]
    return FileVerified(
        holds=fault is None,
        links=len(ordered),
        first=min(numbers, default=None),
        last=max(numbers, default=None),
        digest=ordered[-1].digest if ordered and fault is None else None,
        unchecked=sum(not line.checked for line in ordered),
        others=others,
        gaps=gaps,
        fault=fault,
    )


def _walk(ordered: list[_Line], *, whole: bool) -> int:
    """Each line follows from the one before; how many places were left out between."""
    gaps = 0
    before: _Line | None = None
    for line in ordered:
        if line.number == 1 and line.previous != GENESIS:
            told = "the first link follows nothing that it should"
            raise _DoesNotFit(_break("REORDERED", line, line.at, told))
        if before is not None and line.number != before.number + 1:
            gaps += 1
            if whole:
                told = f"links {before.number + 1} to {line.number - 1} are not in the file"
                raise _DoesNotFit(_break("REMOVED", line, line.at, told))
        elif before is not None and line.previous != before.digest:
            told = "it does not follow from the link before it"
            raise _DoesNotFit(_break("REORDERED", line, line.at, told))
        before = line
    return gaps


def _hold_against(found: Mapping[int, _Line], anchor: tuple[int, str] | None) -> None:
    if anchor is None:
        return
    number, kept = anchor
    line, after = found.get(number), found.get(number + 1)
    here = line.digest if line else after.previous if after else None
    if here is None:
        told = f"link {number}, whose digest was kept, is not in the file"
        raise _DoesNotFit(
            ChainBreak(misfit="REMOVED", number=number, event_id=None, line=None, detail=told)
        )
    if here != kept:
        told = f"link {number} has another digest than the one that was kept"
        raise _DoesNotFit(_break("ANCHOR", line, line.at if line else None, told, number=number))


def _read(text: str | bytes, at: int) -> _Line | None:
    """One line; None for an event that is not chained, and for the note at the end of a cut export."""
    try:
        told = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise _DoesNotFit(_break("CHANGED", None, at, f"the line is not JSON: {error}")) from error
    chain = told.get("chain") if isinstance(told, dict) else None
    if chain is None:
        return None
    try:
        return _line(told, chain, at)
    except (KeyError, TypeError, ValueError) as error:
        told = f"the line has not what a link has: {error!r}"
        raise _DoesNotFit(_break("CHANGED", None, at, told)) from error


def _line(told: Mapping[str, Any], chain: Mapping[str, Any], at: int) -> _Line:
    line = _Line(
        number=int(chain["number"]),
        previous=str(chain["previous"]),
        content=str(chain["content"]),
        digest=str(chain["digest"]),
        event_id=int(told["id"]),
        at=at,
        checked=bool(chain["complete"]),
    )
    if line.checked and content_digest(told) != line.content:
        told_of = "the event is not the one that was sealed"
        raise _DoesNotFit(_break("CHANGED", line, at, told_of))
    due = link_digest(number=line.number, previous=line.previous, content=line.content)
    if due != line.digest:
        told_of = "its digest is not that of its number, its event and the link before it"
        raise _DoesNotFit(_break("REORDERED", line, at, told_of))
    return line


def content_digest(line: Mapping[str, Any]) -> str:
    """What a line's event is sealed as: everything of it but its repeats, which equal refusals raise."""
    data = dict(line["data"])
    if line.get("address") is not None:
        data["address"] = line["address"]
    moment = datetime.fromisoformat(line["at"]).astimezone(UTC)
    told = {
        "id": line["id"],
        "at": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "kind": line["kind"],
        "actor": line["actor"],
        "queue_id": line["chain"]["queue_id"],
        "run_id": line["chain"]["run_id"],
        "task_id": line["task_id"],
        "attempt_id": line["attempt_id"],
        "state_version": line["state_version"],
        "request_id": line["request_id"],
        "data": _tamed(data, 0),
    }
    try:
        return digest(canonical(told))
    except NotEncodable as error:
        raise ValueError(str(error)) from error


def link_digest(*, number: int, previous: str, content: str) -> str:
    """What binds a link to its place, to the one before, and to its event."""
    return digest(f"{previous}\n{number}\n{content}".encode())


def _tamed(value: Any, depth: int) -> Any:
    """Numbers that RFC 8785 doesn't know, and what is nested too deep, as their text."""
    match value:
        case bool():
            return value
        case int() | float() if abs(value) > LARGEST_INTEGER:
            return repr(value)
        case dict() | list() if depth >= _DEEPEST:
            return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        case dict():
            return {name: _tamed(each, depth + 1) for name, each in value.items()}
        case list():
            return [_tamed(each, depth + 1) for each in value]
        case _:
            return value


def _break(
    misfit: str, line: _Line | None, at: int | None, detail: str, *, number: int | None = None
) -> ChainBreak:
    return ChainBreak(
        misfit=misfit,
        number=line.number if line else number,
        event_id=line.event_id if line else None,
        line=at,
        detail=detail,
    )
