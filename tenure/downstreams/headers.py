"""What travels with a call over HTTP, for tools that dedupe, refuse late calls, or stand behind a gate.

`Idempotency-Key` is the effect's id. The deadline is an instant by the coordinator's clock, so that a worker whose
clock is wrong can't make a late call look early.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from tenure.downstreams.base import Call
from tenure.records import Json

KEY = "Idempotency-Key"
DISPATCH = "Tenure-Dispatch"
FENCING_TOKEN = "Tenure-Fencing-Token"  # noqa: S105 - a counter, not a secret
PAYLOAD_DIGEST = "Tenure-Payload-Digest"
DEADLINE = "Tenure-Deadline"
CONDITION = "Tenure-Condition"
#: On a gate's own answers: its outcome. A tool behind it never sets this.
GATE = "Tenure-Gate"
#: Outcomes at the gate that say: not redeemed, so the tool has not acted and this call can't make it. Any other one
#: (ALREADY_REDEEMED, or a coordinator that did not answer) leaves open what came of the dispatch.
TURNED_AWAY = frozenset(
    {
        "FENCED",
        "CANCELLED",
        "STALE_INPUT",
        "PAYLOAD_CONFLICT",
        "INVALID",
        "FORBIDDEN",
        "NOT_FOUND",
        "MALFORMED",
        "LATE",
        "REFUSED",
    }
)


def headers_of(call: Call) -> dict[str, str]:
    """The headers of one transmission."""
    headers = {
        KEY: call.idempotency_key,
        DISPATCH: call.dispatch_id,
        FENCING_TOKEN: call.fencing_token,
        PAYLOAD_DIGEST: call.payload_digest,
        DEADLINE: call.deadline_at.astimezone(UTC).isoformat(timespec="milliseconds"),
    }
    if call.condition is not None:
        # ASCII only: header values have no charset.
        headers[CONDITION] = json.dumps(call.condition, separators=(",", ":"), sort_keys=True)
    return headers


def deadline_in(headers: Mapping[str, str]) -> datetime | None:
    """The deadline that was sent along; None where there is none, or none that can be read."""
    try:
        at = datetime.fromisoformat(headers.get(DEADLINE, ""))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def condition_in(value: str | None) -> Json:
    """The condition from its header. Raises ValueError where it is no JSON."""
    return None if value is None else json.loads(value)
