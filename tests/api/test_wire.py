"""What only a real server on a real socket shows: chunked bodies, bodies that never come, waits (contract 5, 7)."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from coordinator import digests
from coordinator.api.reading import MAX_BODY_BYTES
from coordinator.models import Blob, Run
from tests.sdk.served import Served
from tests.world import fingerprint

from .callers import Api, Caller, attempt_path, make_world, new_key, node

pytestmark = pytest.mark.slow
MEBIBYTE = 1024 * 1024


@pytest.fixture
def world(transactional_db: None, tmp_path: Path) -> Iterator[tuple[Api, Served]]:
    api, served = make_world(), Served(tmp_path / "web.log")
    served.start()
    yield api, served
    served.stop()


def headers(caller: Caller, **more: str) -> dict[str, str]:
    sent = {"Authorization": f"Bearer {caller.token}", "Content-Type": "application/json"}
    return sent | {name.replace("_", "-"): value for name, value in more.items()}


def in_pieces(data: bytes, size: int = 65_536) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def test_a_body_in_chunks_is_read_as_one_and_bounded_as_one(world: tuple[Api, Served]) -> None:
    api, served = world
    body = json.dumps({"queue": "q", "nodes": [node("a")]}).encode()
    sent = headers(api.operator, Idempotency_Key=new_key())
    reply = httpx.post(
        f"{served.url}/api/v1/runs", content=in_pieces(body, 7), headers=sent, timeout=60
    )
    assert reply.status_code == 201, reply.text
    before = Run.objects.count()
    large = b'{"queue":"' + b"x" * (3 * MEBIBYTE) + b'"}'
    try:
        reply = httpx.post(
            f"{served.url}/api/v1/runs", content=in_pieces(large), headers=sent, timeout=30
        )
    except httpx.WriteError:
        pass  # refused while we were still sending: as good
    else:
        assert (reply.status_code, reply.json()["type"]) == (413, "/api/v1/problems/too-large")
    assert Run.objects.count() == before


def test_a_length_beyond_the_bound_is_refused_though_nothing_of_it_came(
    world: tuple[Api, Served],
) -> None:
    api, served = world
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.putrequest("POST", "/api/v1/runs")
    for name, value in headers(api.operator, Idempotency_Key=new_key()).items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(MAX_BODY_BYTES + 1))
    connection.endheaders()
    reply = connection.getresponse()
    assert (reply.status, json.loads(reply.read())["type"]) == (413, "/api/v1/problems/too-large")
    connection.close()


def test_a_blob_of_many_mebibytes_streams_through(world: tuple[Api, Served]) -> None:
    api, served = world
    claim = api.submitted_claim()
    data = bytes(range(256)) * (4 * 4 * 1024 * 5)
    url = f"{served.url}/api/v1{attempt_path(claim, 'blobs/big')}"
    sent = headers(api.worker, Claim_Fence=json.dumps(claim["fence"])) | {
        "Content-Type": "application/x-tar"
    }
    unbounded = httpx.put(url, content=in_pieces(data), headers=sent, timeout=60)
    assert (unbounded.status_code, unbounded.json()["type"]) == (
        411,
        "/api/v1/problems/length-required",
    )
    reply = httpx.put(url, content=data, headers=sent, timeout=60)
    assert (reply.status_code, reply.json()["size_bytes"]) == (200, len(data))
    assert reply.json()["blob_digest"] == digests.sha256(data)
    read = httpx.get(url, headers=sent, timeout=60)
    assert (read.status_code, read.content == data) == (200, True)


def test_a_blob_whose_sender_dies_on_the_way_is_never_there(world: tuple[Api, Served]) -> None:
    api, served = world
    claim = api.submitted_claim()
    before = fingerprint()
    sent = headers(api.worker, Claim_Fence=json.dumps(claim["fence"]))
    lines = [
        f"PUT /api/v1{attempt_path(claim, 'blobs/half')} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Length: 1000000",
    ]
    lines += [f"{name}: {value}" for name, value in sent.items()]
    with socket.create_connection(("127.0.0.1", served.port)) as wire:
        wire.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + b"x" * 1_000)
    url = f"{served.url}/api/v1{attempt_path(claim, 'blobs/half')}"
    for _ in range(20):  # it may take the server a moment to see that nobody is there
        assert httpx.get(url, headers=sent, timeout=60).status_code == 404
        time.sleep(0.05)
    assert Blob.objects.count() == 0
    assert fingerprint() == before


def test_an_idle_worker_waits_on_the_server_and_is_called_when_there_is_work(
    world: tuple[Api, Served],
) -> None:
    api, served = world
    answers: list[tuple[float, Any]] = []

    def wait() -> None:
        url = f"{served.url}/api/v1/queues/q/hint?wait_seconds=30"
        reply = httpx.get(url, headers=headers(api.worker), timeout=60)
        answers.append((time.monotonic(), reply.json()))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.5)
    assert answers == []
    submitted_at = time.monotonic()
    api.submit()
    waiting.join(40)
    ((answered_at, told),) = answers
    assert told["may_have_work"] is True
    assert answered_at - submitted_at < 25, "it was called, it did not just run out"


@pytest.fixture
def client(world: tuple[Api, Served]) -> Iterator[httpx.Client]:
    """A worker's, on one connection that is kept."""
    api, served = world
    with httpx.Client(
        base_url=f"{served.url}/api/v1", headers=headers(api.worker), timeout=60
    ) as opened:
        yield opened


def test_a_pipeline_of_requests_on_one_connection_is_answered_in_order(
    client: httpx.Client,
) -> None:
    assert [client.get(path).status_code for path in ("/me", "/nothing", "/queues/q", "/tasks/x")] == [
        200, 404, 200, 404,
    ]  # fmt: skip


def test_an_answer_says_how_long_it_is_and_one_without_a_body_keeps_its_connection(
    client: httpx.Client,
) -> None:
    for path in ("/me", "/nothing", "/queues/q"):
        answer = client.get(path)
        assert int(answer.headers["Content-Length"]) == len(answer.content) > 0
        assert "Transfer-Encoding" not in answer.headers
        bare = client.head(path)
        assert (bare.status_code, bare.content) == (answer.status_code, b"")
    assert client.post("/me").status_code == 405
    assert client.get("/me").status_code == 200
