"""What an attempt may send: renew, stage, commit, fail, release, and its blobs (contract 7)."""

from collections.abc import Iterator
from typing import Final

from django.conf import settings
from django.http import FileResponse, HttpRequest
from pydantic import ValidationError

from coordinator.access import Operation, sees_queue
from coordinator.api.bodies.attempts import CommitBody, FailBody, ReleaseBody, RenewBody, StageBody
from coordinator.api.bodies.fields import FenceBody, usage_of
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.parsing import details_of, fence_missing, field_error
from coordinator.api.paths import uuid_of
from coordinator.api.problems import Fault, Problem, Refused
from coordinator.api.reading import is_chunked
from coordinator.fence import Fence
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.tasks import find_attempt
from coordinator.services.commits import Committed
from coordinator.services.endings import (
    Failed,
    Released,
    RetryScheduled,
    fail_attempt,
    release_attempt,
)
from coordinator.services.leases import Renewed
from coordinator.services.results import BlobStored, Staged, open_blob, put_blob, stage_result
from coordinator.services.together import commit_result, renew_lease

MAX_BLOB_NAME: Final = 200
#: Should a browser show a blob all the same: nothing in it runs, and it is of no origin.
_DOWNLOAD_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; sandbox"
CHUNK_BYTES: Final = 64 * 1024
_FENCED: Final = (
    Outcome.FENCED,
    Outcome.STALE_INPUT,
    Outcome.CANCELLED,
    Outcome.FORBIDDEN,
    Outcome.NOT_FOUND,
)


class AttemptRenew(Endpoint):
    @operation(
        Operation.RENEW_LEASE,
        "Renew the lease of an attempt",
        body=RenewBody,
        answer=Renewed,
        refusals=(*_FENCED, Outcome.LEASE_LIMIT),
        confirms=True,
    )
    def post(self, call: Call[RenewBody], attempt_id: str) -> Renewed | Refusal:
        renewal = call.body.renewal(uuid_of(attempt_id, "attempt"))
        return renew_lease(renewal, worker=call.worker)


class AttemptStage(Endpoint):
    @operation(
        Operation.STAGE_RESULT,
        "Put a result aside; a late attempt may too",
        body=StageBody,
        answer=Staged,
        refusals=(Outcome.FENCED, Outcome.FORBIDDEN, Outcome.NOT_FOUND, Outcome.ALREADY_COMMITTED),
        confirms=True,
    )
    def post(self, call: Call[StageBody], attempt_id: str) -> Staged | Refusal:
        return stage_result(
            attempt_id=uuid_of(attempt_id, "attempt"),
            fence=call.body.fence.fence(),
            result=call.body.result,
            worker=call.worker,
        )


class AttemptCommit(Endpoint):
    @operation(
        Operation.COMMIT_RESULT,
        "Commit the attempt's result as the task's one canonical result",
        body=CommitBody,
        answer=Committed,
        refusals=(
            *_FENCED,
            Outcome.MEMORY_CONFLICT,
            Outcome.ALREADY_COMMITTED,
            Outcome.RECONCILE_FIRST,
        ),
        confirms=True,
    )
    def post(self, call: Call[CommitBody], attempt_id: str) -> Committed | Refusal:
        item = call.body.item(uuid_of(attempt_id, "attempt"))
        return commit_result(item, worker=call.worker)


class AttemptFail(Endpoint):
    @operation(
        Operation.FAIL_ATTEMPT,
        "End the attempt as failed; the task is tried again, or waits for a person",
        body=FailBody,
        answer=RetryScheduled | Failed,
        refusals=_FENCED,
        confirms=True,
    )
    def post(self, call: Call[FailBody], attempt_id: str) -> RetryScheduled | Failed | Refusal:
        body = call.body
        return fail_attempt(
            attempt_id=uuid_of(attempt_id, "attempt"),
            fence=body.fence.fence(),
            error=body.error.model_dump(exclude_unset=True),
            retryable=body.retryable,
            retry_after_seconds=body.retry_after_seconds,
            usage=usage_of(body.usage),
            worker=call.worker,
        )


class AttemptRelease(Endpoint):
    @operation(
        Operation.RELEASE_ATTEMPT,
        "Give the task back, unharmed",
        body=ReleaseBody,
        answer=Released,
        refusals=_FENCED,
        confirms=True,
    )
    def post(self, call: Call[ReleaseBody], attempt_id: str) -> Released | Refusal:
        return release_attempt(
            attempt_id=uuid_of(attempt_id, "attempt"),
            fence=call.body.fence.fence(),
            usage=usage_of(call.body.usage),
            worker=call.worker,
        )


class AttemptBlob(Endpoint):
    @operation(
        Operation.PUT_BLOB,
        "Stream bytes into the attempt's area; the fence travels in `Claim-Fence`",
        answer=BlobStored,
        refusals=(
            Outcome.FENCED,
            Outcome.FORBIDDEN,
            Outcome.NOT_FOUND,
            Outcome.ALREADY_COMMITTED,
            Outcome.INVALID,
        ),
        raw=True,
    )
    def put(self, call: Call[None], attempt_id: str, name: str) -> BlobStored | Refusal:
        request, attempt = call.request, uuid_of(attempt_id, "attempt")
        fence = fence_of(request)
        if not 1 <= len(name) <= MAX_BLOB_NAME or not name.isprintable():
            return invalid(
                FieldError(
                    "/name",
                    f"A blob's name has 1 to {MAX_BLOB_NAME} characters, all of which can be seen.",
                )
            )
        stored = put_blob(
            attempt_id=attempt,
            fence=fence,
            name=name,
            chunks=_chunks(request),
            content_type=content_type_of(request),
            worker=call.worker,
        )
        if isinstance(stored, Refusal) and stored.extra.get("status") == 413:
            raise _too_large()
        return stored

    @operation(Operation.READ_BLOB, "Read a blob", answer=bytes, refusals=(Outcome.NOT_FOUND,))
    def get(self, call: Call[None], attempt_id: str, name: str) -> FileResponse | Refusal:
        attempt = find_attempt(uuid_of(attempt_id, "attempt"))
        if (
            not name.isprintable()
            or attempt is None
            or not sees_queue(call.caller, attempt.task.queue.name)
        ):
            return not_found("blob")
        opened = open_blob(attempt_id=attempt.attempt_id, name=name)
        if isinstance(opened, Refusal):
            return opened
        blob, file = opened
        # Never shown in place: its bytes are a worker's, and its type is what the worker says.
        response = FileResponse(
            file, as_attachment=True, filename=blob.name, content_type="application/octet-stream"
        )
        response["Content-Security-Policy"] = _DOWNLOAD_POLICY
        response["Digest-SHA256"] = blob.digest
        return response


def fence_of(request: HttpRequest) -> Fence:
    """The `Claim-Fence` header; raises Problem 428 where it is missing or incomplete."""
    text = request.META.get("HTTP_CLAIM_FENCE")
    if not text:
        detail = "Send the claim's `fence` as JSON in a `Claim-Fence` header."
        raise Refused(Refusal(Outcome.FENCE_MISSING, detail))
    try:
        return FenceBody.model_validate_json(text.encode("latin-1", "replace")).fence()
    except ValidationError as error:
        details = details_of(error)
    missing = [detail for detail in details if detail["type"] == "missing"]
    if missing:
        raise Refused(fence_missing(missing))
    faults = tuple(field_error(detail) for detail in details)
    raise Problem(
        Fault.BAD_HEADER, "The `Claim-Fence` header is not a fence; see `errors`.", errors=faults
    )


def content_type_of(request: HttpRequest) -> str:
    given = request.META.get("CONTENT_TYPE", "")
    return given if 0 < len(given) <= 200 and given.isprintable() else "application/octet-stream"


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    """The body as it comes, and all of it: raises Problem where it is too long, or ends before its length.

    The server tells a sender that died from one that has finished by nothing but the length,
    and a blob never changes: half a blob would keep its name for ever.
    """
    declared = request.META.get("CONTENT_LENGTH") or ""
    if is_chunked(request) or not declared.isdigit():
        raise Problem(
            Fault.LENGTH, "Say how long the blob is: one that broke off looks like one that ended."
        )
    left = int(declared)
    if left > settings.MAX_BLOB_BYTES:
        raise _too_large()
    while left and (chunk := request.read(min(CHUNK_BYTES, left))):
        left -= len(chunk)
        yield chunk
    if left:
        raise Problem(
            Fault.UNREADABLE, f"The body ended {left} bytes before its length; nothing is kept."
        )


def _too_large() -> Problem:
    return Problem(Fault.TOO_LARGE, f"A blob may have {settings.MAX_BLOB_BYTES} bytes here.")
