"""The OpenAPI 3.1 schema: each operation as its view declares it, nothing guessed (contract 5)."""

from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import orjson
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from coordinator.access import RULES, Operation
from coordinator.outcomes import Outcome, Reason, Retry

from .endpoint import KEY_LENGTH, Spec
from .problems import CONTENT_TYPE, FAULTS, OUTCOMES, Fault
from .shapes import REF, Components, Shape, answer_shape, body_shape, query_parameters

JSON: Final = "application/json"
#: Answers that are no JSON.
_MEDIA: Final[dict[type, str]] = {bytes: "application/octet-stream", str: "text/plain"}
HEADERS: Final[Shape] = {
    "X-Request-Id": {
        "description": "Names this request in the logs and in the events that it made.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Cache-Control": {"required": True, "schema": {"type": "string", "const": "no-store"}},
    "Retry-After": {"description": "Seconds.", "schema": {"type": "string", "pattern": "^[0-9]+$"}},
    "WWW-Authenticate": {"schema": {"type": "string"}},
    "ETag": {"description": "The state version, quoted.", "schema": {"type": "string"}},
}


def _headers(*names: str) -> Shape:
    return {
        name: {"$ref": f"#/components/headers/{name}"}
        for name in ("X-Request-Id", "Cache-Control", *names)
    }


_PATH_PARTS: Final = {
    "task_id": {"type": "string", "format": "uuid"},
    "run_id": {"type": "string", "format": "uuid"},
    "attempt_id": {"type": "string", "format": "uuid"},
    "credential_id": {"type": "string", "format": "uuid"},
    "incident_id": {"type": "string", "format": "uuid"},
}

PROBLEM: Final[Shape] = {
    "type": "object",
    "description": "A refusal (RFC 9457) with the contract's own members. Some outcomes have further members.",
    "required": ["type", "title", "status", "detail", "retry", "evidence_recorded"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "outcome": {"type": "string", "enum": [each.value for each in Outcome]},
        "reason": {"type": ["string", "null"], "enum": [*(each.value for each in Reason), None]},
        "retry": {
            "type": "string",
            "enum": [each.value for each in Retry],
            "description": "`same`: send the same request again. `reclaim`: this attempt is over, claim anew. "
            "`after`: it may succeed once something has changed. `never`: it will not.",
        },
        "evidence_recorded": {"type": "boolean", "description": "The refusal is kept as an event."},
        "current": {
            "type": "object",
            "description": "The counters as they stand, for whoever owns the attempt.",
            "additionalProperties": {"type": "integer"},
        },
        "task_state": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "description": "Every fault at once.",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {
                    "pointer": {
                        "type": "string",
                        "description": "JSON pointer (RFC 6901) into the request.",
                    },
                    "detail": {"type": "string"},
                },
            },
        },
    },
}
SECURITY: Final[Shape] = {
    "worker": {
        "type": "http",
        "scheme": "bearer",
        "description": "A worker credential's token, `tnr_w_…`.",
    },
    "operator": {"type": "http", "scheme": "bearer", "description": "A person's token, `tnr_o_…`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "tenure_session",
        "description": "Signed in by browser; writes also send `X-CSRFToken`.",
    },
}


class OperationSchema(AutoSchema):
    """Says what an Endpoint declared of the method; everything else of the generator stays as it is."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> Shape | None:
        del path_regex, path_prefix
        spec: Spec | None = getattr(getattr(self.view, method.lower()), "spec", None)
        if spec is None:
            return None
        components: Components = registry.__dict__.setdefault("tenure_components", {})
        told: Shape = {
            "operationId": spec.operation.value,
            "summary": spec.summary,
            "description": _who(spec.operation),
            "tags": [path.removeprefix("/api/v1/").split("/")[0]],
            "parameters": [*_path_parameters(path), *_parameters(spec)],
            "security": _security(spec.operation),
            "responses": _responses(spec, components),
        }
        if spec.body is not None:
            content = {JSON: {"schema": body_shape(spec.body, components)}}
            told["requestBody"] = {"required": True, "content": content}
        elif spec.raw:
            content = {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            }
            told["requestBody"] = {"required": True, "content": content}
        return told


def add_components(result: Shape, generator: SchemaGenerator, **_rest: Any) -> Shape:
    """The last step of the generator: the schemas that the operations referred to, and how one signs in."""
    collected: Components = generator.registry.__dict__.get("tenure_components", {})
    result["components"] = {
        "schemas": dict(sorted({**collected, "Problem": PROBLEM}.items())),
        "headers": HEADERS,
        "securitySchemes": SECURITY,
    }
    return result


@cache
def schema_bytes() -> bytes:
    """The schema as it is served and written to docs/openapi.json; made once a process."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE, default=str)


def _who(operation: Operation) -> str:
    rule = RULES[operation]
    workers = " or ".join(f"`{scope}`" for scope in sorted(rule.scopes))
    parts = [f"workers with the scope {workers}"] if workers else []
    parts += [f"people with the permission `{rule.permission}`"] if rule.permission else []
    return f"Open to {' and '.join(parts)}."


def _security(operation: Operation) -> list[Shape]:
    rule = RULES[operation]
    ways: list[Shape] = [{"worker": sorted(rule.scopes)}] if rule.scopes else []
    if rule.permission:
        ways += [{"operator": [rule.permission]}, {"session": [rule.permission]}]
    return ways


def _path_parameters(path: str) -> list[Shape]:
    names = [part.split("}")[0] for part in path.split("{")[1:]]
    plain = {"type": "string", "minLength": 1}
    return [
        {"in": "path", "name": name, "required": True, "schema": _PATH_PARTS.get(name, plain)}
        for name in names
    ]


def _parameters(spec: Spec) -> list[Shape]:
    told = query_parameters(spec.query) if spec.query else []
    if spec.keyed:
        shortest, longest = KEY_LENGTH
        key = {"type": "string", "minLength": shortest, "maxLength": longest, "pattern": "^[!-~]+$"}
        why = "Names this logical request: sent again under the same key, it gets the same answer."
        told.append(
            {
                "in": "header",
                "name": "Idempotency-Key",
                "required": True,
                "schema": key,
                "description": why,
            }
        )
    if spec.operation in (Operation.CLAIM_TASK, Operation.CLAIM_TASKS):
        why = "The contract that this worker's binary knows; compared with the pool's minimum."
        contract = {"type": "string", "examples": ["claim.v1"]}
        told.append(
            {"in": "header", "name": "X-Claim-Contract", "schema": contract, "description": why}
        )
    if spec.operation is Operation.PUT_BLOB:
        why = "The claim's `fence`, as JSON."
        fence = {JSON: {"schema": {"$ref": REF.format(model="FenceBody")}}}
        told.append(
            {
                "in": "header",
                "name": "Claim-Fence",
                "required": True,
                "content": fence,
                "description": why,
            }
        )
    if spec.operation is Operation.READ_TASK:
        told.append({"in": "header", "name": "If-None-Match", "schema": {"type": "string"}})
    return told


def _responses(spec: Spec, components: Components) -> Shape:
    answer = answer_shape(spec.answer, components)
    media = _MEDIA.get(spec.answer, JSON) if isinstance(spec.answer, type) else JSON
    headers = _headers(
        *(["ETag"] if spec.operation in (Operation.READ_TASK, Operation.SUBMIT_TASK) else [])
    )
    told: Shape = {
        str(spec.status): {
            "description": HTTPStatus(spec.status).phrase,
            "headers": headers,
            "content": {media: {"schema": answer}},
        }
    }
    if spec.operation is Operation.REPORT_INCIDENT:
        told[str(spec.status)]["content"]["text/markdown"] = {"schema": {"type": "string"}}
    if spec.operation is Operation.READ_TASK:
        told["304"] = {"description": "Unchanged since the ETag that was sent.", "headers": headers}
    told |= {
        str(status): _problem(status, titles) for status, titles in sorted(_refusals(spec).items())
    }
    return told


def _refusals(spec: Spec) -> dict[int, list[str]]:
    """The statuses that the operation may be refused with, and what each stands for."""
    faults = [
        Fault.TOKEN_IN_URL,
        Fault.BAD_QUERY,
        Fault.UNAUTHENTICATED,
        Fault.THROTTLED,
        Fault.INTERNAL,
    ]
    faults.append(Fault.UNAVAILABLE)
    outcomes = {Outcome.FORBIDDEN, Outcome.NOT_FOUND, *spec.refusals}
    if spec.keyed:
        faults += [Fault.KEY_MISSING, Fault.KEY_INVALID]
        outcomes.add(Outcome.IDEMPOTENCY_CONFLICT)
    if spec.body is not None:
        faults += [Fault.TOO_LARGE, Fault.MEDIA_TYPE]
        outcomes.add(Outcome.INVALID)
        if "fence" in spec.body.model_fields:
            outcomes.add(Outcome.FENCE_MISSING)
    if spec.raw:
        faults += [Fault.TOO_LARGE, Fault.LENGTH, Fault.BAD_HEADER, Fault.UNREADABLE]
        outcomes.add(Outcome.FENCE_MISSING)
    told: dict[int, list[str]] = {}
    for kind, name in [
        *((OUTCOMES[outcome], outcome.value) for outcome in sorted(outcomes)),
        *((FAULTS[fault], fault.value) for fault in faults),
    ]:
        told.setdefault(kind.status, []).append(f"`{name}`: {kind.title}.")
    return told


def _problem(status: int, titles: Iterable[str]) -> Shape:
    extra = ["WWW-Authenticate"] if status == HTTPStatus.UNAUTHORIZED else []
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        extra = ["Retry-After"]
    return {
        "description": " ".join(titles),
        "headers": _headers(*extra),
        "content": {CONTENT_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}},
    }
