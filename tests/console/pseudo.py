"""A language that nobody speaks: every message of the catalogue between brackets, and half as long again.

What stands on a page outside of brackets was never given to the translators. Tests alone know it, by their settings.
"""

import re
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from tests.console.test_translations import messages_with_plurals

CODE: Final = "qps"
OPEN, CLOSE = "\u27e6", "\u27e7"
_PAD: Final = "\u1e8b\u1e8b\u1e8b\u1e8b\u1e8b"
_HEADER: Final = (
    "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"
)


def pseudo(text: str) -> str:
    words = max(1, round(len(text) * 0.4 / len(_PAD)))
    return f"{OPEN}{text} {' '.join([_PAD] * words)}{CLOSE}"


def write_catalogue(folder: Path) -> None:
    """`folder` may stand in LOCALE_PATHS then."""
    translated = {"": _HEADER}
    for message, plural in messages_with_plurals():
        if plural:
            translated[f"{message}\0{plural}"] = f"{pseudo(message)}\0{pseudo(plural)}"
        else:
            translated[message] = pseudo(message)
    target = folder / CODE / "LC_MESSAGES"
    target.mkdir(parents=True)
    (target / "django.mo").write_bytes(_compiled(translated))


def _compiled(translated: dict[str, str]) -> bytes:
    """The format that gettext reads: a head, two tables of lengths and places, and the texts in order."""
    pairs = sorted((key.encode(), text.encode()) for key, text in translated.items())
    tables = [7 * 4, 7 * 4 + 8 * len(pairs)]
    place = 7 * 4 + 16 * len(pairs)
    told, texts = [b"", b""], b""
    for side in (0, 1):
        for pair in pairs:
            told[side] += struct.pack("<II", len(pair[side]), place)
            texts += pair[side] + b"\0"
            place += len(pair[side]) + 1
    head = struct.pack("<IIIIIII", 0x950412DE, 0, len(pairs), *tables, 0, 0)
    return head + b"".join(told) + texts


class Unwrapped(HTMLParser):
    """The texts of a page that stand outside of brackets, those of attributes too."""

    #: Code, and what is marked as English: the words of services and of whoever wrote them.
    QUOTED: Final = frozenset(
        {"code", "pre", "kbd", "samp", "script", "style", "textarea", "title"}
    )
    ATTRIBUTES: Final = ("aria-label", "title", "placeholder", "alt")
    VOID: Final = frozenset({"meta", "link", "input", "br", "hr", "img", "wbr"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.depth = 0
        self.open: list[tuple[str, bool]] = []
        self.texts: list[str] = []

    @classmethod
    def of(cls, page: str) -> list[str]:
        parser = cls()
        parser.feed(page)
        assert parser.depth == 0, "brackets that nobody closes"
        return parser.texts

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        told = dict(attrs)
        for name, value in told.items():
            if value and (name in self.ATTRIBUTES or name.startswith("data-label")):
                self.texts += [rest for rest in outside(value) if rest.strip()]
        if tag not in self.VOID:
            quoted = tag in self.QUOTED or (tag != "html" and "lang" in told)
            self.open.append((tag, quoted))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        rest = ""
        for sign in data:
            if sign == OPEN:
                self.depth += 1
            elif sign == CLOSE:
                self.depth -= 1
            elif not self.depth:
                rest += sign
        if rest.strip() and not any(quoted for _, quoted in self.open):
            self.texts.append(rest.strip())


def outside(text: str) -> Iterator[str]:
    """What of a text stands outside of brackets, however deep they are."""
    depth, rest = 0, ""
    for sign in text:
        depth += (sign == OPEN) - (sign == CLOSE)
        if not depth and sign != CLOSE:
            rest += sign
    yield rest


def plain_words(text: str) -> set[str]:
    """Words of a sentence; no ids, names with signs in them, numbers, or the contract's words in capitals."""
    return {
        word
        for token in re.split(r"[\s,;()\u201c\u201d\u00b7\u2192\u00d7]+", text)
        for word in re.findall(r"^[^\w]*([^\W\d_]{2,})[.:?!\u2026]?$", token)
        if not word.isupper()
    }
