"""The query that a person types above the list of tasks: `state:ready attempts:>3 age:>15m epoch:7 publish`.

Words with a known name before a colon narrow the list; what is left is looked for in the nodes' names. A name
that is not known is a fault, since a filter that silently finds more is worse than none; in quotes it is text.
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
#: All the words there are, in the order in which they are told.
WORDS: Final = ("state", "age", "agent", "attempts", "node", "epoch", "queue", "kind", "run")
#: Beyond this, bigints end.
MAX_EPOCH: Final = (1 << 63) - 1
_WORD: Final = re.compile(r'(?:([A-Za-z_]+):)?(?:"([^"]*)"|(\S+))')
_NAME_ALONE: Final = re.compile(r"([A-Za-z_]+):")
_MORE_THAN: Final = re.compile(r">(\d{1,6})")
_AGE: Final = re.compile(r"([<>])(\d{1,5})([smhd])")
_EPOCH: Final = re.compile(r"([<>]?)(\d{1,18})")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Query:
    """`fields` as the form would have them; `faults` by the word's name; `text` is what is left."""

    fields: dict[str, str] = field(default_factory=dict)
    attempts_over: int | None = None
    older_than: timedelta | None = None
    younger_than: timedelta | None = None
    epochs: tuple[int, int] | None = None
    text: str = ""
    faults: dict[str, str] = field(default_factory=dict)


def read_query(text: str) -> Query:
    fields: dict[str, str] = {}
    faults: dict[str, str] = {}
    rest: list[str] = []
    attempts: int | None = None
    epochs: tuple[int, int] | None = None
    ages: dict[str, timedelta] = {}
    for found in _WORD.finditer(text):
        name = (found[1] or "").lower()
        value = found[2] if found[2] is not None else found[3]
        if name in FIELDS:
            fields[FIELDS[name]] = value.upper() if name == "state" else value
        elif name == "attempts":
            attempts = _attempts(value, faults)
        elif name == "age":
            ages |= _age(value, faults)
        elif name == "epoch":
            epochs = _epochs(value, faults)
        elif name:
            faults[name] = _unknown_word(found[0])
        elif found[2] is None and _is_word_alone(value):
            faults[value[:-1].lower()] = _("Write what it shall be, right after the colon.")
        else:
            rest.append(value)
    return Query(
        fields, attempts, ages.get(">"), ages.get("<"), epochs, " ".join(filter(None, rest)), faults
    )


def _is_word_alone(text: str) -> bool:
    found = _NAME_ALONE.fullmatch(text)
    return found is not None and found[1].lower() in {*FIELDS, *WORDS}


def _unknown_word(word: str) -> str:
    told = _(
        'There is no such word. To look for it in the nodes\' names, put it in quotes: "%(word)s". Words: %(words)s'
    )
    return told % {"words": " ".join(f"{name}:" for name in WORDS), "word": word}


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


def _epochs(value: str, faults: dict[str, str]) -> tuple[int, int] | None:
    """The epochs that are meant, both ends included. A task that was never claimed is at 0, and below nothing."""
    found = _EPOCH.fullmatch(value)
    if found is None:
        faults["epoch"] = _("Write it as epoch:7, epoch:>7 or epoch:<7.")
        return None
    number = int(found[2])
    match found[1]:
        case "<":
            return 1, number - 1
        case ">":
            return number + 1, MAX_EPOCH
        case _:
            return number, number
