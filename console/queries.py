"""The query that a person types above the list of tasks: `state:ready attempts:>3 age:>15m publish`.

Words with a known name before a colon narrow the list; what is left is looked for in the nodes' names. A name that
is not known is no fault: nodes may have colons in theirs.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.utils.translation import gettext as _

#: What a word may be called, and the field of the form that it stands for.
FIELDS: Final = {
    "state": "state",
    "queue": "queue",
    "kind": "kind",
    "owner": "owner",
    "agent": "owner",
    "run": "run",
    "node": "node",
}
_WORD: Final = re.compile(r'(?:([a-z]+):)?(?:"([^"]*)"|(\S+))')
_MORE_THAN: Final = re.compile(r">(\d{1,6})")
_AGE: Final = re.compile(r"([<>])(\d{1,5})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Query:
    """`fields` as the form would have them; `faults` by the word's name; `text` is what is left."""

    fields: dict[str, str] = field(default_factory=dict)
    attempts_over: int | None = None
    older_than: timedelta | None = None
    younger_than: timedelta | None = None
    text: str = ""
    faults: dict[str, str] = field(default_factory=dict)


def read_query(text: str) -> Query:
    fields: dict[str, str] = {}
    faults: dict[str, str] = {}
    rest: list[str] = []
    attempts: int | None = None
    ages: dict[str, timedelta] = {}
    for found in _WORD.finditer(text):
        name, value = found[1] or "", found[2] if found[2] is not None else found[3]
        if name in FIELDS:
            fields[FIELDS[name]] = value.upper() if name == "state" else value
        elif name == "attempts":
            attempts = _attempts(value, faults)
        elif name == "age":
            ages |= _age(value, faults)
        else:
            rest.append(found[0])
    return Query(fields, attempts, ages.get(">"), ages.get("<"), " ".join(rest), faults)


def _attempts(value: str, faults: dict[str, str]) -> int | None:
    found = _MORE_THAN.fullmatch(value)
    if found is None:
        faults["attempts"] = _("Write it as attempts:>3.")
        return None
    return int(found[1])


def _age(value: str, faults: dict[str, str]) -> dict[str, timedelta]:
    found = _AGE.fullmatch(value)
    if found is None:
        faults["age"] = _("Write it as age:>15m; s, m, h and d are known.")
        return {}
    return {found[1]: timedelta(**{_UNITS[found[3]]: int(found[2])})}
