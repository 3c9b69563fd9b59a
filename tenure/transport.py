"""One request to the coordinator, sent until it is answered — or once, where a second arrival could act twice."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import httpx

from tenure import tracing
from tenure.address import base_url, bearer
from tenure.answers import decided, problem_in, retry_after_seconds, stranger
from tenure.errors import Problem, Throttled, UnexpectedAnswer, Unreachable
from tenure.retrying import Repeat, RetryPolicy

log = logging.getLogger("tenure")

CONTRACT = "claim.v1"
#: Answers of a proxy, or of a coordinator that goes down: nothing is known about the request.
_NOT_AN_ANSWER = frozenset({502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class Call:
    """What is sent, byte for byte the same on every try."""

    method: str
    path: str
    repeat: Repeat
    content: bytes | None = None
    stream: IO[bytes] | None = None
    stream_start: int = 0
    #: Where the answer's bytes go, instead of into memory.
    into: IO[bytes] | None = None
    into_start: int = 0
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A 2xx answer. `sent_at` is the monotonic clock before the try that was answered: count deadlines from it."""

    status: int
    body: Any
    headers: Mapping[str, str]
    sent_at: float
    tries: int


@dataclass(frozen=True, kw_only=True)
class _NoAnswer:
    cause: str
    retry_after_seconds: float | None = None
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class Retried:
    """A call that is about to be sent again: given to `on_retry`."""

    method: str
    path: str
    tries: int
    cause: str
    pause_seconds: float


class Transport:
    """Holds the connections. Safe to use from many threads at once."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_seconds: float = 15.0,
        retry: RetryPolicy | None = None,
        on_retry: Callable[[Retried], None] | None = None,
        connections: int = 20,
    ) -> None:
        self.url = base_url(url)
        self.retry = retry or RetryPolicy()
        self._on_retry = on_retry
        self._sent: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._http = httpx.Client(
            base_url=self.url,
            headers={
                "Authorization": f"Bearer {bearer(token)}",
                "X-Claim-Contract": CONTRACT,
                "Accept": "application/json",
            },
            timeout=httpx.Timeout(timeout_seconds, connect=min(5.0, timeout_seconds)),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # The token belongs to one address; following a redirect would carry it to another.
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    def close(self) -> None:
        """Close every connection; calls under way end as Unreachable."""
        self._http.close()

    @property
    def sent(self) -> Mapping[str, int]:
        """`{"requests": …, "retries": …}` since the start."""
        with self._counting:
            return dict(self._sent)

    def send(
        self, call: Call, *, retry: RetryPolicy | None = None, timeout_seconds: float | None = None
    ) -> Answer:
        """Send until answered. Raises Problem for a refusal, Unreachable when nobody answered in time."""
        policy = retry or self.retry
        began = time.monotonic()
        tries = 0
        while True:
            tries += 1
            result = self._send_once(call, tries, timeout_seconds)
            if isinstance(result, Answer):
                return result
            pause = None
            if call.repeat is not Repeat.NEVER and _rewound(call):
                elapsed = time.monotonic() - began
                pause = policy.pause_seconds(
                    tries=tries,
                    elapsed_seconds=elapsed,
                    retry_after_seconds=result.retry_after_seconds,
                )
            if pause is None and isinstance(result.problem, Throttled):
                raise result.problem
            if pause is None:
                raise Unreachable(
                    _unanswered(call, result.cause, tries),
                    tries=tries,
                    retry_after_seconds=result.retry_after_seconds,
                )
            self._report(
                Retried(
                    method=call.method,
                    path=call.path,
                    tries=tries,
                    cause=result.cause,
                    pause_seconds=pause,
                )
            )
            time.sleep(pause)

    def _send_once(
        self, call: Call, tries: int, timeout_seconds: float | None
    ) -> Answer | _NoAnswer:
        with tracing.span(call.method, outgoing=True, path=call.path, tries=tries):
            return self._send_now(call, tries, timeout_seconds)

    def _send_now(
        self, call: Call, tries: int, timeout_seconds: float | None
    ) -> Answer | _NoAnswer:
        sent_at = time.monotonic()
        self._count("requests")
        try:
            request = self._http.build_request(
                call.method,
                call.path,
                content=call.stream if call.stream is not None else call.content,
                params=dict(call.params) or None,
                headers={**call.headers, **tracing.carried()},
                timeout=httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds,
            )
            response = self._http.send(request, stream=call.into is not None)
            if call.into is not None:
                _receive(response, call.into)
        except httpx.RequestError as error:
            return _NoAnswer(
                cause=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            )
        except RuntimeError as error:
            # httpx says this when the client was closed under the call (a worker that stops).
            return _NoAnswer(cause=str(error))
        return self._read(call, response, sent_at, tries)

    def _read(
        self, call: Call, response: httpx.Response, sent_at: float, tries: int
    ) -> Answer | _NoAnswer:
        after = retry_after_seconds(response.headers.get("Retry-After"))
        problem = problem_in(response, after_seconds=after, tries=tries)
        if response.status_code == 429 or (
            response.status_code in _NOT_AN_ANSWER and not decided(problem)
        ):
            cause = f"HTTP {response.status_code}"
            return _NoAnswer(cause=cause, retry_after_seconds=after, problem=problem)
        if problem is not None:
            raise problem
        if not response.is_success:
            raise UnexpectedAnswer(stranger(call.method, call.path, response))
        body = None
        if call.into is None and response.content:
            try:
                body = response.json()
            except ValueError as error:
                raise UnexpectedAnswer(stranger(call.method, call.path, response)) from error
        return Answer(
            status=response.status_code,
            body=body,
            headers=response.headers,
            sent_at=sent_at,
            tries=tries,
        )

    def _report(self, retried: Retried) -> None:
        self._count("retries")
        log.debug(
            "%s %s: %s, again in %.2f s",
            retried.method,
            retried.path,
            retried.cause,
            retried.pause_seconds,
        )
        if self._on_retry is not None:
            self._on_retry(retried)

    def _count(self, name: str) -> None:
        with self._counting:
            self._sent[name] += 1


def json_bytes(body: Any) -> bytes:
    """A request body; the result of a task travels in its canonical form instead."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _rewound(call: Call) -> bool:
    """Whether it can be done again: a stream only when it can be read, or written, from its start."""
    for stream, start in ((call.stream, call.stream_start), (call.into, call.into_start)):
        if stream is None:
            continue
        if not stream.seekable():
            return False
        stream.seek(start)
        if stream is call.into:
            stream.truncate()
    return True


def _receive(response: httpx.Response, into: IO[bytes]) -> None:
    """A positive answer's bytes as they come; a refusal is read whole, it is small."""
    try:
        if response.is_success:
            for chunk in response.iter_bytes():
                into.write(chunk)
        else:
            response.read()
    finally:
        response.close()


def _unanswered(call: Call, cause: str, tries: int) -> str:
    if call.repeat is Repeat.NEVER:
        return f"{call.method} {call.path} got no answer ({cause}); not sent again, because it may have landed"
    return f"{call.method} {call.path} got no answer after {tries} tries ({cause})"
