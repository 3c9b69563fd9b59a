"""What a page was asked for, out of its address. Anything that makes no sense is named, never guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.utils.translation import gettext as _

from console.columns import DEFAULT_COLUMNS, Column, read_columns
from console.queries import read_query
from coordinator.selectors.task_filters import TaskFilter
from coordinator.states import RunState, TaskState

MAX_TEXT: Final = 200
_MIN_PREFIX: Final = 8
_NAMES: Final = ("state", "queue", "kind", "owner", "run", "node", "q", "cols")


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
    typed = {name: str(query[name]).strip()[:MAX_TEXT] for name in _NAMES if query.get(name)}
    typed = {name: value.replace("\x00", "") for name, value in typed.items() if value}
    said = read_query(typed.get("q", ""))
    meant, faults = {**said.fields, **typed}, dict(said.faults)
    columns, unknown = read_columns(typed.get("cols", ""))
    if unknown:
        faults["cols"] = unknown
    ids = id_range(said.text)
    wanted = TaskFilter(
        state=_state(meant, faults),
        queue=meant.get("queue", ""),
        kind=meant.get("kind", ""),
        owner=meant.get("owner", ""),
        node=meant.get("node", ""),
        run_id=_run(meant, faults),
        ids=ids,
        text="" if ids else said.text,
        attempts_over=said.attempts_over,
        epochs=said.epochs,
        older_than=said.older_than,
        younger_than=said.younger_than,
    )
    return Wanted(typed, wanted, faults, columns)


def id_range(text: str) -> tuple[UUID, UUID] | None:
    """The ids that begin with `text` (8 hexadecimal digits or more), or None where it is no id."""
    digits = text.replace("-", "").lower()
    if not _MIN_PREFIX <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def as_uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None


def as_number(text: str | None) -> int | None:
    """A positive integer that a database key can be."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def run_state(text: str | None) -> RunState | None:
    return RunState(text) if text in set(RunState) else None


def _state(typed: Mapping[str, str], faults: dict[str, str]) -> TaskState | None:
    text = typed.get("state", "")
    if not text or text in set(TaskState):
        return TaskState(text) if text else None
    faults["state"] = _("There is no such state. States: %(states)s.") % {
        "states": ", ".join(TaskState)
    }
    return None


def _run(typed: Mapping[str, str], faults: dict[str, str]) -> UUID | None:
    text = typed.get("run", "")
    found = as_uuid(text)
    if text and found is None:
        faults["run"] = _("Not a run's id. Copy it whole from the run's page.")
    return found
