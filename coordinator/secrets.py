"""Secrets in what people are shown: found by their names, by their shape, or because a downstream says so.

A masked value keeps its place and tells why it is masked, with a mark that is the same for the
same value and says nothing of it: two payloads can be compared without being read. Digests are
always of the real bytes. Reveals are services/reveals.py.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import orjson
from django.conf import settings

from coordinator import digests

#: Words of a name, joined: `apiKey`, `API_KEY` and `x-api-key` all hold `apikey`.
SECRET_NAMES: Final = frozenset(
    (
        *("password", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "token"),
        *("authorization", "bearer", "cookie", "setcookie", "sessionid", "otp", "cvv", "cvc"),
        *("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey"),
        *("sshkey", "credential", "credentials", "connectionstring", "dsn"),
        *("密码", "口令", "令牌", "密钥", "私钥"),
    )
)
#: A name of so many words is looked through for those above.
MAX_WORDS: Final = 40
#: So many places are named beside a payload, and told of a value; all of them are masked.
MAX_NAMED: Final = 100
MAX_HIDDEN: Final = 10_000
#: Each level of JSON in a string doubles its escapes: deeper there is not much.
MAX_LEVELS: Final = 6
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_SHAPES: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
    r"|\b(?:[Bb]earer|[Bb]asic) [A-Za-z0-9._~+/=-]{12,}"
    r"|(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
    r"|sk-[A-Za-z0-9_-]{20,}|sk_live_\w{16,}|AIza[\w-]{30,}|tnr_\w{16,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)"
)
_MASK: Final = re.compile(r"\[masked: (?:name|shape|registered) #[0-9a-f]{8}\]")
#: An entry of a list of pairs or of objects: what names the value that stands beside it.
_NAMING: Final = ("name", "key", "header", "field")
_NAMED: Final = ("value", "val", "content")


class Because(StrEnum):
    """Why a value is masked."""

    NAME = "name"  # its name is one of a secret
    SHAPE = "shape"  # it, or a part of it, looks like one
    REGISTERED = "registered"  # its downstream says so


@dataclass(frozen=True, slots=True)
class Hidden:
    pointer: str  # RFC 6901
    because: str


@dataclass(frozen=True, slots=True)
class Masked:
    """JSON text for people: the stored one where nothing is hidden, else in canonical form with masks."""

    text: str
    hidden: tuple[Hidden, ...] = ()


def mask_text(text: str, pointers: Sequence[str] = ()) -> Masked:
    """Stored JSON text, whole. What is no JSON is hidden whole: nobody can say what is in it."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return Masked(orjson.dumps(_mask(text, Because.SHAPE)).decode(), (Hidden("", "shape"),))
    shown, hidden = mask_value(value, pointers)
    return Masked(digests.canonical(shown).decode(), hidden) if hidden else Masked(text)


def mask_value(
    value: Any, pointers: Sequence[str] = (), *, level: int = 0
) -> tuple[Any, tuple[Hidden, ...]]:
    """A copy of the value with masks, and where they are. Depth costs no stack.

    `level` counts JSON texts within strings of JSON texts, which are looked into as well.
    """
    root = [value]
    hidden: list[Hidden] = []
    registered = [_segments(pointer) for pointer in pointers]
    work: list[tuple[Any, Any, _Place, bool]] = [(root, 0, _Place(), False)]
    while work:
        holder, key, place, is_named = work.pop()
        each, because = holder[key], None
        if isinstance(each, str) and _MASK.fullmatch(each):
            continue  # masked before
        if is_named or any(place.matches(wanted) for wanted in registered):
            because = Because.NAME if is_named else Because.REGISTERED
        if because and _says_something(each):
            holder[key] = _mask(each, because)
        elif isinstance(each, str):
            holder[key], because = _masked_string(each, level)
        else:
            because = None
            work += _inside(holder, key, each, place)
        if because and len(hidden) < MAX_HIDDEN:
            hidden.append(Hidden(_pointer(place.path()), because))
    return root[0], tuple(sorted(hidden, key=lambda one: one.pointer))


def mask_members(data: dict[str, Any]) -> dict[str, Any]:
    """An event's data as people are shown it. Its own members are ours; what others wrote stands in them."""
    return {name: mask_value(value)[0] for name, value in data.items()}


def _masked_string(text: str, level: int) -> tuple[str, Because | None]:
    """A string with masks in it, and why; JSON that somebody has put into it as text is read, too."""
    if level < MAX_LEVELS and text.lstrip()[:1] in ("{", "["):
        try:
            inner = orjson.loads(text)
        except orjson.JSONDecodeError:
            inner = None
        shown, hidden = mask_value(inner, level=level + 1)
        if hidden:
            return orjson.dumps(shown).decode(), Because(hidden[0].because)
    masked = _SHAPES.sub(lambda match: _mask(match[0], Because.SHAPE), text)
    return masked, Because.SHAPE if masked != text else None


def _inside(
    holder: Any, key: Any, each: Any, place: "_Place"
) -> list[tuple[Any, Any, "_Place", bool]]:
    """Put a copy of a container in its place; what is to be looked at in it."""
    if isinstance(each, dict):
        holder[key] = members = dict(each)
        named = _value_beside(members)
        return [
            (members, name, place.into(name), is_secret_name(str(name)) or name == named)
            for name in members
        ]
    if isinstance(each, list | tuple):
        holder[key] = items = list(each)
        is_pair = len(items) == 2 and isinstance(items[0], str) and is_secret_name(items[0])
        return [(items, n, place.into(n), is_pair and n == 1) for n in range(len(items))]
    return []


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value is, as a link to what holds it: a path of its own for each would be too much."""

    holder: "_Place | None" = None
    part: str | int = ""
    depth: int = 0

    def into(self, part: str | int) -> "_Place":
        return _Place(self, part, self.depth + 1)

    def path(self) -> list[str]:
        parts, here = [], self
        while here.holder is not None:
            parts.append(str(here.part))
            here = here.holder
        return parts[::-1]

    def matches(self, wanted: Sequence[str]) -> bool:
        """`*` stands for any one member or place."""
        return len(wanted) == self.depth and all(
            one in ("*", part) for one, part in zip(wanted, self.path(), strict=True)
        )


def is_secret_name(name: str) -> bool:
    """Whether a name says that its value is a secret; invisible characters and width change nothing."""
    return _is_secret(name[:1_000], settings.SECRET_NAMES)


@lru_cache(maxsize=4_096)
def _is_secret(name: str, more: frozenset[str]) -> bool:
    plain = "".join(
        char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf"
    )
    words = [word.lower() for word in _WORD.findall(plain)][:MAX_WORDS]
    known = SECRET_NAMES | more
    return any(
        "".join(words[start:end]) in known
        for start in range(len(words))
        for end in range(start + 1, min(start + 3, len(words)) + 1)
    ) or any(word in plain for word in known if not word.isascii())


def unmask(value: Any, original: Any, pointers: Sequence[str] = ()) -> tuple[Any, tuple[str, ...]]:
    """What a person has edited over masks, with the values that stand behind those they left alone.

    The second part names the places of masks that can't be filled: they were moved or changed.
    """
    masked, hidden = mask_value(original, pointers)
    root = [value]
    for one in hidden:
        path = _segments(one.pointer)
        if (place := _find(root, path)) and _at(masked, path) == place[0][place[1]]:
            place[0][place[1]] = _at(original, path)
    left = (path for path in _masks_left(root[0]) if _at(original, path) != _at(root[0], path))
    return root[0], tuple(_pointer(path) for path in left)


def _masks_left(value: Any) -> Iterator[list[str]]:
    work: list[tuple[Any, _Place]] = [(value, _Place())]
    while work:
        each, place = work.pop()
        if isinstance(each, str) and _MASK.search(each):
            yield place.path()
        elif isinstance(each, dict):
            work += [(part, place.into(name)) for name, part in each.items()]
        elif isinstance(each, list):
            work += [(part, place.into(n)) for n, part in enumerate(each)]


def values_of(text: str, hidden: Sequence[Hidden]) -> list[tuple[Hidden, str]]:
    """What stands behind the masks, as text, so many as are named."""
    value = orjson.loads(text)
    return [(one, _told(_at(value, _segments(one.pointer)))) for one in hidden[:MAX_NAMED]]


def _told(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _mask(value: Any, because: Because) -> str:
    mark = hmac.new(settings.SECRET_KEY.encode(), orjson.dumps(value), hashlib.sha256)
    return f"[masked: {because} #{mark.hexdigest()[:8]}]"


def _says_something(value: Any) -> bool:
    return value not in (None, "", [], {}) and not isinstance(value, bool)


def _value_beside(entry: dict[str, Any]) -> str | None:
    """`{"name": "Authorization", "value": …}`: the name of the member that is the secret."""
    names = (entry.get(name) for name in _NAMING)
    if not any(isinstance(name, str) and is_secret_name(name) for name in names):
        return None
    return next((name for name in _NAMED if name in entry), None)


def _pointer(path: Sequence[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _segments(pointer: str) -> tuple[str, ...]:
    parts = pointer.split("/")[1:]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def _find(root: list[Any], path: Sequence[str]) -> tuple[Any, Any] | None:
    """The container and the key of a place, where there is one."""
    holder: Any = root
    key: Any = 0
    for part in path:
        holder = holder[key]
        if isinstance(holder, dict) and part in holder:
            key = part
        elif isinstance(holder, list) and part.isdecimal() and int(part) < len(holder):
            key = int(part)
        else:
            return None
    return holder, key


def _at(value: Any, path: Sequence[str]) -> Any:
    place = _find([value], path)
    return place[0][place[1]] if place else None
