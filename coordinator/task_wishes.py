"""What a query string asks the list of tasks for: the words of a saved view, of a page's address and of the API.

Anything that makes no sense is named, never guessed: a filter that silently finds more is worse than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django.utils.translation import gettext as _

from coordinator.selectors.task_filters import TaskFilter
from coordinator.states import TaskState
from coordinator.task_queries import read_query

MAX_TEXT: Final = 200
#: What an address may say; `cols` chooses the columns of the page, and finds nothing.
NAMES: Final = ("state", "queue", "kind", "owner", "run", "node", "q", "cols")
_MIN_PREFIX: Final = 8


@dataclass(frozen=True, slots=True)
class Wish:
    """The filter as typed and as understood; `faults` by field."""

    typed: dict[str, str]
    tasks: TaskFilter
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """The query string, without its `?`."""
        return urlencode(self.typed)


def wish_of(query: Mapping[str, Any]) -> Wish:
    """The fields of the form, and what the query in `q` says beside them; the form's own word wins."""
    typed = {name: str(query[name]).strip()[:MAX_TEXT] for name in NAMES if query.get(name)}
    typed = {name: value.replace("\x00", "") for name, value in typed.items() if value}
    said = read_query(typed.get("q", ""))
    meant, faults = {**said.fields, **typed}, dict(said.faults)
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
    return Wish(typed, wanted, faults)


def read_wish(query: str) -> Wish:
    """The same of a query string, whose other names are faults; so is one that asks for nothing."""
    pairs = dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=50))
    wish = wish_of(pairs)
    for name in pairs.keys() - set(NAMES):
        wish.faults[name] = f"There is no such filter; filters: {', '.join(NAMES)}."
    if not wish.typed.keys() - {"cols"}:
        wish.faults.setdefault(
            "", "It asks for nothing; say for which tasks, as `queue=q&state=READY`."
        )
    return wish


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
