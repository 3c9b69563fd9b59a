"""The script of a queue that hands out given grants once, and lets a test spoil any answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.sdk.scripted import Lost, Reply, Seen

Spoil = Callable[[Seen], Reply | Lost | None]


def grant(number: int, *, kind: str = "work", lease_seconds: float = 5) -> dict[str, Any]:
    return {
        "fence": {
            "task_id": f"task-{number}",
            "attempt_id": f"attempt-{number}",
            "scheduler_epoch": 1,
            "claim_generation": 1,
            "cancel_generation": 0,
        },
        "owner": "me",
        "state_version": 2,
        "lease_expires_at": "2026-11-30T06:00:00Z",
        "lease_seconds": lease_seconds,
        "run_id": "run-1",
        "node_id": f"node-{number}",
        "kind": kind,
        "revision": 1,
        "attempt_number": 1,
        "input": {"number": number},
        "input_digest": "sha256:" + "0" * 64,
        "replay": "READ_ONLY",
        "parents": {},
        "effects": [],
    }


class Lane:
    """Answers as the contract says; `spoil` may answer first, as an unkind network would."""

    def __init__(
        self,
        *grants: dict[str, Any],
        spoil: Spoil = lambda seen: None,
        renewed_seconds: float = 5,
    ) -> None:
        self._grants = list(grants)
        self._renewed_seconds = renewed_seconds
        self._spoil = spoil
        self._answered: dict[str, Reply] = {}
        self._lock = threading.Lock()
        self.fenced: set[str] = set()

    def __call__(self, seen: Seen) -> Reply | Lost:
        spoilt = self._spoil(seen)
        granted = None
        if seen.path.endswith("/claims") and not isinstance(spoilt, Reply):
            with self._lock:  # a lost answer was an answer: what it granted is granted
                granted = self._claim(seen)
        if spoilt is not None:
            return spoilt
        return granted or self._answer(seen)

    def _claim(self, seen: Seen) -> Reply:
        key = seen.key or ""
        if key not in self._answered:
            count = seen.json["limit"]
            claims, self._grants = self._grants[:count], self._grants[count:]
            reply = Reply(200, {"scheduler_epoch": 1, "claims": claims})
            if not claims:
                return reply
            self._answered[key] = reply
        return self._answered[key]

    def _answer(self, seen: Seen) -> Reply:
        match seen.path.split("?")[0].rsplit("/", 1)[-1]:
            case "hint":
                return Reply(200, {"poll_after_seconds": 1})
            case "renewals":
                return Reply(
                    200, {"results": [self._renew(item) for item in seen.json["renewals"]]}
                )
            case "commits":
                return Reply(
                    200, {"results": [self._commit(item) for item in seen.json["commits"]]}
                )
            case "fail":
                return Reply(200, {"outcome": "FAILED"})
            case "release":
                return Reply(200, {"outcome": "RELEASED"})
            case _:
                return Reply(
                    200,
                    {
                        "name": "q",
                        "scheduler_epoch": 1,
                        "intake": "OPEN",
                        "active_pool": "p",
                    },
                )

    def _renew(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["fence"]["attempt_id"] in self.fenced:
            return {
                "status": 409,
                "outcome": "FENCED",
                "reason": "STALE_GENERATION",
                "retry": "reclaim",
                "detail": "taken over",
            }
        return {
            "outcome": "RENEWED",
            "lease_seconds": self._renewed_seconds,
            "lease_expires_at": "2026-11-30T06:00:00Z",
        }

    def _commit(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["fence"]["attempt_id"] in self.fenced:
            return {
                "status": 409,
                "outcome": "FENCED",
                "reason": "STALE_GENERATION",
                "retry": "reclaim",
            }
        return {"outcome": "COMMITTED", "result_commit_id": "c", "replayed": False, "released": []}
