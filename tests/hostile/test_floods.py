"""Connections and heads by the hundred: whoever floods the door keeps nobody else out."""

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from coordinator.site.web import connections, raise_file_limit
from tests.sdk.conftest import served
from tests.sdk.served import Served

__all__ = ["served"]

pytestmark = pytest.mark.django_db(transaction=True)

HEALTH = "/api/v1/healthz"
#: More than granian takes if it isn't told otherwise: a connection for each agent of a fleet, idle most of the time.
KEPT = 600


class Many:
    """Connections that stay open, as many as asked for."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 0)
        self.open: list[socket.socket] = []

    def one(self) -> socket.socket:
        made = socket.create_connection(self._to, timeout=30)
        self.open.append(made)
        return made

    def close(self) -> None:
        for each in self.open:
            each.close()


@pytest.fixture
def many(served: Served, transactional_db: None) -> Iterator[Many]:
    raise_file_limit()
    made = Many(served.url)
    yield made
    made.close()


def is_served(served: Served) -> bool:
    return httpx.get(f"{served.url}{HEALTH}", timeout=30).status_code == 200


def test_the_connections_that_a_fleet_keeps_open_leave_room_for_the_next(
    served: Served, many: Many
) -> None:
    assert connections() > KEPT
    for _ in range(KEPT):
        connection = many.one()
        connection.sendall(f"GET {HEALTH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 200")
    assert is_served(served)


def test_heads_that_are_never_finished_hold_up_nobody(served: Served, many: Many) -> None:
    for _ in range(200):
        many.one().sendall(b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    assert is_served(served)


@pytest.mark.parametrize(
    "flood",
    [
        b"".join(b"X-%d: y\r\n" % number for number in range(5_000)),
        b"X-Large: " + b"y" * 1_000_000 + b"\r\n",
        b"Cookie: " + b"a=b; " * 100_000 + b"\r\n",
    ],
    ids=["very many", "one very large", "cookies"],
)
def test_a_flood_of_headers_is_refused_and_the_next_caller_served(
    served: Served, many: Many, flood: bytes
) -> None:
    connection = many.one()
    with contextlib.suppress(ConnectionError):  # it may not be read to its end
        connection.sendall(
            f"GET {HEALTH} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode() + flood + b"\r\n"
        )
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = connection.recv(64)
    assert answer == b"" or answer.split()[1] in {b"400", b"431"}
    assert is_served(served)
