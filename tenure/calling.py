"""How the client asks: one call and its answer, a listing page by page, a download. For what, stands elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from tenure.decoding import decode
from tenure.errors import UnexpectedAnswer
from tenure.records import Json
from tenure.retrying import Repeat
from tenure.transport import Answer, Call, Transport, json_bytes

Record = TypeVar("Record")

#: Pages that one listing walks at most; a listing that needs more wants a filter.
MOST_PAGES = 10_000
#: Rows of one page.
LARGEST_PAGE = "200"


class Calling:
    """The ways to ask over one transport."""

    _transport: Transport

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        return self._transport.send(
            Call(method="GET", path=path, params=params or {}, repeat=Repeat.BY_NATURE)
        )

    def _post(
        self,
        path: str,
        body: Mapping[str, Json],
        *,
        key: str | None = None,
        repeat: Repeat = Repeat.BY_NATURE,
    ) -> Answer:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
            repeat = Repeat.BY_KEY
        call = Call(
            method="POST", path=path, content=json_bytes(body), headers=headers, repeat=repeat
        )
        return self._transport.send(call)

    def _download(self, path: str, into: IO[bytes], params: Mapping[str, str]) -> None:
        headers = {"Accept": "*/*"}
        self._transport.send(
            Call(
                method="GET",
                path=path,
                params=params,
                into=into,
                headers=headers,
                repeat=Repeat.NEVER,
            )
        )

    def _pages(self, path: str, filters: Mapping[str, str], kind: type[Record]) -> Iterator[Record]:
        return (decode(kind, row) for row in self._raw_pages(path, filters))

    def _raw_pages(self, path: str, filters: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        params = {"limit": LARGEST_PAGE, **filters}
        for _ in range(MOST_PAGES):
            page = object_of(self._get(path, params))
            yield from page.get("results", ())
            if not page.get("next"):
                return
            # Only the query is taken from the link: the token never follows it to another host.
            params = {
                name: values[-1] for name, values in parse_qs(urlsplit(page["next"]).query).items()
            }


def segment(value: str) -> str:
    """One segment of a path, whatever is in it."""
    if not value:
        raise ValueError("an empty id names nothing")
    return quote(value, safe="")


def object_of(answer: Answer) -> Mapping[str, Any]:
    """The answer's body, which is an object. Raises UnexpectedAnswer."""
    if not isinstance(answer.body, Mapping):
        raise UnexpectedAnswer(f"expected an object, got {type(answer.body).__name__}")
    return answer.body
