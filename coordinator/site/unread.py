"""Bodies that nobody read: a connection that is kept must be at the start of its next request.

An answer that is given before the body was read (who may not, which route, which method) leaves
the body on the connection. The server can't take the next request from there, so it closes the
connection — after an answer that did not say so, and the caller's next request is lost on it.
RFC 9112, 9.3 and 9.6: read the whole body, or announce the close.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

#: Of a body that was refused, what is read to keep the connection; it is as much as a body may have.
MOST_BYTES_READ: Final = 1024 * 1024
_PART: Final = 65_536

Headers = list[tuple[str, str]]
Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class Stream(Protocol):
    """A body as the server gives it. "No size" is not -1 for each of them: granian takes no negative number."""

    def read(self, size: int = ..., /) -> bytes: ...

    def readline(self, size: int = ..., /) -> bytes: ...


class CountedBody:
    """The stream of one body, and whether its end was seen."""

    def __init__(self, stream: Stream, declared: int | None) -> None:
        self._stream = stream
        self._left = declared  # bytes; None: chunked, it ends where it ends
        self.ended = declared == 0

    def read(self, size: int = -1, /) -> bytes:
        part = self._stream.read() if size < 0 else self._stream.read(size)
        return self._seen(part, asked=size)

    def readline(self, size: int = -1, /) -> bytes:
        line = self._stream.readline() if size < 0 else self._stream.readline(size)
        return self._seen(line, asked=size)

    def __iter__(self) -> "CountedBody":
        return self

    def __next__(self) -> bytes:
        if line := self.readline():
            return line
        raise StopIteration

    def readlines(self, _hint: int = -1, /) -> list[bytes]:
        return list(self)

    def drained(self) -> bool:
        """Whether the connection is at the end of this body, having read what was left of a small one."""
        if self._left is not None and self._left > MOST_BYTES_READ:
            return False
        budget = MOST_BYTES_READ
        while not self.ended and budget > 0:
            most = min(_PART, budget if self._left is None else self._left)
            budget -= len(self.read(most))
        return self.ended

    def _seen(self, part: bytes, *, asked: int) -> bytes:
        if self._left is not None:
            self._left -= len(part)
        if (not part and asked != 0) or self._left == 0:
            self.ended = True
        return part


class ReadsWhatIsLeft:
    """Stands before the whole application: no kept connection is left in the middle of a body.

    A stranger's body (401) is not waited for, nor one that is larger than MOST_BYTES_READ: those
    are told that the connection ends.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        declared = _declared(environ)
        if declared == 0:
            return self._application(environ, start_response)
        body = CountedBody(environ["wsgi.input"], declared)
        environ["wsgi.input"] = body

        def start(status: str, headers: Headers, *rest: Any) -> Any:
            if not body.ended and (status.startswith("401") or not body.drained()):
                headers = [*headers, ("Connection", "close")]
            return start_response(status, headers, *rest)

        return self._application(environ, start)


def _declared(environ: Environ) -> int | None:
    """How long the body says it is, in bytes; None where only its end will tell."""
    if "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return None
    try:
        return int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:  # the server takes no such request; nothing to read by
        return 0
