"""What is there now beside a payload that waits for a person: who can tell it, and what was told last."""

from collections.abc import Sequence
from typing import Any

from console.diffs import compare
from coordinator.secrets import mask_text
from coordinator.selectors.console_approval import Bound
from coordinator.selectors.present_states import PresentState, read_present_state
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
        "present_hides": told is not None and _hides(told, places),
        "lines_present": compare(told.there, told.instead, places, by_line=True)
        if told and told.is_there and told.there and told.instead
        else None,
    }


def _hides(told: PresentState, places: Sequence[str]) -> bool:
    """Whether something of it is masked where the two are compared."""
    sides = (text for text in (told.there, told.instead) if text is not None)
    return any(mask_text(text, places).hidden for text in sides)
