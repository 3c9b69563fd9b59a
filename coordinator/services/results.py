"""Results in an attempt's isolated area: staged values and blobs (contract 7).

A late attempt may put things there too. They can be read and compared by people, and touch
nothing else.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any, Final, cast
from uuid import UUID

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import storages

from coordinator import digests
from coordinator.actors import Worker
from coordinator.fence import Call, Fence, IsCurrent, Point
from coordinator.ids import new_id
from coordinator.models import Attempt, Blob
from coordinator.outcomes import FieldError, Outcome, Reason, Refusal, invalid, not_found
from coordinator.rounds import Statement
from coordinator.states import AttemptState

from .events import EventKind, task_fact
from .hearings import Hearing, open_hearing
from .transactions import in_transaction

#: An attempt stages no more than so many different results, and no more than so many blobs.
MAX_STAGED: Final = 16
MAX_BLOBS: Final = 1_000
CHUNK_BYTES: Final = 64 * 1024


class NoResult(Enum):
    """A commit that names a staged result by its digest sends none inline (None is a result)."""

    NO_RESULT = "NO_RESULT"


NO_RESULT: Final = NoResult.NO_RESULT


@dataclass(frozen=True, slots=True)
class Offered:
    """The result that a commit offers: RFC 8785 text, or a blob of the same attempt."""

    digest: str
    text: str | None = None
    blob_id: int | None = None
    blob_name: str | None = None  # named by the caller, not yet found


@dataclass(frozen=True, slots=True)
class Staged:
    result_digest: str
    canonical_candidate: bool
    outcome: str = "STAGED"


@dataclass(frozen=True, slots=True)
class BlobStored:
    name: str
    blob_digest: str
    size_bytes: int
    outcome: str = "STORED"


def offered_result(result: Any, result_digest: str | None) -> Offered | Refusal | None:
    """The inline result with the digest that the server computes; one that was sent must match (contract 5)."""
    if result is NO_RESULT:
        return None
    if isinstance(result, dict) and set(result) == {"blob"} and isinstance(result["blob"], str):
        return Offered(result_digest or "", blob_name=result["blob"])
    try:
        text = digests.canonical(result)
    except digests.NotCanonical as error:
        return invalid(FieldError("/result", str(error)))
    digest = digests.sha256(text)
    if result_digest not in (None, digest):
        return invalid(
            FieldError(
                "/result_digest", f"The result's digest is {digest}; send that, or leave it out."
            )
        )
    return Offered(digest, text=text.decode())


_FIND: Final = """
SELECT attempt_id, NULL, result_digest, result, NULL::bigint FROM coordinator_stagedresult
WHERE attempt_id = ANY(%s::uuid[])
UNION ALL
SELECT attempt_id, name, digest, NULL, id FROM coordinator_blob WHERE attempt_id = ANY(%s::uuid[])
"""


def find_offered(attempt_ids: Sequence[UUID]) -> list[Statement]:
    """What these attempts have put aside; no statement where nobody refers to it."""
    return [Statement(_FIND, (list(attempt_ids), list(attempt_ids)))] if attempt_ids else []


def stored_result(
    rows: Sequence[tuple[Any, ...]], attempt_id: UUID, blob_name: str | None, digest: str | None
) -> Offered | Refusal:
    """The staged result with this digest, or the blob with this name, among what `find_offered` found."""
    for owner, name, found, text, blob_id in rows:
        if owner != attempt_id or name != blob_name:
            continue
        if blob_name is None and found == digest:
            return Offered(found, text=text)
        if blob_name is not None:
            if digest not in (None, found):
                return invalid(FieldError("/result_digest", f"The blob's digest is {found}."))
            return Offered(found, blob_id=blob_id)
    if blob_name is not None:
        return invalid(
            FieldError("/result/blob", f"This attempt has no blob `{blob_name}`; put it first.")
        )
    return invalid(
        FieldError(
            "/result_digest", "This attempt has staged no result with this digest; send `result`."
        )
    )


_STAGE: Final = """
INSERT INTO coordinator_stagedresult (attempt_id, result_digest, result, canonical_candidate, staged_at)
VALUES (%s, %s, %s, %s, %s) ON CONFLICT (attempt_id, result_digest) DO NOTHING
"""
_MARK_STAGED: Final = """
UPDATE coordinator_attempt SET state = 'RESULT_STAGED' WHERE attempt_id = %s AND state = 'STARTED'
"""
_COUNT_STAGED: Final = (
    "SELECT result_digest, canonical_candidate FROM coordinator_stagedresult WHERE attempt_id = %s"
)


def stage_result(
    *, attempt_id: UUID, fence: Fence, result: Any, worker: Worker
) -> Staged | Refusal:
    """Put a result aside. Of a current attempt it is a canonical candidate; of a late one, evidence.

    Refused: INVALID (no RFC 8785 form, too many different results), NOT_FOUND, FORBIDDEN.
    """
    try:
        text = digests.canonical(result)
    except digests.NotCanonical as error:
        return invalid(FieldError("/result", str(error)))
    return _stage(attempt_id, fence, text.decode(), digests.sha256(text), worker)


@in_transaction
def _stage(
    attempt_id: UUID, fence: Fence, text: str, digest: str, worker: Worker
) -> Staged | Refusal:
    count = Statement(_COUNT_STAGED, (attempt_id,))
    hearing = open_hearing(Point.STAGE, [(attempt_id, fence)], worker=worker, extra=[count])
    candidate = _may_put_aside(hearing, attempt_id, fence)
    if isinstance(candidate, Refusal):
        hearing.write()
        return candidate
    staged = dict(hearing.extra[0])
    if digest in staged:
        return Staged(digest, staged[digest])
    if len(staged) >= MAX_STAGED:
        return invalid(
            FieldError("/result", f"An attempt stages at most {MAX_STAGED} different results.")
        )
    task = hearing.tasks[fence.task_id]
    hearing.facts.append(
        task_fact(
            EventKind.STAGED,
            task,
            changed=False,
            attempt_id=attempt_id,
            result_digest=digest,
            canonical_candidate=candidate,
        )
    )
    hearing.write(
        Statement(_STAGE, (attempt_id, digest, text, candidate, hearing.clock)),
        *([Statement(_MARK_STAGED, (attempt_id,))] if candidate else []),
    )
    return Staged(digest, candidate)


def _may_put_aside(hearing: Hearing, attempt_id: UUID, fence: Fence) -> bool | Refusal:
    """Whether the attempt is current. Being late is no refusal here: the isolated area takes it."""
    verdict = hearing.judge(
        Call(Point.STAGE, fence, hearing.worker.id), attempt_id, queue=None, usage=None
    )
    if isinstance(verdict, IsCurrent):
        return True
    assert isinstance(verdict, Refusal), "staging ends nothing, so there is no repeat to answer"
    if verdict.outcome in (Outcome.FORBIDDEN, Outcome.NOT_FOUND, Outcome.INVALID):
        return verdict
    if hearing.attempts[attempt_id].state == AttemptState.COMMITTED:
        return verdict  # what it has committed is final; nothing is put beside it
    if verdict.reason is Reason.AHEAD:
        return verdict
    hearing.facts.clear()
    hearing.fenced.clear()
    return False


def put_blob(
    *,
    attempt_id: UUID,
    fence: Fence,
    name: str,
    chunks: Iterable[bytes],
    worker: Worker,
    content_type: str = "application/octet-stream",
) -> BlobStored | Refusal:
    """Stream bytes into the attempt's isolated area. Immutable per name, visible once complete.

    The bytes are written before the transaction that makes them visible; the same name with
    the same bytes again is the same answer, with other bytes INVALID. Of an attempt that is not
    the credential's not one byte is read: nobody fills the disk by the ids of others.
    """
    path = f"{attempt_id}/{new_id()}"
    stream = _Stream(chunks)
    # Whose an attempt is never changes: what is not theirs here is refused below, and on record.
    if not Attempt.objects.filter(attempt_id=attempt_id, credential_id=worker.id).exists():
        return _put(
            attempt_id=attempt_id,
            fence=fence,
            name=name,
            path=path,
            stream=stream,
            content_type=content_type,
            worker=worker,
        )
    try:
        storages["blobs"].save(path, File(cast(IO[bytes], stream), name=path))
    except BaseException:  # the upload broke off
        storages["blobs"].delete(path)
        raise
    answer = (
        _TOO_LARGE
        if stream.is_cut
        else _put(
            attempt_id=attempt_id,
            fence=fence,
            name=name,
            path=path,
            stream=stream,
            content_type=content_type,
            worker=worker,
        )
    )
    if not (isinstance(answer, BlobStored) and Blob.objects.filter(path=path).exists()):
        storages["blobs"].delete(path)
    return answer


_INSERT_BLOB: Final = """
INSERT INTO coordinator_blob (attempt_id, name, digest, size_bytes, content_type, path)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_BLOBS: Final = "SELECT name, digest, size_bytes FROM coordinator_blob WHERE attempt_id = %s"


@in_transaction
def _put(
    *,
    attempt_id: UUID,
    fence: Fence,
    name: str,
    path: str,
    stream: "_Stream",
    content_type: str,
    worker: Worker,
) -> BlobStored | Refusal:
    blobs = Statement(_BLOBS, (attempt_id,))
    hearing = open_hearing(Point.STAGE, [(attempt_id, fence)], worker=worker, extra=[blobs])
    candidate = _may_put_aside(hearing, attempt_id, fence)
    if isinstance(candidate, Refusal):
        hearing.write()
        return candidate
    known = {row[0]: (row[1], row[2]) for row in hearing.extra[0]}
    digest = f"sha256:{stream.hash.hexdigest()}"
    if name in known:
        same = known[name][0] == digest
        told = (
            f"Blob `{name}` is there with other bytes; a blob never changes, choose another name."
        )
        return BlobStored(name, *known[name]) if same else invalid(FieldError("/name", told))
    if len(known) >= MAX_BLOBS:
        return invalid(FieldError("/name", f"An attempt puts at most {MAX_BLOBS} blobs."))
    hearing.facts.append(
        task_fact(
            EventKind.STAGED,
            hearing.tasks[fence.task_id],
            changed=False,
            attempt_id=attempt_id,
            blob=name,
            blob_digest=digest,
            size_bytes=stream.size,
            canonical_candidate=candidate,
        )
    )
    hearing.write(
        Statement(_INSERT_BLOB, (attempt_id, name, digest, stream.size, content_type, path))
    )
    return BlobStored(name, digest, stream.size)


_TOO_LARGE: Final = Refusal(
    Outcome.INVALID, "The blob is larger than this server takes.", extra={"status": 413}
)


class _Stream:
    """Chunks as a file: digested and counted as they pass, cut at the configured maximum."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self.hash = hashlib.sha256()
        self.size = 0
        self.is_cut = False

    def read(self, _size: int = CHUNK_BYTES) -> bytes:
        chunk = next(filter(None, self._chunks), b"")
        self.hash.update(chunk)
        self.size += len(chunk)
        if self.size > settings.MAX_BLOB_BYTES:
            self.is_cut = True
            return b""
        return chunk


def open_blob(*, attempt_id: UUID, name: str) -> "tuple[Blob, File[bytes]] | Refusal":
    """A complete blob and its bytes, to be closed by the caller."""
    blob = Blob.objects.filter(attempt_id=attempt_id, name=name).first()
    return (blob, storages["blobs"].open(blob.path)) if blob is not None else not_found("blob")
