"""Text that others wrote, made safe to look at: escaped, and with nothing in it that can't be seen.

Control, bidirectional and zero-width characters are drawn as their code points: they can make
a text read as something else than what a program will do with it.
"""

import json
import re
import unicodedata
from typing import Any, Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from coordinator.record_masks import masked_text
from coordinator.secrets import mask_text

_UNSEEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\ue000-\uf8ff\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_ANYWHERE: Final = re.compile(f"[{_UNSEEN}]")
_IN_ONE_LINE: Final = re.compile(f"[\t\n{_UNSEEN}]")
#: Where a long name of code may go on in the next line, rather than in the middle of a word.
_SEAM: Final = re.compile(r"(?<=\w)([/_:]|\.(?=\w{4}))(?=\w)")
_LONG: Final = 20


def visible(text: object, *, lines: bool = False) -> SafeString:
    """Escaped HTML of `text`. With `lines`, tabs and line feeds stay what they are."""
    pattern = _ANYWHERE if lines else _IN_ONE_LINE
    return mark_safe(pattern.sub(_draw, escape(_plain(text))))  # noqa: S308 - escaped just here


def visible_name(text: object) -> SafeString:
    """The same of a name: a long one may be broken behind its `/`, `_` and `:`, and `.` before a word."""
    shown = str(escape(_plain(text)))
    if len(shown) > _LONG or "_" in shown:
        shown = _SEAM.sub(r"\1<wbr>", shown)
    return mark_safe(_IN_ONE_LINE.sub(_draw, shown))  # noqa: S308 - escaped just here


def visible_in_attribute(text: object) -> str:
    """The same for attributes, which hold no elements: ⟨U+202E⟩. Escaped by the template as usual."""
    return _IN_ONE_LINE.sub(lambda match: f"⟨{_code(match[0])}⟩", _plain(text))


def masked(text: str) -> str:
    """Free text without what looks like a secret in it."""
    return masked_text(text)


def masked_json(text: str) -> str:
    """Stored JSON text as people are shown it: secrets are masked."""
    return mask_text(text).text


def coded(text: str) -> SafeString:
    """Escaped HTML of a sentence that has names between backticks: they are set as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd one out: nobody can say what it belongs to
        return visible(text)
    shown = [
        f"<code>{visible(part)}</code>" if place % 2 else visible(part)
        for place, part in enumerate(parts)
    ]
    return mark_safe("".join(shown))  # noqa: S308 - each part is escaped just here


def pretty_json(text: str) -> str:
    """Stored JSON text, indented for reading; what can't be parsed (it was cut) stays as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def compact(value: Any) -> str:
    """A value out of an event's data, as short text."""
    match value:
        case str():
            return value
        case list() if all(isinstance(each, str) for each in value):
            return ", ".join(value)
        case dict() if value and all(isinstance(each, str | int) for each in value.values()):
            return ", ".join(f"{name} {compact(each)}" for name, each in value.items())
        case _:
            return json.dumps(value, ensure_ascii=False)


def _plain(text: object) -> str:
    return "" if text is None else str(text).replace("\r\n", "\n")


def _draw(match: re.Match[str]) -> str:
    name = unicodedata.name(match[0], "control character")
    return f'<span class="esc" title="{name}">{_code(match[0])}</span>'


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
