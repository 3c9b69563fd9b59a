"""The feed by itself: bounded, counted, and never in its host's way (contract 13)."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from celery import Celery, signals

from tenure.integrations import celery as tenure_celery
from tenure.integrations import feed as feeds
from tenure.integrations.feed import Feed
from tests.sdk.served import free_port
from tests.site.waiting import until

TOKEN = "tnr_w_token"


class Coordinator:
    """What the feed talks to, with the answer that a test wants."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.status = 200
        told = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                told.bodies.append(orjson.loads(raw))
                answer = b'{"refused": 0}' if told.status == 200 else b'{"detail": "no"}'
                self.send_response(told.status)
                kind = "application/json" if told.status == 200 else "application/problem+json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Nothing to say."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def events(self) -> list[str]:
        return [event["task_key"] for body in self.bodies for event in body["events"]]


@pytest.fixture
def coordinator() -> Any:
    made = Coordinator()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(feeds, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(feeds, "LONGEST_PAUSE_SECONDS", 0.02)


def feed_to(url: str) -> Feed:
    return Feed(url=url, token=TOKEN, queue="q", source="celery.q")


def tell(feed: Feed, *keys: str) -> None:
    for key in keys:
        feed.tell(task_key=key, event="CLAIMED", owner="me")


def test_events_are_sent_in_order_by_a_thread_of_its_own(coordinator: Coordinator) -> None:
    feed = feed_to(coordinator.url)
    tell(feed, *map(str, range(1_200)))
    assert feed.flush(30)
    assert coordinator.events == list(map(str, range(1_200)))
    assert all(len(body["events"]) <= feeds.MAX_BATCH for body in coordinator.bodies)
    assert (feed.counts.taken, feed.counts.sent, feed.counts.dropped) == (1_200, 1_200, 0)
    feed.close()


def test_what_does_not_fit_is_dropped_and_counted_and_the_count_is_sent(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "MAX_BUFFERED", 10)
    coordinator.status = 503
    feed = feed_to(coordinator.url)
    tell(feed, *map(str, range(25)))
    assert (feed.counts.dropped, feed.counts.sent) == (15, 0)
    # One that was put together earlier may still be on its way, with a smaller count.
    until(lambda: any(body["lost"] == 15 for body in coordinator.bodies), "the whole count")
    coordinator.status = 200
    until(lambda: feed.counts.sent == 10, "the events that fitted")
    tell(feed, "later")
    assert feed.flush(30)
    last = [body["lost"] for body in coordinator.bodies[-2:]]
    assert last == [15, 0]  # told once, with the first batch that was taken
    feed.close()


def test_while_nobody_answers_the_host_goes_on_and_nothing_is_lost(
    coordinator: Coordinator,
) -> None:
    feed = feed_to(f"http://127.0.0.1:{free_port()}")
    tell(feed, "a", "b")
    assert not feed.flush(0.2)
    assert (feed.counts.sent, feed.counts.errors, feed.counts.dropped) == (0, 0, 0)
    feed._address = (coordinator.url, TOKEN)
    feed.close(0)
    until(lambda: feed._thread is None or not feed._thread.is_alive(), "the thread to end")
    tell(feed, "c")
    assert feed.flush(30)
    assert coordinator.events == ["a", "b", "c"]
    feed.close()


def test_a_batch_that_can_never_be_taken_is_let_go_and_counted(coordinator: Coordinator) -> None:
    coordinator.status = 422
    feed = feed_to(coordinator.url)
    tell(feed, "bad")
    assert feed.flush(30)
    assert (feed.counts.refused, feed.counts.sent) == (1, 0)
    coordinator.status = 200
    tell(feed, "good")
    assert feed.flush(30)
    assert coordinator.bodies[-1]["lost"] == 1
    feed.close()


def test_a_wrong_address_or_token_is_told_to_who_writes_the_line() -> None:
    with pytest.raises(ValueError, match="URL"):
        feed_to("not a url")
    with pytest.raises(ValueError, match="token"):
        Feed(url="http://127.0.0.1:1", token="two\nlines", queue="q", source="s")


def test_a_child_process_has_a_buffer_and_a_thread_of_its_own(coordinator: Coordinator) -> None:
    feed = feed_to(coordinator.url)
    tell(feed, "parent")
    assert feed.flush(30)
    feed.close()
    child = os.fork()
    if child == 0:
        try:
            tell(feed, "child")
            ok = feed.counts.taken == 1 and feed.flush(30)
        finally:
            os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert coordinator.events == ["parent", "child"]
    assert feed.counts.taken == 1


def test_a_fault_of_the_feed_never_reaches_the_task(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Celery("eager", broker="memory://")
    app.conf.task_always_eager = True
    shadow = tenure_celery.shadow(app, url=coordinator.url, token=TOKEN, queue="q")

    @app.task
    def adds(one: int, two: int) -> int:
        return one + two

    assert adds.delay(1, 2).get() == 3
    assert shadow.flush(30)
    told = [event["event"] for body in coordinator.bodies for event in body["events"]]
    assert told == ["CLAIMED", "COMMITTED"]

    def breaks(*_: Any) -> None:
        raise RuntimeError("the feed is broken")

    monkeypatch.setattr(tenure_celery, "_owner", breaks)
    assert adds.delay(3, 4).get() == 7
    assert shadow.counts.errors >= 1
    for signal in (signals.task_prerun, signals.task_success):
        assert signal.receivers
    shadow.close()


def test_a_result_is_digested_only_where_it_is_json_and_small() -> None:
    digest = tenure_celery._digest_of
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest(object()) is None
    assert digest("x" * 20_000) is None
    assert digest(list(range(1_000_000))) is None
    endless: list[Any] = []
    endless.append(endless)
    assert digest(endless) is None
    assert digest("\ud800") is not None
