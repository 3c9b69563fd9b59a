"""What a downstream told last of what is there now, where an effect would write."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from coordinator.models import Evidence

#: The kind of this evidence. It is no method of settling anything.
PRESENT: Final = "present"


@dataclass(frozen=True, slots=True)
class PresentState:
    """`there` and `instead` as JSON text; both None where the downstream could not tell, which `detail` says."""

    evidence_id: int
    there: str | None
    instead: str | None
    is_there: bool
    facts: dict[str, Any]
    condition_holds: bool | None
    detail: str
    actor: str
    at: datetime


def read_present_state(effect_id: str) -> PresentState | None:
    """The newest of them; None where nobody has looked. One query."""
    rows = Evidence.objects.filter(effect_id=effect_id, kind=PRESENT).order_by("-id")
    found = rows.values_list("id", "detail", "actor", "at").first()
    if found is None:
        return None
    evidence_id, told, actor, at = found
    state = orjson.loads(told["present_state"]) if told["present_state"] else None
    return PresentState(
        evidence_id=evidence_id,
        there=orjson.dumps(state["there"]).decode() if state else None,
        instead=orjson.dumps(state["instead"]).decode() if state else None,
        is_there=state is not None and state["there"] is not None,
        facts=orjson.loads(told["facts"]),
        condition_holds=told["condition_holds"],
        detail=told["detail"],
        actor=actor,
        at=at,
    )
