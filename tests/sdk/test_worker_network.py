"""A worker on an unkind network: what it repeats, what it counts, and whom a refusal hits."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

import tenure
from tenure import Claim, Happening, Report, Worker
from tenure.committer import Committer
from tests.sdk.lane import Lane, grant
from tests.sdk.scripted import Lost, Reply, Seen, problem, scripted
from tests.sdk.threads import PATIENCE_SECONDS, ended, started, until


def _worker(url: str, **options: Any) -> Worker:
    return Worker(url, "token", "q", **{"ttl_seconds": 5, **options})


class Once:
    """Spoils the first request of a kind."""

    def __init__(self, ending: str, with_: Reply | Lost) -> None:
        self._ending = ending
        self._left = [with_]

    def __call__(self, seen: Seen) -> Reply | Lost | None:
        return self._left.pop() if seen.path.endswith(self._ending) and self._left else None


def test_a_claim_whose_answer_was_lost_is_sent_again_as_it_was_and_its_grants_are_found() -> None:
    handled: list[str] = []
    lane = Lane(grant(1), spoil=Once("/claims", Lost()))
    with scripted(lane) as server:
        worker = _worker(server.url)

        @worker.handler("work")
        def work(claim: Claim) -> dict[str, str]:
            handled.append(claim.task_id)
            return {}

        counts = worker.run(until_empty=True)
    first, second, *later = server.requests("POST", "/claims")
    assert first.key == second.key
    assert first.body == second.body
    assert all(seen.key != first.key for seen in later)
    assert handled == ["task-1"]
    assert counts["committed"] == 1


def test_a_commit_whose_answer_was_lost_is_sent_again_byte_for_byte_and_counted() -> None:
    lane = Lane(grant(1), spoil=Once("/commits", Lost()))
    with scripted(lane) as server:
        worker = _worker(server.url)

        @worker.handler("work")
        def work(claim: Claim) -> dict[str, Any]:
            return {"sum": 0.1 + 0.2, "name": "\U0001f600"}

        counts = worker.run(until_empty=True)
    first, second = server.requests("POST", "/commits")
    assert first.body == second.body
    assert counts["committed"] == 1
    assert counts["retries"] == 1


def test_a_deadline_is_counted_from_before_the_request_was_sent() -> None:
    left: list[float] = []

    def slow_claim(seen: Seen) -> Reply | None:
        if not seen.path.endswith("/claims") or left:
            return None
        return Reply(
            200, {"scheduler_epoch": 1, "claims": [grant(1, lease_seconds=5)]}, delay_seconds=1.0
        )

    with scripted(Lane(spoil=slow_claim)) as server:
        worker = _worker(server.url)

        @worker.handler("work")
        def work(claim: Claim) -> None:
            left.append(claim.remaining())

        worker.run(until_empty=True)
    assert left[0] <= 4.0


def test_all_leases_of_a_process_are_renewed_in_one_call_and_a_refusal_hits_its_own_claim_alone() -> (
    None
):
    # Of the first leases so little is left that they are renewed soon, and the next ones only long after the end.
    lane = Lane(*(grant(number, lease_seconds=9) for number in (1, 2, 3)), renewed_seconds=60)
    lane.fenced.add("attempt-2")
    outcomes: dict[str, str] = {}
    lost = threading.Event()
    with scripted(lane) as server:
        worker = _worker(server.url, concurrency=3, ttl_seconds=60)

        @worker.handler("work")
        def work(claim: Claim) -> None:
            try:
                while not lost.wait(0.05):
                    claim.check()
                claim.check()
            except tenure.Fenced as refused:
                outcomes[claim.task_id] = str(refused.reason)
                lost.set()
                raise
            outcomes[claim.task_id] = "still mine"

        counts = worker.run(until_empty=True)
    assert outcomes == {
        "task-1": "still mine",
        "task-2": "STALE_GENERATION",
        "task-3": "still mine",
    }
    [renewal] = server.requests("POST", "/renewals")
    assert len(renewal.json["renewals"]) == 3
    assert counts["refused.renew.FENCED"] == 1
    assert counts["committed"] == 2


def test_a_renewal_that_got_no_answer_is_tried_again_long_before_the_lease_is_over() -> None:
    lane = Lane(grant(1, lease_seconds=12), spoil=Once("/renewals", Reply(502, {})))
    with scripted(lane) as server:
        worker = _worker(server.url, ttl_seconds=12)

        @worker.handler("work")
        def work(claim: Claim) -> float:
            while len(server.requests("POST", "/renewals")) < 2:
                assert claim.remaining() > 0
                threading.Event().wait(0.02)
            return claim.remaining()

        counts = worker.run(until_empty=True)
    assert counts["renewals_unanswered"] == 1
    assert counts["committed"] == 1


def test_results_that_are_ready_at_once_are_committed_in_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    handed_over = itertools.count(1)
    hand_over = Committer.hand_over

    def counted(self: Committer, claim: Claim, item: bytes) -> None:
        hand_over(self, claim, item)
        if next(handed_over) == 5:
            release.set()

    monkeypatch.setattr(Committer, "hand_over", counted)

    def hold_first_commit(seen: Seen) -> None:
        if seen.path.endswith("/commits") and len(server.requests("POST", "/commits")) == 1:
            release.wait(PATIENCE_SECONDS)

    lane = Lane(*(grant(number) for number in range(5)), spoil=hold_first_commit)
    with scripted(lane) as server:
        worker = _worker(server.url, concurrency=5)

        @worker.handler("work")
        def work(claim: Claim) -> int:
            number: int = claim.input["number"]
            if number:
                until(lambda: bool(server.requests("POST", "/commits")), "a commit")
            return number

        counts = worker.run(until_empty=True)
    sizes = [len(seen.json["commits"]) for seen in server.requests("POST", "/commits")]
    assert sizes == [1, 4]
    assert counts["committed"] == 5


def test_a_server_that_cannot_let_us_wait_is_not_asked_earlier_than_it_said() -> None:
    with scripted(Lane()) as server:
        worker = _worker(server.url)
        worker.handler("work")(lambda claim: None)
        thread = started(worker)
        until(lambda: len(server.requests("POST", "/claims")) >= 3, "3 requests")
        worker.stop()
        ended(thread)
    claims = server.requests("POST", "/claims")
    assert claims[2].at - claims[1].at >= 1.0


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (problem(401), tenure.Unauthorized),
        (problem(403, "FORBIDDEN"), tenure.Forbidden),
        (problem(404, "NOT_FOUND"), tenure.NotFound),
        (problem(422, "INVALID"), tenure.InvalidInput),
    ],
)
def test_a_refusal_that_will_never_pass_ends_the_worker(
    refused: Reply, kind: type[Exception]
) -> None:
    with scripted(Lane(spoil=Once("/claims", refused))) as server:
        worker = _worker(server.url)
        worker.handler("work")(lambda claim: None)
        with pytest.raises(kind):
            worker.run()
    assert len(server.requests("POST", "/claims")) == 1


@pytest.mark.parametrize(
    "passing",
    [
        problem(503, "INTAKE_STOPPED", retry_after=0),
        problem(403, "WRONG_POOL"),
        problem(500),
        Reply(503, {}),
        Lost(),
    ],
)
def test_what_can_pass_is_waited_for_and_told_once(passing: Reply | Lost) -> None:
    told: list[Happening] = []
    with scripted(Lane(grant(1), spoil=Once("/claims", passing))) as server:
        worker = _worker(server.url, observer=lambda report: told.append(report.what))
        worker.handler("work")(lambda claim: None)
        counts = worker.run(until_empty=True)
    assert counts["committed"] == 1
    assert told == ["waiting", "resumed", "claimed", "committed"]


def test_a_raised_epoch_is_followed_and_a_lower_one_never() -> None:
    def stale(seen: Seen) -> Reply | None:
        if not seen.path.endswith("/claims"):
            return None
        match seen.json["scheduler_epoch"]:
            case 1:
                return problem(409, "FENCED", reason="STALE_EPOCH", current={"scheduler_epoch": 4})
            case 4 if not lowered:
                lowered.append(True)
                return problem(409, "FENCED", reason="AHEAD", current={"scheduler_epoch": 2})
        return None

    lowered: list[bool] = []
    with scripted(Lane(spoil=stale)) as server:
        worker = _worker(server.url)
        worker.handler("work")(lambda claim: None)
        worker.run(until_empty=True)
    epochs = [seen.json["scheduler_epoch"] for seen in server.requests("POST", "/claims")]
    assert epochs == [1, 4, 4]


def test_an_observer_that_fails_disturbs_no_claim(caplog: pytest.LogCaptureFixture) -> None:
    def broken(report: Report) -> None:
        raise RuntimeError("the display is gone")

    with scripted(Lane(grant(1))) as server:
        worker = _worker(server.url, observer=broken)
        worker.handler("work")(lambda claim: None)
        assert worker.run(until_empty=True)["committed"] == 1
    assert "the observer failed" in caplog.text


@pytest.mark.parametrize(
    "result",
    [float("nan"), {"when": object()}, "x" * 1_000_000, {"blob": "a name of no blob of ours"}],
    ids=["not a number", "not JSON", "too large", "a blob by hand"],
)
def test_a_result_that_cannot_travel_fails_its_own_task_with_the_reason(result: Any) -> None:
    with scripted(Lane(grant(1))) as server:
        worker = _worker(server.url)
        worker.handler("work")(lambda claim: result)
        counts = worker.run(until_empty=True)
    [failed] = server.requests("POST", "/fail")
    assert failed.json["error"]["type"] == "tenure.errors.NotEncodable"
    assert failed.json["retryable"] is False
    assert counts["failed"] == 1


def test_a_worker_says_at_once_what_is_wrong_with_its_settings() -> None:
    with pytest.raises(ValueError, match="concurrency"):
        Worker("http://127.0.0.1", "t", "q", concurrency=0)
    with pytest.raises(ValueError, match="ttl_seconds"):
        Worker("http://127.0.0.1", "t", "q", ttl_seconds=4)
    worker = Worker("http://127.0.0.1", "t", "q")
    with pytest.raises(ValueError, match="no handler"):
        worker.run()
    worker.handler("work")(lambda claim: None)
    with pytest.raises(ValueError, match="already"):
        worker.handler("work")(lambda claim: None)


def test_a_coordinator_that_fails_on_a_commit_does_not_fail_the_task() -> None:
    with scripted(Lane(grant(1), spoil=Once("/commits", problem(500)))) as server:
        worker = _worker(server.url)
        worker.handler("work")(lambda claim: None)
        counts = worker.run(until_empty=True)
    assert server.requests("POST", "/fail") == []
    assert counts["untold"] == 1


def test_one_result_that_is_refused_spoils_no_other_of_its_batch() -> None:
    together = threading.Barrier(3)

    def refuse_second(seen: Seen) -> Reply | None:
        spoilt = seen.path.endswith("/commits") and b"attempt-1" in seen.body
        return problem(422, "INVALID", detail="too strange") if spoilt else None

    lane = Lane(*(grant(number) for number in range(3)), spoil=refuse_second)
    with scripted(lane) as server:
        worker = _worker(server.url, concurrency=3)
        worker.handler("work")(lambda claim: together.wait(PATIENCE_SECONDS))
        counts = worker.run(until_empty=True)
    assert (counts["committed"], counts["failed"]) == (2, 1)
    [failed] = server.requests("POST", "/fail")
    assert failed.json["fence"]["attempt_id"] == "attempt-1"
    assert failed.json["retryable"] is False


@pytest.mark.parametrize(
    "nonsense",
    [
        Reply(200, []),
        Reply(200, {"results": None}),
        Reply(200, {"results": [{"outcome": "RENEWED"}]}),
        Reply(200, {"results": [{"outcome": "RENEWED", "lease_seconds": "long"}]}),
    ],
)
def test_an_answer_of_nonsense_stops_neither_the_keeper_nor_the_committer(nonsense: Reply) -> None:
    spoiler = Once("/renewals", nonsense)
    with scripted(Lane(grant(1), spoil=spoiler)) as server:
        worker = _worker(server.url)

        @worker.handler("work")
        def work(claim: Claim) -> None:
            until(lambda: len(server.requests("POST", "/renewals")) >= 2, "2 requests")

        assert worker.run(until_empty=True)["committed"] == 1
    with scripted(Lane(grant(1), grant(2), spoil=Once("/commits", nonsense))) as server:
        worker = _worker(server.url)
        worker.handler("work")(lambda claim: None)
        counts = worker.run(until_empty=True)
    assert counts["committed"] >= 1


@pytest.mark.parametrize(
    ("kinds", "asked"),
    [
        (("review", "merge"), "wait_seconds=20&kinds=merge%2Creview"),
        (("review", "a,b"), "wait_seconds=20"),  # no comma separates them any more
        (tuple(f"{number:0>180}" for number in range(30)), "wait_seconds=20"),
    ],
)
def test_a_hint_is_asked_for_the_kinds_that_are_handled(kinds: tuple[str, ...], asked: str) -> None:
    with scripted(Lane()) as server:
        worker = _worker(server.url)
        for kind in kinds:
            worker.handler(kind)(lambda claim: None)
        thread = started(worker)
        until(lambda: bool(server.requests("GET", "/hint")), "a hint")
        worker.stop()
        ended(thread)
        hint, *_ = server.requests("GET", "/hint")
    assert hint.path.partition("?")[2] == asked
