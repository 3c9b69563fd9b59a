"""What a request's log line tells: who asked for what, about which task and attempt, and what the answer was.

Ids, names of ours and counts; never a body, a payload, a key of shared memory, a token.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coordinator.actors import Operator, Worker
from coordinator.log_lines import bind_words
from coordinator.outcomes import Refusal
from coordinator.services.claims import Claimed
from coordinator.services.grants import Claim

#: Parts of a path that are ids of ours, where they look like one; the rest are a caller's words.
_IDS: Final = frozenset(
    {"task_id", "run_id", "attempt_id", "effect_id", "approval_id", "credential_id", "incident_id"}
)
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{64}")
_QUEUE: Final = re.compile(r"[A-Za-z0-9._:-]{1,80}")


def tell_call(operation: str, caller: Worker | Operator, path: Mapping[str, str]) -> None:
    ids = {name: text for name, text in path.items() if name in _IDS and _ID.fullmatch(text)}
    queue = path.get("queue", "")
    # A worker's queue is told where its credential knows it: anything else is a word of its own.
    if queue in caller.queues if isinstance(caller, Worker) else _QUEUE.fullmatch(queue):
        ids["queue"] = queue
    bind_words(operation=operation, caller=caller.label, caller_id=caller.id, **ids)


def tell_body(body: Any) -> None:
    """The task and the attempt that the call's fence names; of a batch how many, and those of a batch of one."""
    if isinstance(body, list):
        bind_words(items=len(body))
        body = body[0] if len(body) == 1 else None
    fence = getattr(body, "fence", None)
    if fence is not None and hasattr(fence, "attempt_id"):
        bind_words(task_id=str(fence.task_id), attempt_id=str(fence.attempt_id))


def tell_answer(answer: Any) -> None:
    """The outcome and its reason; of a batch, how often each; of a claim, what was granted."""
    match answer:
        case Refusal():
            _bind(outcome=answer.outcome, reason=answer.reason)
        case object(results=list() as results):
            outcomes = Counter(filter(None, map(_outcome, results)))
            _bind(outcomes=dict(outcomes) or None)
        case Claimed():
            _tell_claims(answer.claims)
        case Claim():
            _tell_claims([answer])
        case _:
            _bind(outcome=_outcome(getattr(answer, "body", answer)))


def _tell_claims(claims: Sequence[Claim]) -> None:
    bind_words(granted=len(claims))
    if len(claims) == 1:
        fence = claims[0].fence
        bind_words(task_id=str(fence.task_id), attempt_id=str(fence.attempt_id))


def _outcome(body: Any) -> str | None:
    told = body.get("outcome") if isinstance(body, Mapping) else getattr(body, "outcome", None)
    return str(told) if isinstance(told, str) else None


def _bind(**told: Any) -> None:
    bind_words(**{name: value for name, value in told.items() if value is not None})
