"""How the audit is chained: the content of an event, and the digest that a link has with the one before (adr/0021).

`tenure/audit_chain.py` is the same in words of the SDK's own, so that a file is verified without this server.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final

from coordinator.digests import canonical, sha256

#: What the first link follows.
GENESIS: Final = sha256(b"tenure audit chain v1")
#: RFC 8785 knows no integers beyond it, and no reader digs for ever: what is beyond is told as text.
_MAX_INTEGER: Final = 2**53 - 1
_MAX_DEPTH: Final = 32


def content_digest(
    *,
    event_id: int,
    at: datetime,
    kind: str,
    actor: str,
    queue_id: int | None,
    run_id: int | None,
    task_id: object,
    attempt_id: object,
    state_version: int | None,
    request_id: str,
    data: Any,
) -> str:
    """`sha256:<hex>` over what of an event never changes: not its repeats, which equal refusals raise."""
    told = {
        "id": event_id,
        "at": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "kind": kind,
        "actor": actor,
        "queue_id": queue_id,
        "run_id": run_id,
        "task_id": None if task_id is None else str(task_id),
        "attempt_id": None if attempt_id is None else str(attempt_id),
        "state_version": state_version,
        "request_id": request_id,
        "data": _tamed(data, 0),
    }
    return sha256(canonical(told))


def link_digest(*, number: int, previous: str, content: str) -> str:
    """What binds a link to its place, to the one before, and to its event."""
    return sha256(f"{previous}\n{number}\n{content}".encode())


def _tamed(value: Any, depth: int) -> Any:
    match value:
        case bool():
            return value
        case int() | float() if abs(value) > _MAX_INTEGER:
            return repr(value)
        case dict() | list() if depth >= _MAX_DEPTH:
            return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        case dict():
            return {name: _tamed(each, depth + 1) for name, each in value.items()}
        case list():
            return [_tamed(each, depth + 1) for each in value]
        case _:
            return value
