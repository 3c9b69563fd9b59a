"""What a page was asked for, out of its address. Anything that makes no sense is named, never guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from console.columns import DEFAULT_COLUMNS, Column, read_columns
from coordinator.selectors.task_filters import TaskFilter
from coordinator.states import RunState
from coordinator.task_wishes import MAX_TEXT, as_uuid, id_range, wish_of

__all__ = ["MAX_TEXT", "as_uuid", "id_range"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filter as typed (for the form and for links) and as understood; `faults` by field."""

    typed: dict[str, str]
    tasks: TaskFilter
    faults: dict[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = DEFAULT_COLUMNS

    @property
    def any(self) -> bool:
        return bool(self.typed.keys() - {"cols"})

    @property
    def is_understood(self) -> bool:
        """Whether the filter means what was typed. Where it doesn't, nothing is listed, exported or acted on."""
        return not self.faults.keys() - {"cols"}

    def link(self, **changes: str) -> str:
        """The query string of this filter with some fields changed; an empty value leaves one out."""
        return query_string({**self.typed, **changes})


def query_string(values: Mapping[str, str]) -> str:
    pairs = {name: value for name, value in values.items() if value}
    return f"?{urlencode(pairs)}" if pairs else "?"


def wanted_tasks(query: Mapping[str, Any]) -> Wanted:
    """The fields of the form, and what the query in `q` says beside them; the form's own word wins."""
    wish = wish_of(query)
    faults = dict(wish.faults)
    columns, unknown = read_columns(wish.typed.get("cols", ""))
    if unknown:
        faults["cols"] = unknown
    return Wanted(wish.typed, wish.tasks, faults, columns)


def as_number(text: str | None) -> int | None:
    """A positive integer that a database key can be."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def run_state(text: str | None) -> RunState | None:
    return RunState(text) if text in set(RunState) else None
