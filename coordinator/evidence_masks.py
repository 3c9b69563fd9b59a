"""Evidence as people are given it: what a downstream told is there now is masked as the payload is (adr/0022, 0025)."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from coordinator.secrets import Hidden, mask_value

#: The member that holds what is there now, as JSON text: two values in the payload's own form.
_STATE: Final = "present_state"
_SIDES: Final = ("there", "instead")


def mask_evidence(
    detail: dict[str, Any], pointers: Sequence[str] = ()
) -> tuple[dict[str, Any], tuple[Hidden, ...]]:
    """The detail with masks, and where they are. `pointers` are those of its downstream, into its payloads."""
    state = detail.get(_STATE)
    if not isinstance(state, str):
        shown, hidden = mask_value(detail)
        return shown, hidden
    shown, hidden = mask_value({**detail, _STATE: None})
    meant = [f"/{side}{pointer}" for side in _SIDES for pointer in pointers]
    told, places = mask_value(orjson.loads(state), meant)
    shown[_STATE] = orjson.dumps(told).decode()
    return shown, (*hidden, *(Hidden(f"/{_STATE}{one.pointer}", one.because) for one in places))
