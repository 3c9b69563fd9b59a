"""Pages by cursor: each starts after a row that was seen, however many rows came in between (contract 5).

A cursor names the last key of a page and the direction, so that the hundredth page costs what
the first one does. Filters travel in the URL, beside it.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar
from urllib.parse import urlencode

import orjson
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from coordinator.outcomes import FieldError

from .problems import Fault, Problem

R = TypeVar("R")
M = TypeVar("M", bound=Model)

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200


class PageQuery(BaseModel):
    """What every list takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cursor: Annotated[
        str | None, Field(max_length=500, description="From `next` or `previous` of another page.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    next: str | None
    previous: str | None
    results: Sequence[R]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: after `key`, or before it when going back."""

    key: int | str
    back: bool = False

    def encode(self) -> str:
        return base64.urlsafe_b64encode(orjson.dumps([self.key, self.back])).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Walk:
    """How a list is walked where its key alone does not say. Both are told whether keys descend.

    `order`: what to order by, where an index asks for more than the key. `end`: the last key that a page looks at
    which begins behind the one that is given, so that the page costs no more, whatever it finds; None for no bound.
    """

    order: Callable[[bool], Sequence[str]] | None = None
    end: Callable[[Any, bool], Any] | None = None


PLAIN: Final = Walk()


def page_of(
    request: HttpRequest,
    query: PageQuery,
    rows: QuerySet[M, Any],
    record: Callable[[Any], R],
    *,
    key: str,
    of: Callable[[Any], Any] | None = None,
    newest_first: bool = True,
    walk: Walk = PLAIN,
) -> Page[R]:
    """One page of `rows` in the order of `key`, a unique column; `of` gets a row's key, `record` makes its answer."""
    cursor = _decode(query.cursor) if query.cursor is not None else None
    back = cursor is not None and cursor.back
    descending = newest_first != back
    start = None if cursor is None else _checked(rows, key, cursor.key)
    end = walk.end(start, descending) if walk.end else None
    for side, bound in (
        (("lt", start), ("gte", end)) if descending else (("gt", start), ("lte", end))
    ):
        rows = rows if bound is None else rows.filter(**{f"{key}__{side}": bound})
    by = walk.order(descending) if walk.order else (("-" if descending else "") + key,)
    found = list(rows.order_by(*by)[: query.limit + 1])
    more = len(found) > query.limit
    found = found[: query.limit]
    key_of = of or (lambda row: getattr(row, key))
    #: Where the walk goes on, and where it came from.
    far = key_of(found[-1]) if more else end
    near = key_of(found[0]) if found and cursor is not None else None
    ahead, behind = (near, far) if back else (far, near)
    if back:
        found.reverse()
    return Page(
        next=None if ahead is None else _url(request, Cursor(_plain(ahead))),
        previous=None if behind is None else _url(request, Cursor(_plain(behind), back=True)),
        results=[record(row) for row in found],
    )


def whole(results: Sequence[R]) -> Page[R]:
    """A list that is bounded by its nature, as a single page."""
    return Page(None, None, results)


def _decode(text: str) -> Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        match orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True)):
            case [int() | str() as key, bool() as back] if not isinstance(key, bool):
                return Cursor(key, back)
    except (binascii.Error, ValueError):
        pass
    raise _bad_cursor()


def _checked(rows: QuerySet[Any, Any], key: str, value: int | str) -> Any:
    """The cursor's key as the column has it; a made-up one is a fault of the caller."""
    try:
        cleaned = rows.model._meta.get_field(key).to_python(value)
    except (ValidationError, TypeError, OverflowError):
        raise _bad_cursor() from None
    in_range = not isinstance(cleaned, int) or -(2**63) <= cleaned < 2**63
    if not in_range or (isinstance(cleaned, str) and "\x00" in cleaned):
        raise _bad_cursor()
    return cleaned


def _bad_cursor() -> Problem:
    return Problem(
        Fault.BAD_QUERY,
        "Start again without `cursor`, or follow `next` as it was given.",
        errors=(FieldError("/cursor", "It is none of ours."),),
    )


def _plain(key: Any) -> int | str:
    return key if isinstance(key, int) else str(key)


def _url(request: HttpRequest, cursor: Cursor) -> str:
    parameters = {**request.GET.dict(), "cursor": cursor.encode()}
    return request.build_absolute_uri(f"{request.path}?{urlencode(parameters)}")
