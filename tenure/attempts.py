"""The calls of a worker: claim, renew, stage, commit, fail, release, and the hint that work may exist (contract 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote

from tenure import tracing
from tenure.blobs import fetch_blob
from tenure.canonical import canonical, digest
from tenure.claim import Blob, Claim, Staged
from tenure.decoding import decode
from tenure.effect_calls import EffectCalls
from tenure.errors import NotEncodable, Problem, UnexpectedAnswer, problem_from
from tenure.records import Fence, Grant, Json, Parent, Queue
from tenure.retrying import ONCE, Repeat, RetryPolicy
from tenure.transport import Answer, Call, Transport, json_bytes

#: The largest request body that the coordinator takes (contract 5), less room for the rest of a commit.
LARGEST_INLINE_BYTES = 900_000
#: Items of one batch (contract 7).
LARGEST_BATCH = 100
#: Characters of the kinds that a hint is asked for.
LONGEST_KINDS = 4_000
#: An exception's text can be a whole page of somebody's HTML; people read the beginning.
LONGEST_MESSAGE = 2_000
LONGEST_NAME = 200

Item = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClaimRequest:
    """One logical claim: its key and bytes stay the same until it is answered."""

    key: str
    content: bytes
    limit: int


@dataclass(frozen=True, kw_only=True)
class _Grants:
    """The answer to a claim. A repeat lists what is over by then under `superseded`; nobody misses that here."""

    claims: tuple[Grant, ...]


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Work may be claimable now, or the wait is over; `poll_after_seconds` where the server could not let us wait."""

    poll_after_seconds: float | None = None


class AttemptCalls:
    """Each method is one logical call on behalf of one owner in one queue."""

    def __init__(self, transport: Transport, *, queue: str, owner: str, ttl_seconds: int) -> None:
        self._transport = transport
        self._queue = queue
        self._lane = f"queues/{quote(queue, safe='')}"
        self._owner = owner
        self._ttl_seconds = ttl_seconds

    def effects(self, fence: Fence) -> EffectCalls:
        """The calls for the outside effects of one attempt."""
        return EffectCalls(self._transport, fence)

    def read_queue(self) -> Queue:
        """The queue as it is now. Asked once; the caller waits and asks again."""
        call = Call(method="GET", path=self._lane, repeat=Repeat.BY_NATURE)
        return decode(Queue, self._transport.send(call, retry=ONCE).body)

    def claim(self, request: ClaimRequest) -> Sequence[Claim]:
        """Ask for work. Sent once here: the worker keeps an unanswered request and sends it again as it was."""
        with tracing.span("claim", queue=self._queue, limit=request.limit) as trace:
            path = f"{self._lane}/claims"
            answer = self._post(path, request.content, key=request.key, retry=ONCE)
        grants = decode(_Grants, answer.body).claims
        return tuple(
            Claim(grant, sent_at=answer.sent_at, calls=self, trace=trace) for grant in grants
        )

    def claim_request(
        self, *, key: str, epoch: int, limit: int, kinds: Sequence[str]
    ) -> ClaimRequest:
        """A new logical claim."""
        body: dict[str, Json] = {
            "scheduler_epoch": epoch,
            "owner": self._owner,
            "ttl_seconds": self._ttl_seconds,
            "limit": limit,
        }
        if kinds:
            body["kinds"] = sorted(kinds)
        return ClaimRequest(key=key, content=json_bytes(body), limit=limit)

    def hint(self, wait_seconds: int, *, kinds: Sequence[str] = ()) -> Hint:
        """Wait until work may exist, of these kinds if any, at most `wait_seconds` (0 to 30).

        The kinds are left out where they can't be told: one has a comma, or they are too long for an address.
        """
        params = {"wait_seconds": str(wait_seconds)}
        told = ",".join(sorted(kinds))
        if told.count(",") == len(kinds) - 1 and len(told) <= LONGEST_KINDS:
            params["kinds"] = told
        call = Call(
            method="GET",
            path=f"{self._lane}/hint",
            params=params,
            repeat=Repeat.BY_NATURE,
        )
        answer = self._transport.send(call, retry=ONCE, timeout_seconds=wait_seconds + 10.0)
        return decode(Hint, answer.body)

    def renew(
        self, claims: Sequence[Claim], *, timeout_seconds: float
    ) -> tuple[float, Sequence[Item]]:
        """Renew up to 100 leases in one call; the instant before it was sent, and one answer for each, in order."""
        renewals = [
            {
                "fence": claim.fence.as_json(),
                "owner": self._owner,
                "ttl_seconds": self._ttl_seconds,
                "usage": claim.meter.as_json(),
            }
            for claim in claims
        ]
        answer = self._post(
            f"{self._lane}/renewals",
            json_bytes({"renewals": renewals}),
            retry=ONCE,
            timeout_seconds=timeout_seconds,
        )
        return answer.sent_at, _results(answer, len(claims))

    def commit(self, items: Sequence[bytes], *, retry: RetryPolicy) -> Sequence[Item]:
        """Commit up to 100 results in one call; one answer for each, in order. A repeat of it is answered the same."""
        content = b'{"commits":[' + b",".join(items) + b"]}"
        answer = self._post(f"{self._lane}/commits", content, retry=retry)
        return _results(answer, len(items))

    def commit_item(self, claim: Claim, result: Json) -> bytes:
        """One commit as it travels. Raises NotEncodable for a result that cannot be sent inline."""
        item: dict[str, Json] = {
            "fence": claim.fence.as_json(),
            "input_digest": claim.input_digest,
            "usage": claim.meter.as_json(),
        }
        memory = claim.memory_writes
        if memory:
            item["memory"] = memory
        tail = b""
        match result:
            case Staged():
                item["result_digest"] = result.result_digest
            case Blob():
                item["result_digest"] = result.blob_digest
                item["result"] = {"blob": result.name}
            case _:
                text = inline(result)
                item["result_digest"] = digest(text)
                tail = b',"result":' + text
        # The result goes in as the very bytes that were digested.
        return canonical(item)[:-1] + tail + b"}"

    def fail(
        self,
        claim: Claim,
        *,
        error: Mapping[str, str],
        retryable: bool,
        retry_after_seconds: float | None,
        retry: RetryPolicy,
    ) -> Item:
        """End the attempt as failed; RETRY_SCHEDULED or FAILED."""
        body: dict[str, Json] = {
            "fence": claim.fence.as_json(),
            "error": dict(error),
            "retryable": retryable,
            "usage": claim.meter.as_json(),
        }
        if retry_after_seconds is not None:
            body["retry_after_seconds"] = retry_after_seconds
        return _object(self._post(self._attempt(claim, "fail"), json_bytes(body), retry=retry))

    def release(
        self, claim: Claim, *, retry: RetryPolicy, timeout_seconds: float | None = None
    ) -> Item:
        """Give the task back: READY at once, and the attempt does not count."""
        body = {"fence": claim.fence.as_json(), "usage": claim.meter.as_json()}
        path = self._attempt(claim, "release")
        return _object(
            self._post(path, json_bytes(body), retry=retry, timeout_seconds=timeout_seconds)
        )

    def stage(self, claim: Claim, result: Json) -> Staged:
        """Put a result into the attempt's own area."""
        text = inline(result)
        content = b'{"fence":' + canonical(claim.fence.as_json()) + b',"result":' + text + b"}"
        body = _object(self._post(self._attempt(claim, "stage"), content))
        return decode(Staged, body, result=result)

    def put_blob(self, claim: Claim, name: str, stream: IO[bytes]) -> Blob:
        """Stream bytes into the attempt's own area. Repeated only where the stream can be read from its start."""
        call = Call(
            method="PUT",
            path=self._attempt(claim, f"blobs/{quote(name, safe='')}"),
            stream=stream,
            stream_start=stream.tell() if stream.seekable() else 0,
            headers={
                "Claim-Fence": canonical(claim.fence.as_json()).decode(),
                "Content-Type": "application/octet-stream",
            },
            repeat=Repeat.BY_NATURE,
        )
        return decode(Blob, _object(self._transport.send(call)), name=name)

    def fetch_parent(self, parent: Parent, into: IO[bytes]) -> None:
        """Write the blob that is a parent's result into a file."""
        where = parent.result
        if not isinstance(where, Mapping) or not {"blob", "attempt_id"} <= where.keys():
            raise ValueError("this parent's result is no blob; it is in `result`")
        fetch_blob(
            self._transport, where["attempt_id"], where["blob"], into, digest=parent.result_digest
        )

    def _attempt(self, claim: Claim, verb: str) -> str:
        return f"attempts/{claim.attempt_id}/{verb}"

    def _post(
        self,
        path: str,
        content: bytes,
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        call = Call(
            method="POST",
            path=path,
            content=content,
            headers=headers,
            repeat=Repeat.BY_NATURE if key is None else Repeat.BY_KEY,
        )
        return self._transport.send(call, retry=retry, timeout_seconds=timeout_seconds)


def refusal(item: Item) -> Problem:
    """The exception for one refused item of a batch."""
    status = item.get("status")
    return problem_from(item, status=status if isinstance(status, int) else 409)


def inline(result: Json) -> bytes:
    """A result's canonical bytes; NotEncodable where it is no JSON, or too large to travel in a body."""
    text = canonical(result)
    if isinstance(result, dict) and list(result) == ["blob"] and isinstance(result["blob"], str):
        raise NotEncodable(
            'an object with only a "blob" names a blob; return what claim.put_blob() gave'
        )
    if len(text) > LARGEST_INLINE_BYTES:
        raise NotEncodable(
            f"{len(text)} bytes do not fit into a request; stream them with claim.put_blob() and return what it gives"
        )
    return text


def error_from(error: BaseException) -> dict[str, str]:
    """An exception as people read it on the task's page."""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    message = str(error).encode(errors="replace").decode().replace("\x00", "\ufffd")
    return {"type": name[:LONGEST_NAME], "message": (message or name)[:LONGEST_MESSAGE]}


def _object(answer: Answer) -> Mapping[str, Any]:
    if not isinstance(answer.body, Mapping):
        raise UnexpectedAnswer(f"expected an object, got {type(answer.body).__name__}")
    return answer.body


def _results(answer: Answer, count: int) -> Sequence[Item]:
    results = _object(answer).get("results")
    if not isinstance(results, list) or not all(isinstance(item, Mapping) for item in results):
        raise UnexpectedAnswer("the answer to a batch has no list of results")
    if len(results) != count:
        raise UnexpectedAnswer(f"{count} items were sent and {len(results)} answered")
    return results
