"""From bytes to a checked body: all that is wrong with it at once, each fault by its JSON pointer (contract 5)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import orjson
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from coordinator.outcomes import FieldError, Outcome, Refusal, invalid

from .problems import Fault, Problem, Refused
from .values import faults_beyond_json, pointer_of

#: A body with more faults than this is reported up to here.
MAX_ERRORS: Final = 100
MAX_ITEMS: Final = 100
B = TypeVar("B")
M = TypeVar("M", bound=BaseModel)

_PLAIN: Final = {
    "missing": "This field is required.",
    "extra_forbidden": "There is no such field; remove it or correct its name.",
}


@dataclass(frozen=True, slots=True)
class Parsed(Generic[B]):
    """A body that has the right shape. `document` is the same as plain JSON values."""

    body: B
    document: Any


def parse(raw: bytes, model: type[M]) -> Parsed[M]:
    """Check `raw` against `model`; raises Refused with every fault, or that the fence is missing."""
    document = load(raw)
    faults = list(islice(faults_beyond_json(raw, document), MAX_ERRORS))
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
    return invalid(*_unique([*faults, *map(field_error, details[:MAX_ERRORS])])[:MAX_ERRORS])


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


def _unique(errors: Sequence[FieldError]) -> list[FieldError]:
    return list({error.pointer: error for error in reversed(errors)}.values())[::-1]
