"""From bytes to a checked body: all that is wrong with it at once, each fault by its JSON pointer (contract 5)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import orjson
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, UnreadablePostError
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, from_json

from coordinator import digests
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid

from .problems import Fault, Problem, Refused

MAX_BODY_BYTES: Final = 1024 * 1024
#: A body with more faults than this is reported up to here.
MAX_ERRORS: Final = 100
MAX_ITEMS: Final = 100
B = TypeVar("B")
M = TypeVar("M", bound=BaseModel)
LARGEST_INTEGER: Final = 2**53 - 1

_LONG_DIGITS: Final = re.compile(rb"[0-9]{16}")
_PLAIN: Final = {
    "missing": "This field is required.",
    "extra_forbidden": "There is no such field; remove it or correct its name.",
}


@dataclass(frozen=True, slots=True)
class Parsed(Generic[B]):
    """A body that has the right shape. `document` is the same as plain JSON values."""

    body: B
    document: Any


def read_body(request: HttpRequest) -> bytes:
    """The raw body, of at most MAX_BODY_BYTES; raises Problem, without reading on, for a larger one."""
    if is_chunked(request):
        raw = _read_chunked(request)
    else:
        try:
            declared = int(request.META.get("CONTENT_LENGTH") or 0)
        except ValueError:
            raise Problem(Fault.UNREADABLE, "Content-Length is not a number.") from None
        if declared > MAX_BODY_BYTES:
            raise _too_large()
        try:
            raw = request.body
        except RequestDataTooBig:
            raise _too_large() from None
        except UnreadablePostError:
            raise Problem(
                Fault.UNREADABLE, "The connection ended before the whole body had come."
            ) from None
    if len(raw) > MAX_BODY_BYTES:
        raise _too_large()
    return raw


def is_chunked(request: HttpRequest) -> bool:
    return "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower()


def _read_chunked(request: HttpRequest) -> bytes:
    """Django reads no body without a Content-Length; the server has the chunks."""
    stream = request.META["wsgi.input"]
    parts, size = [], 0
    while size <= MAX_BODY_BYTES:
        part = stream.read(min(65_536, MAX_BODY_BYTES + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _too_large() -> Problem:
    return Problem(
        Fault.TOO_LARGE,
        f"A body may have {MAX_BODY_BYTES} bytes; a larger result is staged as a blob (PUT /attempts/{{id}}/blobs/…).",
    )


def parse(raw: bytes, model: type[M]) -> Parsed[M]:
    """Check `raw` against `model`; raises Refused with every fault, or that the fence is missing."""
    document = load(raw)
    faults = list(_beyond_json(raw, document))
    if not faults:
        try:
            return Parsed(model.model_validate_json(raw), document)
        except ValidationError as error:
            details = details_of(error)
    else:
        details = _shape_errors(document, model)
    raise Refused(refusal_of(faults, details))


def parse_items(
    raw: bytes, model: type[BaseModel], items: str, item: type[BaseModel]
) -> Parsed[list[Any]]:
    """As `parse` for a batch in the field `items`, but a fault of one item is only that item's answer.

    Items that are refused stand as Refusals in their places.
    """
    try:
        parsed = parse(raw, model)
        return Parsed(list(getattr(parsed.body, items)), parsed.document)
    except Refused:
        document = load(raw)
        listed = document.get(items) if isinstance(document, dict) and len(document) == 1 else None
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_ITEMS:
            raise  # wrong as a whole
        if not all(isinstance(each, dict) for each in listed):
            raise  # something in it is no item, not even a bad one
    return Parsed(
        [_parse_item(each, item, f"/{items}/{index}") for index, each in enumerate(listed)],
        document,
    )


def _parse_item(document: Any, model: type[BaseModel], pointer: str) -> BaseModel | Refusal:
    try:
        return parse(orjson.dumps(document), model).body
    except Refused as refused:
        refusal = refused.refusal
        errors = tuple(
            FieldError(pointer + error.pointer, error.detail) for error in refusal.errors
        )
        return replace(refusal, errors=errors)


def refusal_of(faults: Sequence[FieldError], details: Sequence[ErrorDetails]) -> Refusal:
    missing_fence = [detail for detail in details if _is_missing_fence(detail)]
    if missing_fence:
        return fence_missing(missing_fence)
    return invalid(*_unique([*faults, *map(field_error, details)])[:MAX_ERRORS])


def parse_query(request: HttpRequest, model: type[BaseModel] | None) -> Any:
    """The query string against its model; raises Problem for unknown, repeated and wrong parameters, all at once."""
    text = request.META.get("QUERY_STRING", "")
    if not text and model is None:
        return None
    given = request.GET
    faults = [
        FieldError(f"/{name}", "It stands there twice.")
        for name in given
        if len(given.getlist(name)) > 1
    ]
    faults += [
        FieldError(f"/{name}", "It has a NUL character.")
        for name in given
        if "\x00" in name + given[name]
    ]
    try:
        query = (model or NoQuery).model_validate(given.dict())
    except ValidationError as error:
        faults += [field_error(detail) for detail in details_of(error)]
    else:
        if not faults:
            return query
    raise Problem(
        Fault.BAD_QUERY,
        "See `errors`; each pointer names a parameter.",
        errors=tuple(_unique(faults)),
    )


class NoQuery(BaseModel):
    """For routes that have no parameters: a typo must not pass silently."""

    model_config = ConfigDict(extra="forbid")


def load(raw: bytes) -> Any:
    """The plain JSON values; raises Refused where it is no JSON, saying where it goes wrong."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Refused(
            invalid(FieldError("", f"The body is not well-formed JSON ({error.msg} at {where})."))
        ) from None


def _shape_errors(document: Any, model: type[BaseModel]) -> list[ErrorDetails]:
    """The model's own complaints about a body that has faults of JSON besides."""
    try:
        model.model_validate_json(orjson.dumps(document))
    except ValidationError as error:
        return [detail for detail in details_of(error) if detail["type"] != "json_invalid"]
    return []


def details_of(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def field_error(detail: ErrorDetails) -> FieldError:
    return FieldError(pointer_of(detail["loc"]), _PLAIN.get(detail["type"]) or f"{detail['msg']}.")


def _is_missing_fence(detail: ErrorDetails) -> bool:
    return detail["type"] == "missing" and "fence" in detail["loc"][:3]


def fence_missing(details: Sequence[ErrorDetails]) -> Refusal:
    return Refusal(
        Outcome.FENCE_MISSING,
        "Send the claim's `fence` back unchanged, with all of its fields.",
        errors=tuple(field_error(detail) for detail in details),
    )


def pointer_of(loc: Sequence[int | str]) -> str:
    """RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in loc)


def _unique(errors: Sequence[FieldError]) -> list[FieldError]:
    return list({error.pointer: error for error in reversed(errors)}.values())[::-1]


def _beyond_json(raw: bytes, document: Any) -> Iterator[FieldError]:
    """Faults of values that JSON allows and the contract doesn't: NUL, deep nesting, integers beyond 2^53 - 1.

    The bytes tell cheaply that there is none; only where they don't, the values are looked through.
    """
    brackets = raw.count(b"{") + raw.count(b"[")
    if brackets > digests.MAX_DEPTH and _depth(document) > digests.MAX_DEPTH:
        yield from _walk(document)
    elif b"\\u0000" in raw or _LONG_DIGITS.search(raw):
        # orjson makes floats of integers that need more than 64 bits; this one keeps them.
        yield from _walk(from_json(raw))


def _depth(document: Any) -> int:
    depth, level = 0, [document]
    while level and depth <= digests.MAX_DEPTH:
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        depth += 1
    return depth


def _walk(document: Any) -> Iterator[FieldError]:
    waiting: list[tuple[tuple[int | str, ...], Any]] = [((), document)]
    while waiting:
        path, node = waiting.pop()
        match node:
            case dict() | list() if len(path) >= digests.MAX_DEPTH:
                yield FieldError(
                    pointer_of(path), f"Nested deeper than {digests.MAX_DEPTH} levels; flatten it."
                )
            case dict():
                for key, value in reversed(node.items()):
                    if "\x00" in key:
                        yield FieldError(pointer_of(path), "A name has a NUL character; remove it.")
                    waiting.append(((*path, key), value))
            case list():
                waiting += [
                    ((*path, index), value) for index, value in reversed(list(enumerate(node)))
                ]
            case str() if "\x00" in node:
                yield FieldError(pointer_of(path), "The text has a NUL character; remove it.")
            case int() if abs(node) > LARGEST_INTEGER:
                yield FieldError(
                    pointer_of(path),
                    "Integers go up to ±(2^53 - 1) here; send a larger one as a string.",
                )
