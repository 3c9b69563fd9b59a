"""JSON Schemas of what the API takes and answers, made of the very types that check and render it.

Bodies are pydantic's. Answers are the services' frozen dataclasses, whose annotations are read
here: they render as they stand, so that nothing else could be right.
"""

import dataclasses
import inspect
import types
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import orjson
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

REF: Final = "#/components/schemas/{model}"
Shape = dict[str, Any]
Components = dict[str, Shape]

#: Members that are left out where the caller may not see payloads.
_SOMETIMES: Final = frozenset({("TaskRecord", "input")})

_PLAIN: Final[dict[Any, Shape]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    UUID: {"type": "string", "format": "uuid"},
    datetime: {"type": "string", "format": "date-time"},
    bytes: {"type": "string", "format": "binary"},
    orjson.Fragment: {"description": "Any JSON value."},
    Any: {"description": "Any JSON value."},
}


def body_shape(model: type[BaseModel], components: Components) -> Shape:
    """The schema of a body; the models that it is made of become components."""
    _, told = models_json_schema([(model, "validation")], ref_template=REF)
    for name, shape in told.get("$defs", {}).items():
        components[name] = _cleaned(shape)
    return {"$ref": REF.format(model=model.__name__)}


def query_parameters(model: type[BaseModel]) -> list[Shape]:
    """The query parameters of a list; enums stand in place."""
    told = model.model_json_schema()
    named = told.get("$defs", {})
    parameters = []
    for name, shape in told["properties"].items():
        shape = dict(shape)  # noqa: PLW2901 (the model's own must stay)
        description = shape.pop("description", "")
        options = [each for each in shape.get("anyOf", [shape]) if each.get("type") != "null"]
        wanted = {
            key: value for key, value in options[0].items() if key not in ("title", "description")
        }
        if "$ref" in wanted:
            wanted = _cleaned(named[wanted["$ref"].rsplit("/", 1)[-1]])
        if "default" in shape and shape["default"] is not None:
            wanted["default"] = shape["default"]
        parameters.append(
            {"in": "query", "name": name, "schema": wanted}
            | ({"description": description} if description else {})
        )
    return parameters


def answer_shape(
    annotation: Any, components: Components, bound: Mapping[Any, Any] | None = None
) -> Shape:
    """The schema of an answer; dataclasses and enums become components."""
    if isinstance(annotation, TypeVar):
        return answer_shape((bound or {})[annotation], components)
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _union([answer_shape(each, components, bound) for each in arguments])
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            return {
                "type": "object",
                "additionalProperties": answer_shape(arguments[1], components, bound),
            }
        if dataclasses.is_dataclass(origin):
            return _dataclass(origin, components, arguments)
        return {"type": "array", "items": answer_shape(arguments[0], components, bound)}
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        components[annotation.__name__] = {
            "type": "string",
            "enum": [each.value for each in annotation],
        }
        return {"$ref": REF.format(model=annotation.__name__)}
    assert isinstance(annotation, type), annotation
    assert dataclasses.is_dataclass(annotation), annotation
    return _dataclass(annotation, components, ())


def _dataclass(kind: type, components: Components, arguments: tuple[Any, ...]) -> Shape:
    name = kind.__name__ + "".join(argument.__name__ for argument in arguments)
    if name not in components:
        components[name] = {}  # stands already where it is met within itself
        bound = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=True))
        hints = get_type_hints(kind)
        fields = dataclasses.fields(kind)
        components[name] = {
            "type": "object",
            "properties": {
                field.name: _member(field, hints[field.name], components, bound) for field in fields
            },
            "required": [field.name for field in fields if (name, field.name) not in _SOMETIMES],
        } | _described(kind)
    return {"$ref": REF.format(model=name)}


def _member(
    field: "dataclasses.Field[Any]", hint: Any, components: Components, bound: Mapping[Any, Any]
) -> Shape:
    if field.name == "outcome" and isinstance(field.default, str):
        return {"type": "string", "const": field.default}
    return answer_shape(hint, components, bound)


def _described(kind: type) -> Shape:
    doc = inspect.getdoc(kind) or ""
    return (
        {}
        if not doc or doc.startswith(f"{kind.__name__}(")
        else {"description": doc.replace("\n", " ")}
    )


def _union(shapes: list[Shape]) -> Shape:
    simple = [shape for shape in shapes if set(shape) == {"type"}]
    if len(simple) == len(shapes):
        return {"type": [shape["type"] for shape in shapes]}
    return {"anyOf": shapes}


def _cleaned(shape: Any) -> Any:
    """Without pydantic's titles, which only repeat the names."""
    if isinstance(shape, dict):
        kept = {
            key: value
            for key, value in shape.items()
            if not (key == "title" and isinstance(value, str))
        }
        return {key: _cleaned(value) for key, value in kept.items()}
    return [_cleaned(each) for each in shape] if isinstance(shape, list) else shape
