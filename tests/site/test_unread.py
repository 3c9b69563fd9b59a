"""A kept connection is at the start of its next request, whatever the answer before was."""

import io
from collections.abc import Iterable, Iterator
from http.client import HTTPConnection
from select import select
from typing import Any
from urllib.parse import urlsplit

import pytest

from coordinator.site.unread import MOST_BYTES_READ, CountedBody, ReadsWhatIsLeft
from tests import world
from tests.sdk.conftest import Site, served
from tests.sdk.served import Served

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["served"]

CLAIMS = "/api/v1/queues/q/claims"
#: Long enough for a server to answer in, where it doesn't wait for the body.
PAUSE_SECONDS = 0.5
BODY = b'{"scheduler_epoch": 1, "owner": "w"}'


@pytest.fixture
def site(served: Served, transactional_db: None) -> Site:
    world.queue(name="q")
    made = Site(served.url, "q", "")
    made.token = made.token_for("submit")  # it may not claim
    return made


class Kept:
    """One connection that is never made anew, and a client that sends a body after its head, as most do."""

    def __init__(self, site: Site) -> None:
        self._token = site.token
        self._http = HTTPConnection(urlsplit(site.url).netloc, timeout=30)
        self._http.connect()
        self._http.auto_open = 0

    def post(
        self, body: Iterable[bytes], path: str = CLAIMS, **headers: Any
    ) -> tuple[int, str | None]:
        """The status, and what the answer says of the connection."""
        sent = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Content-Length": str(len(BODY)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        self._http.putrequest("POST", path)
        for name, value in sent.items():
            if value is not None:
                self._http.putheader(name, value)
        self._http.endheaders()
        for part in body:
            select(
                [self._http.sock], [], [], PAUSE_SECONDS
            )  # until the server has had its say, if it has
            self._http.send(part)
        answer = self._http.getresponse()
        answer.read()
        return answer.status, answer.getheader("Connection")

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def kept(site: Site) -> Iterator[Kept]:
    made = Kept(site)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, 403),
        ({"path": "/api/v1/nowhere"}, 404),
        ({"path": "/api/v1/coverage"}, 405),
        ({"path": "/api/v1/runs"}, 400),  # without a key
        ({"path": "/api/v1/runs", "Content_Type": "text/plain", "Idempotency_Key": "k" * 16}, 415),
        ({"path": "/nowhere"}, 404),
    ],
)
def test_whoever_was_refused_asks_again_on_the_same_connection(
    kept: Kept, asked: dict[str, Any], status: int
) -> None:
    for _ in range(2):
        assert kept.post([BODY], **asked) == (status, None)


def test_a_refused_body_in_chunks_is_read_to_its_end(kept: Kept) -> None:
    body = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"
    for _ in range(2):
        sent = kept.post([body], Content_Length=None, Transfer_Encoding="chunked")
        assert sent == (403, None)


def test_a_strangers_body_is_not_waited_for_and_the_end_is_announced(kept: Kept) -> None:
    assert kept.post([], Authorization="Bearer tnr_w_nobody", Content_Length="1000000") == (
        401,
        "close",
    )


def test_a_body_that_is_too_large_is_not_read_and_the_end_is_announced(kept: Kept) -> None:
    assert kept.post([], Content_Length=str(MOST_BYTES_READ + 1)) == (403, "close")


def answered(body: Any, environ: dict[str, Any], *, reads: int = 0) -> dict[str, str]:
    """The headers of an answer by an application that reads so many bytes of the body."""
    told: dict[str, str] = {}

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        environ["wsgi.input"].read(reads)
        start("403 Forbidden", [("Content-Length", "0")])
        return []

    def start_response(_status: str, headers: list[tuple[str, str]], *_: Any) -> None:
        told.update(headers)

    ReadsWhatIsLeft(application)(environ | {"wsgi.input": body}, start_response)
    return told


def test_an_endless_body_is_read_up_to_the_limit_and_no_further() -> None:
    class Endless:
        read_bytes = 0

        def read(self, size: int = 1) -> bytes:
            self.read_bytes += size
            return b"x" * size

    body = Endless()
    assert answered(body, {"HTTP_TRANSFER_ENCODING": "chunked"})["Connection"] == "close"
    assert body.read_bytes == MOST_BYTES_READ


def test_what_the_application_read_is_not_asked_for_again() -> None:
    body = io.BytesIO(b"a" * 10 + b"the next request")
    assert "Connection" not in answered(body, {"CONTENT_LENGTH": "10"}, reads=4)
    assert body.tell() == 10


def test_a_body_is_read_by_lines_as_well() -> None:
    body = CountedBody(io.BytesIO(b"a\nb\nc"), 5)
    assert body.readline() == b"a\n"
    assert not body.ended
    assert body.readlines() == [b"b\n", b"c"]
    assert body.ended
