"""What every view of the API shares: identify → allow → parse → call the service → render.

The views are DRF's, so that its schema tools see them, with a dispatch of our own: negotiation,
wrapped requests and serializers cost 0.4 ms a request, as much as a claim's transaction, and
decide nothing here.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import orjson
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from psycopg.errors import QueryCanceled
from pydantic import BaseModel
from rest_framework.views import APIView

from coordinator import digests
from coordinator.access import Operation, may
from coordinator.actors import Operator, Worker
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.answers import RequestKey
from coordinator.services.refused_callers import record_forbidden
from coordinator.standing import CallerChanged

from .callers import identify
from .masking import told_to
from .parsing import Parsed, parse, parse_items, parse_query
from .problems import Fault, Problem, Refused, render_problem, render_refusal
from .reading import read_body
from .telling import tell_answer, tell_body, tell_call

log = logging.getLogger(__name__)

B = TypeVar("B")

KEY_LENGTH: Final = (16, 255)
#: Statuses whose answers have no body to speak of.
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A positive answer that needs another status than its operation's, or headers."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of an operation before it is asked for; the schema is made of the same."""

    operation: Operation
    summary: str
    body: type[BaseModel] | None
    answer: Any
    status: int
    keyed: bool
    refusals: tuple[Outcome, ...]
    query: type[BaseModel] | None
    items: tuple[str, type[BaseModel]] | None  # of a batch: the field, and what stands in it
    raw: bool  # the body is a stream of bytes, which the view reads itself
    confirms: bool  # the service confirms a remembered caller in its own transaction


@dataclass(slots=True)
class Call(Generic[B]):
    """One request that may go on: who, what, and under which key."""

    request: HttpRequest
    caller: Worker | Operator
    body: B
    query: Any = None
    document: Any = None
    key: str = ""
    route: str = ""

    @property
    def worker(self) -> Worker:
        assert isinstance(self.caller, Worker), "the operation is closed to people"
        return self.caller

    def request_key(self, *, owner: str = "") -> RequestKey:
        """The Idempotency-Key in its scope (caller, owner, route), with the digest of the body (contract 5)."""
        document = orjson.dumps(self.document, option=orjson.OPT_SORT_KEYS)
        scope = f"{self.caller.kind}:{self.caller.id}:{owner}:{self.route}"
        return RequestKey(scope, self.key, digests.sha256(document))


View = Callable[..., Any]


def operation(
    which: Operation,
    summary: str,
    *,
    answer: Any,
    body: type[BaseModel] | None = None,
    status: int = 200,
    keyed: bool = False,
    refusals: Sequence[Outcome] = (),
    query: type[BaseModel] | None = None,
    items: tuple[str, type[BaseModel]] | None = None,
    raw: bool = False,
    confirms: bool = False,
) -> Callable[[View], View]:
    """Say what a method of an Endpoint does. The method gets a Call and the path's parts."""

    def mark(view: View) -> View:
        view.spec = Spec(  # type: ignore[attr-defined]
            which,
            summary,
            body,
            answer,
            status,
            keyed,
            tuple(refusals),
            query,
            items,
            raw,
            confirms,
        )
        return view

    return mark


class Endpoint(APIView):
    """One route. Its methods are named after HTTP's and marked with `operation`."""

    authentication_classes = ()  # `identify` does it
    permission_classes = ()  # `access.may` does it

    def dispatch(self, request: HttpRequest, *args: Any, **path: str) -> HttpResponseBase:
        return self.guarded(request, lambda: self._respond(request, path))

    def guarded(
        self, request: HttpRequest, respond: Callable[[], HttpResponseBase]
    ) -> HttpResponseBase:
        """What `respond` answers; whatever it raises is a problem in the API's words."""
        try:
            response = respond()
        except Problem as problem:
            return render_problem(problem)
        except Refused as refused:
            return render_refusal(refused.refusal)
        except (OperationalError, InterfaceError) as error:
            return unavailable(request, error)
        except Exception as error:  # noqa: BLE001 (nothing may leave as a page of HTML)
            return failed(request, error)
        response["Cache-Control"] = "no-store"
        return response

    def _respond(self, request: HttpRequest, path: dict[str, str]) -> HttpResponseBase:
        view, spec = self._view_of(request)
        caller = identify(request, remembered=spec.confirms)
        if not _is_remembered(caller):
            return render(_hear(_Asked(request, view, spec, path), caller), spec.status)
        return self._hear_remembered(_Asked(request, view, spec, path), caller)

    def _hear_remembered(self, asked: "_Asked", caller: Worker | Operator) -> HttpResponseBase:
        """As the service confirms the caller; what it did not come to is told only to who is still the same."""
        try:
            answer = _hear(asked, caller)
        except CallerChanged:
            answer = _hear(asked, identify(asked.request))
        except (Problem, Refused):
            fresh = identify(asked.request)
            if fresh == _without_standing(caller):
                raise
            answer = _hear(asked, fresh)
        else:
            if isinstance(answer, Refusal):
                identify(asked.request)
        return render(answer, asked.spec.status)

    def _view_of(self, request: HttpRequest) -> tuple[View, Spec]:
        method = (request.method or "").lower()
        view = getattr(self, "get" if method == "head" else method, None)
        spec: Spec | None = getattr(view, "spec", None)
        if view is None or spec is None:
            allowed = ", ".join(self.methods)
            raise Problem(
                Fault.METHOD, f"This route answers to {allowed}.", headers={"Allow": allowed}
            )
        return view, spec

    @cached_property
    def methods(self) -> list[str]:
        names = [
            name for name in self.http_method_names if hasattr(getattr(self, name, None), "spec")
        ]
        return [name.upper() for name in names] + (["HEAD"] if "get" in names else [])


@dataclass(slots=True)
class _Asked:
    """A request with what it goes to. Its body is read once, also where the call is heard again."""

    request: HttpRequest
    view: View
    spec: Spec
    path: dict[str, str]
    parsed: Parsed[Any] | None = None

    def parse(self) -> Parsed[Any] | None:
        if self.parsed is None and self.spec.body is not None:
            _require_json(self.request)
            raw = read_body(self.request)
            if self.spec.items is None:
                self.parsed = parse(raw, self.spec.body)
            else:
                self.parsed = parse_items(raw, self.spec.body, *self.spec.items)
        return self.parsed


def _hear(asked: _Asked, caller: Worker | Operator) -> Any:
    """What the view answers to the caller. Raises CallerChanged where nothing has happened yet."""
    request, spec, path = asked.request, asked.spec, asked.path
    tell_call(spec.operation, caller, path)
    if not may(caller, spec.operation):
        if _is_remembered(caller):
            raise CallerChanged
        return _forbidden(request, caller, spec.operation)
    call: Call[Any] = Call(request, caller, None)
    if spec.keyed:
        call.key = _idempotency_key(request)
        call.route = ":".join((spec.operation, *path.values()))
    call.query = parse_query(request, spec.query)
    parsed = asked.parse()
    if parsed is not None:
        call.body, call.document = parsed.body, parsed.document
        tell_body(parsed.body)
    answer = told_to(caller, spec.operation, asked.view(call, **path))
    tell_answer(answer)
    return answer


def _is_remembered(caller: Worker | Operator) -> bool:
    return isinstance(caller, Worker) and caller.standing is not None


def _without_standing(caller: Worker | Operator) -> Worker | Operator:
    return replace(caller, standing=None) if isinstance(caller, Worker) else caller


def render(answer: Any, status: int) -> HttpResponseBase:
    """A service's answer as HTTP. Refusals go through the one table."""
    match answer:
        case Refusal():
            return render_refusal(answer)
        case HttpResponseBase():
            return answer
        case Answer():
            response = HttpResponse(encode(answer.body), content_type=JSON, status=answer.status)
            for name, value in answer.headers.items():
                response[name] = value
            return response
        case _:
            return HttpResponse(encode(answer), content_type=JSON, status=status)


def encode(answer: Any) -> bytes:
    """Frozen dataclasses, UUIDs, instants and stored JSON text, all by orjson itself."""
    return orjson.dumps(answer, default=_plain, option=orjson.OPT_UTC_Z)


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _forbidden(request: HttpRequest, caller: Worker | Operator, wanted: Operation) -> Refusal:
    """Who may not is told so, and whoever tried to change something is on record."""
    kind = "This credential's scopes don't" if isinstance(caller, Worker) else "Your role doesn't"
    refusal = Refusal(Outcome.FORBIDDEN, f"{kind} include `{wanted}`.")
    if request.method not in ("GET", "HEAD"):
        record_forbidden(refusal=refusal, operation=wanted, target=request.path, actor=caller)
    return refusal


def _idempotency_key(request: HttpRequest) -> str:
    key: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if not key:
        raise Problem(
            Fault.KEY_MISSING,
            "Send an `Idempotency-Key`: a lost answer is asked for again under the same.",
        )
    shortest, longest = KEY_LENGTH
    if not (shortest <= len(key) <= longest and key.isascii() and key.isprintable()):
        raise Problem(Fault.KEY_INVALID, f"The key has {len(key)} characters; a UUID does well.")
    return key


def _require_json(request: HttpRequest) -> None:
    if request.content_type != JSON:
        raise Problem(
            Fault.MEDIA_TYPE,
            f"Send `Content-Type: {JSON}`, not {request.content_type or 'nothing'}.",
        )


def unavailable(request: HttpRequest, error: DatabaseError | InterfaceError) -> HttpResponse:
    """No connection, or it took too long (locks, statements, the pool): the same request may succeed soon.

    A list that leads through too much does not: whoever reads is told what makes it shorter.
    """
    cause = error.__cause__ or error
    log.warning("database unavailable", extra={"cause": type(cause).__name__})
    told = "The database can't be reached or is too busy; send the same request again."
    if isinstance(cause, QueryCanceled) and request.method in ("GET", "HEAD"):
        told = "The database did not get through it in time. Narrow it (queue, state, run, task), or send it again."
    return render_problem(
        Problem(Fault.UNAVAILABLE, told), request_id=getattr(request, "request_id", "")
    )


def failed(request: HttpRequest, error: Exception) -> HttpResponse:
    """A bug. The answer tells nothing of it but the id under which the log has it."""
    log.error("request failed", exc_info=error)
    return render_problem(
        Problem(
            Fault.INTERNAL,
            "This is a fault of the coordinator; its log has it under the request id.",
        ),
        request_id=getattr(request, "request_id", ""),
    )
