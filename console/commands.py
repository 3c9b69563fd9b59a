"""The same from a terminal: each page's read or action as a command of `tenure` and as a call of the API (3.11).

The token is never in it: both take it from the environment. What is shown here is tried by a test:
each command against the command line's own parser, each call against the API's schema.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.http import HttpRequest

_API: Final = "/api/v1/"
_AUTH: Final = '-H "Authorization: Bearer $TENURE_TOKEN"'
#: What a person fills in.
WHY: Final = "…"

Kwargs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """`cli` is a whole line; `method`, `path` and `body` are the call. No `path`: the API has no such operation."""

    cli: str
    method: str = "GET"
    path: str = ""
    body: Mapping[str, Any] | None = None
    keyed: bool = False

    def curl(self, origin: str) -> str:
        """A line for a shell, whatever names stand in it."""
        if not self.path:
            return ""
        words = ["curl", _AUTH]
        if self.method != "GET":
            words[1:1] = ["-X", self.method]
        if self.keyed:
            words.append('-H "Idempotency-Key: $(uuidgen)"')
        words.append(shlex.quote(f"{origin}{self.path}"))
        if self.body is not None:
            words.append("--json " + shlex.quote(json.dumps(self.body, ensure_ascii=False)))
        return " ".join(words)


def tenure(*words: object) -> str:
    return shlex.join(["tenure", *(str(word) for word in words)])


def path_of(*parts: object, **query: str) -> str:
    path = "/".join(quote(str(part), safe="") for part in parts)
    return f"{_API}{path}{'?' + urlencode(query) if query else ''}"


def read(*parts: object, cli: str = "", **query: str) -> Shown:
    """A read: by the verb that there is for it, or by `tenure read`."""
    path = "/".join(quote(str(part), safe="") for part in parts)
    asked = [word for name, value in query.items() for word in ("--query", f"{name}={value}")]
    return Shown(cli or tenure("read", path, *asked), "GET", path_of(*parts, **query))


def send(method: str, *parts: object, cli: str = "", keyed: bool = False, **body: Any) -> Shown:
    """A write: by the verb that there is for it, or by `tenure send`."""
    path = "/".join(quote(str(part), safe="") for part in parts)
    told = [json.dumps(body, ensure_ascii=False)] if method != "DELETE" else []
    return Shown(
        cli or tenure("send", method, path, *told),
        method,
        path_of(*parts),
        body if method != "DELETE" else None,
        keyed,
    )


def manage(*words: object) -> Shown:
    """What only whoever runs the server may do."""
    return Shown(shlex.join(["manage.py", *(str(word) for word in words)]))


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a page shows: lines for a shell. `origin` is where the server is."""

    origin: str
    cli: Sequence[str]
    curl: Sequence[str]
    is_open: bool = False


def terminal(shown: Sequence[Shown], origin: str) -> Terminal:
    curls = [each.curl(origin) for each in shown]
    return Terminal(origin, [each.cli for each in shown], [curl for curl in curls if curl])


def origin_of(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"
