"""The isolated area: staged results and blobs; streamed, immutable, never canonical by themselves (contract 7)."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import Attempt, Blob, CanonicalCommit, Queue, StagedResult
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.services.commits import CommitItem, Committed, commit_results
from coordinator.services.grants import Claim
from coordinator.services.results import (
    CHUNK_BYTES,
    MAX_STAGED,
    NO_RESULT,
    BlobStored,
    Staged,
    open_blob,
    put_blob,
    stage_result,
)
from coordinator.states import AttemptState
from tests import world
from tests.history import nothing_moves
from tests.world import commit_item, node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane(tmp_path: Path, settings: Any) -> Queue:
    settings.BLOB_DIR = tmp_path / "blobs"
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "blobs")},
        },
    }
    return world.queue()


@pytest.fixture
def worker() -> Worker:
    return world.worker()


@pytest.fixture
def claim(worker: Worker) -> Claim:
    world.submit()
    return world.claim_one(by=worker)


def stage(claim: Claim, result: Any, *, by: Worker, **changes: Any) -> Staged | Refusal:
    fence = replace(claim.fence, **changes)
    return stage_result(attempt_id=claim.fence.attempt_id, fence=fence, result=result, worker=by)


def put(
    claim: Claim, name: str, *chunks: bytes, by: Worker, fence: Any = None
) -> BlobStored | Refusal:
    return put_blob(
        attempt_id=claim.fence.attempt_id,
        fence=fence or claim.fence,
        name=name,
        chunks=chunks,
        worker=by,
    )


def send(item: CommitItem, *, by: Worker) -> Committed | Refusal:
    (answer,) = commit_results(items=[item], worker=by)
    return answer


def files() -> list[Path]:
    return [path for path in Path(settings.BLOB_DIR).rglob("*") if path.is_file()]


def refused(answer: Any, outcome: Outcome, reason: Reason | None = None) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert (answer.outcome, answer.reason) == (outcome, reason)
    return answer


# --- staged results -------------------------------------------------------------------------------


def test_a_staged_result_of_the_holder_is_a_canonical_candidate(
    claim: Claim, worker: Worker
) -> None:
    answer = stage(claim, {"b": 2, "a": 1}, by=worker)
    assert answer == Staged(digests.sha256(b'{"a":1,"b":2}'), canonical_candidate=True)
    assert StagedResult.objects.get().result == '{"a":1,"b":2}'
    assert Attempt.objects.get().state == AttemptState.RESULT_STAGED
    task = world.task(claim.fence.task_id)
    assert (task.state, task.result_commit_id) == ("CLAIMED", None)


def test_the_same_result_again_is_the_same_answer(claim: Claim, worker: Worker) -> None:
    first = stage(claim, [1], by=worker)
    with nothing_moves():
        assert stage(claim, [1.0], by=worker) == first


def test_a_late_attempt_stages_evidence_that_touches_nothing_else(
    claim: Claim, worker: Worker
) -> None:
    world.lapse(claim.fence.task_id)
    new = world.claim_one(by=worker)
    before = world.fingerprint("task", "run", "canonicalcommit", "memorykey", "dependency")
    answer = stage(claim, "late", by=worker)
    assert isinstance(answer, Staged)
    assert not answer.canonical_candidate
    put(claim, "late.bin", b"late", by=worker)
    assert before == world.fingerprint("task", "run", "canonicalcommit", "memorykey", "dependency")
    assert Attempt.objects.get(attempt_id=claim.fence.attempt_id).state == AttemptState.EXPIRED
    # What it staged is nobody else's to commit, and its own commit stays refused.
    other = replace(commit_item(new), result=NO_RESULT, result_digest=answer.result_digest)
    with nothing_moves():
        refused(send(other, by=worker), Outcome.INVALID)
        own = replace(commit_item(claim), result=NO_RESULT, result_digest=answer.result_digest)
        refused(send(own, by=worker), Outcome.FENCED, Reason.STALE_GENERATION)


def test_nothing_is_staged_beside_what_the_attempt_has_committed(
    claim: Claim, worker: Worker
) -> None:
    world.commit(claim, by=worker)
    with nothing_moves():
        assert isinstance(stage(claim, "another", by=worker), Refusal)
        assert isinstance(put(claim, "b", b"1", by=worker), Refusal)
    assert files() == []


def test_staging_is_refused_to_others_to_forgeries_and_past_its_bound(
    claim: Claim, worker: Worker
) -> None:
    with nothing_moves():
        refused(stage(claim, 1, by=world.worker(name="thief")), Outcome.FORBIDDEN)
        refused(stage(claim, 1, by=worker, claim_generation=2), Outcome.FENCED, Reason.AHEAD)
        refused(stage(claim, float("inf"), by=worker), Outcome.INVALID)
    for number in range(MAX_STAGED):
        assert isinstance(stage(claim, number, by=worker), Staged)
    with nothing_moves():
        refused(stage(claim, "one more", by=worker), Outcome.INVALID)
        assert isinstance(stage(claim, 0, by=worker), Staged)


# --- blobs ----------------------------------------------------------------------------------------


def test_a_blob_is_streamed_digested_and_read_back(claim: Claim, worker: Worker) -> None:
    seen = 0

    def chunks() -> Iterator[bytes]:
        nonlocal seen
        for number in range(40):
            seen += 1
            yield bytes([number]) * CHUNK_BYTES
            yield b""  # an empty chunk ends nothing

    answer = put_blob(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        name="big",
        chunks=chunks(),
        worker=worker,
        content_type="text/plain",
    )
    content = b"".join(bytes([number]) * CHUNK_BYTES for number in range(40))
    assert answer == BlobStored("big", digests.sha256(content), len(content))
    assert seen == 40
    found = open_blob(attempt_id=claim.fence.attempt_id, name="big")
    assert not isinstance(found, Refusal)
    blob, opened = found
    with opened:
        assert opened.read() == content
    assert (blob.content_type, blob.size_bytes) == ("text/plain", len(content))
    refused(open_blob(attempt_id=claim.fence.attempt_id, name="other"), Outcome.NOT_FOUND)


def test_a_commit_names_a_blob_and_its_bytes_are_the_result(claim: Claim, worker: Worker) -> None:
    put(claim, "out", b"bytes", by=worker)
    item = replace(commit_item(claim), result={"blob": "out"}, result_digest=None)
    wrong = replace(item, result_digest=digests.sha256(b"other"))
    with nothing_moves():
        refused(send(wrong, by=worker), Outcome.INVALID)
    answer = send(item, by=worker)
    assert isinstance(answer, Committed)
    commit = CanonicalCommit.objects.get()
    assert (commit.result, commit.blob_id) == (None, Blob.objects.get().pk)
    assert commit.result_digest == digests.sha256(b"bytes")
    assert send(item, by=worker) == replace(answer, replayed=True)


def test_a_blob_never_changes_the_same_bytes_again_are_the_same_answer(
    claim: Claim, worker: Worker
) -> None:
    first = put(claim, "out", b"by", b"tes", by=worker)
    with nothing_moves():
        assert put(claim, "out", b"bytes", by=worker) == first
        assert refused(put(claim, "out", b"other", by=worker), Outcome.INVALID).errors[
            0
        ].pointer == ("/name")
    (kept,) = files()
    assert kept.read_bytes() == b"bytes"


def test_a_refused_blob_leaves_no_file(claim: Claim, worker: Worker) -> None:
    with nothing_moves():
        refused(put(claim, "x", b"1", by=world.worker(name="thief")), Outcome.FORBIDDEN)
        forged = replace(claim.fence, scheduler_epoch=7)
        refused(put(claim, "x", b"1", by=worker, fence=forged), Outcome.FENCED, Reason.AHEAD)
    assert files() == []


def test_a_blob_that_is_too_large_is_cut_off_and_gone(
    claim: Claim, worker: Worker, settings: Any
) -> None:
    settings.MAX_BLOB_BYTES = 100
    pulled = 0

    def endless() -> Iterator[bytes]:
        nonlocal pulled
        while True:
            pulled += 1
            yield b"x" * 30

    with nothing_moves():
        answer = put_blob(
            attempt_id=claim.fence.attempt_id,
            fence=claim.fence,
            name="big",
            chunks=endless(),
            worker=worker,
        )
        told = refused(answer, Outcome.INVALID)
    assert told.extra["status"] == 413
    assert pulled <= 5
    assert files() == []
    assert isinstance(put(claim, "big", b"x" * 100, by=worker), BlobStored)


def test_an_upload_that_breaks_off_leaves_nothing(claim: Claim, worker: Worker) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with nothing_moves(), pytest.raises(ConnectionResetError):
        put_blob(
            attempt_id=claim.fence.attempt_id,
            fence=claim.fence,
            name="half",
            chunks=broken(),
            worker=worker,
        )
    assert files() == []


def test_blobs_of_two_attempts_with_one_name_are_two(worker: Worker) -> None:
    world.submit(node("a"), node("b"))
    first, second = world.claim(by=worker, limit=2)
    put(first, "out", b"1", by=worker)
    put(second, "out", b"2", by=worker)
    assert len(files()) == 2
    item = replace(commit_item(first), result={"blob": "out"}, result_digest=None)
    send(item, by=worker)
    assert CanonicalCommit.objects.get().result_digest == digests.sha256(b"1")
