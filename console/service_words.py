"""What services say to people, in the reader's language.

Services speak English, as the API does: refusals, faults of fields, the verdicts of the shadow judge. Each of their
sentences is known as a message with places (service_sentences.py); one that is said is found by its whole text, and
told in the translation with what stood in the places.
"""

import re
from functools import lru_cache
from typing import Final

from django.utils.translation import get_language, gettext

from console.service_sentences import PHRASES, SENTENCES
from coordinator.outcomes import Outcome

#: Characters of a sentence of ours, names and all. Others' words come here too, and looking at long ones takes long.
LONGEST: Final = 600
#: Places in which a phrase or a sentence of ours stands; in all others somebody's own words may.
_OURS: Final = frozenset({"what", "counter", "told", "why", "error"})
#: Places that take no more than a word of the contract, an instant or a number; each other one takes anything.
_MADE_OF: Final = {"state": "[A-Z0-9_]+", "at": r"[\d:TZ+. -]+|no time"} | dict.fromkeys(
    ("count", "settled", "needed", "percent"), r"[\d.,]+"
)
_IN_PLACES: Final = (*SENTENCES, *PHRASES)
#: Where one sentence ends and another begins.
_ENDS: Final = re.compile(r"(?<=\.) ")
_PLACE: Final = re.compile(r"\\{(\w+)\\}")


def in_words(text: str) -> str:
    """A sentence of ours in the reader's language; anything else as it is. Escape and mask it as before."""
    if (get_language() or "en").startswith("en") or len(text) > LONGEST:
        return text
    return _told(text, SENTENCES)


def _told(text: str, among: tuple[str, ...]) -> str:
    each = _ENDS.split(text)
    if len(each) > 1 and all(_find(one, among) for one in each):
        return "".join(_told(one, among) for one in each)
    found = _find(text, among)
    if found is not None:
        message, places = found
        if not places:
            return gettext(message)
        return gettext(message).format(**{name: _placed(name, said) for name, said in places})
    outcome, colon, detail = text.partition(": ")
    if colon and outcome in Outcome.__members__:
        return f"{outcome}: {_told(detail, among)}"
    return text


def _placed(name: str, said: str) -> str:
    """What stands in a place: translated where it is ours, also where the sentence around it ends it."""
    if name not in _OURS:
        return said
    told = _told(said, _IN_PLACES)
    if told == said and (ended := _told(f"{said}.", _IN_PLACES)) != f"{said}.":
        return ended.removesuffix("。")
    return told


@lru_cache(maxsize=1_000)
def _find(text: str, among: tuple[str, ...]) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """The message that the whole text is, and what stands in its places."""
    exact, patterns = _compiled(among)
    if text in exact:
        return text, ()
    for pattern, message in patterns:
        if found := pattern.fullmatch(text):
            return message, tuple(found.groupdict().items())
    return None


@lru_cache(maxsize=2)
def _compiled(
    among: tuple[str, ...],
) -> tuple[frozenset[str], tuple[tuple["re.Pattern[str]", str], ...]]:
    """Those without places; and those with some, the one that says most by itself first: a place takes anything."""
    exact = frozenset(each for each in among if "{" not in each)
    placed = sorted(
        (each for each in among if each not in exact), key=_literal_length, reverse=True
    )
    return exact, tuple((_pattern_of(each), each) for each in placed)


def _pattern_of(message: str) -> "re.Pattern[str]":
    def place(found: re.Match[str]) -> str:
        return f"(?P<{found[1]}>{_MADE_OF.get(found[1], '.+?')})"

    return re.compile(_PLACE.sub(place, re.escape(message)), re.DOTALL)


def _literal_length(message: str) -> int:
    return len(re.sub(r"\{\w+\}", "", message))
