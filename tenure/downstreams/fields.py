"""Reading a payload or a condition, with one clear error that names the field and the mend."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping

from tenure.canonical import canonical
from tenure.errors import NotEncodable
from tenure.records import Json


class Fields:
    """The members of a JSON object. `where` is its JSON pointer, such as `/payload`."""

    def __init__(self, value: Json, where: str, *, known: Collection[str]) -> None:
        if not isinstance(value, Mapping):
            raise NotEncodable(f"an object is wanted with {_listed(known)}", pointer=where)
        for name in value:
            if name not in known:
                raise NotEncodable(
                    f"unknown member; this downstream takes {_listed(known)}",
                    pointer=f"{where}/{name}",
                )
        plain(value, where)
        self._value = value
        self._where = where

    def text(self, name: str, *, meaning: str) -> str:
        """A text that must be there and not empty."""
        value = self._value.get(name)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, f"a text is wanted: {meaning}")
        return value

    def optional_text(self, name: str, *, meaning: str) -> str | None:
        """A text, or nothing."""
        return None if self._value.get(name) is None else self.text(name, meaning=meaning)

    def texts(self, name: str, *, meaning: str) -> list[str]:
        """A list of texts with at least one in it."""
        value = self._value.get(name)
        if not isinstance(value, list) or not value or not all(_is_text(item) for item in value):
            raise self.wrong(name, f"a list of texts is wanted: {meaning}")
        return list(value)

    def object(self, name: str, *, meaning: str) -> Mapping[str, Json]:
        """An object that must be there."""
        value = self._value.get(name)
        if not isinstance(value, Mapping):
            raise self.wrong(name, f"an object is wanted: {meaning}")
        return value

    def content(self, *, text: str = "text", encoded: str = "base64") -> bytes:
        """Bytes that are given either as text or in base64."""
        return content_of(self._value, self._where, text=text, encoded=encoded)

    def get(self, name: str) -> Json:
        """Whatever is there."""
        return self._value.get(name)

    def wrong(self, name: str, reason: str) -> NotEncodable:
        """The error for one member."""
        return NotEncodable(reason, pointer=f"{self._where}/{name}")


def plain(value: Json, where: str) -> None:
    """Refuse what has no canonical form as JSON: NaN, lone surrogates, integers that not every reader keeps."""
    try:
        canonical(value)
    except NotEncodable as error:
        raise NotEncodable(error.reason, pointer=where + error.pointer) from error


def no_condition(condition: Json, kind: str) -> None:
    """Refuse a condition where nothing would ever look at it."""
    if condition is not None:
        raise NotEncodable(f"{kind} takes no condition; leave it out", pointer="/condition")


def content_of(
    value: Mapping[str, Json], where: str, *, text: str = "text", encoded: str = "base64"
) -> bytes:
    """The bytes of an object with exactly one of `text` and `base64`."""
    plain, coded = value.get(text), value.get(encoded)
    if isinstance(plain, str) and coded is None:
        return plain.encode()
    if isinstance(coded, str) and plain is None:
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise NotEncodable("not valid base64", pointer=f"{where}/{encoded}") from error
    raise NotEncodable(f"exactly one of {text!r} and {encoded!r} is wanted, a text", pointer=where)


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value)


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "no members"
