"""What is there now beside a payload that waits for a person: who can tell it, and what was told last."""

from collections.abc import Sequence
from typing import Any

from console.diffs import compare
from coordinator.selectors.console_approval import Bound
from coordinator.selectors.present_states import read_present_state
from coordinator.site.adapters import registered_adapters
from tenure.downstreams.base import Adapter


def presenter_of(bound: Bound) -> Adapter | None:
    """The registered adapter of its downstream, where that can tell what is there now."""
    adapter = registered_adapters().get(bound.downstream)
    return adapter if adapter is not None and adapter.can_present else None


def present_of(bound: Bound, places: Sequence[str]) -> dict[str, Any]:
    """For the page of the request. What was told is a part of the payload's own permission."""
    told = read_present_state(bound.effect_id) if bound.payload is not None else None
    return {
        "presenter": presenter_of(bound),
        "present": told,
        "lines_present": compare(told.there, told.instead, places, by_line=True)
        if told and told.is_there and told.there and told.instead
        else None,
    }
