"""The raw bytes of a body: bounded, and complete (contract 5)."""

from typing import Final

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, UnreadablePostError

from .problems import Fault, Problem

MAX_BODY_BYTES: Final = 1024 * 1024


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
