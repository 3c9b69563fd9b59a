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


def page_of(
    request: HttpRequest,
    query: PageQuery,
    rows: QuerySet[M, Any],
    record: Callable[[Any], R],
    *,
    key: str,
    of: Callable[[Any], Any] | None = None,
    newest_first: bool = True,
    order: Callable[[bool], Sequence[str]] | None = None,
) -> Page[R]:
    """One page of `rows` in the order of `key`, a unique column; `of` gets a row's key, `record` makes its answer.

    `order` says, for descending keys or not, what to order by, where an index asks for more than the key's name.
    """
    cursor = _decode(query.cursor) if query.cursor is not None else None
    descending = newest_first != (cursor is not None and cursor.back)
    if cursor is not None:
        rows = rows.filter(
            **{f"{key}__{'lt' if descending else 'gt'}": _checked(rows, key, cursor.key)}
        )
    by = order(descending) if order else (("-" if descending else "") + key,)
    found = list(rows.order_by(*by)[: query.limit + 1])
    more = len(found) > query.limit
    found = found[: query.limit]
    back = cursor is not None and cursor.back
    if back:
        found.reverse()
    key_of = of or (lambda row: getattr(row, key))
    has_next = bool(found) and (back or more)
    has_previous = bool(found) and (more if back else cursor is not None)
    return Page(
        next=_url(request, Cursor(_plain(key_of(found[-1])))) if has_next else None,
        previous=_url(request, Cursor(_plain(key_of(found[0])), back=True))
        if has_previous
        else None,
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
