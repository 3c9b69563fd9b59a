"""What people are given masked, as it is stored: for a reason that is kept, each time anew (contract 15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenure.calling import Calling, segment
from tenure.decoding import decode
from tenure.records import Json


@dataclass(frozen=True, kw_only=True)
class Revealed:
    """What is masked for people, as it is stored. Who asked for it, and why, is on record."""

    part: str
    value: Json
    digest: str
    places: tuple[str, ...]


class Revealing(Calling):
    """What `Client` can show of what is masked. All raise NotFound, Forbidden; InvalidInput where nothing is masked."""

    def reveal(
        self,
        effect_id: str,
        *,
        reason: str,
        part: str = "payload",
        evidence_id: int | None = None,
    ) -> Revealed:
        """`part` is payload, condition or receipt; or evidence, the piece with this id."""
        body: dict[str, Json] = {"part": part}
        if evidence_id is not None:
            body["evidence_id"] = evidence_id
        return self._revealed(f"effects/{segment(effect_id)}", body, reason)

    def reveal_task(
        self,
        task_id: str,
        *,
        reason: str,
        part: str = "input",
        attempt_id: str | None = None,
        result_digest: str | None = None,
    ) -> Revealed:
        """`part` is input or result; error, of an attempt; or candidate, of an attempt, with this digest."""
        named = {"attempt_id": attempt_id, "result_digest": result_digest}
        body = {name: value for name, value in named.items() if value is not None}
        return self._revealed(f"tasks/{segment(task_id)}", {"part": part, **body}, reason)

    def reveal_run(self, run_id: str, *, reason: str) -> Revealed:
        """The metadata of a run."""
        return self._revealed(f"runs/{segment(run_id)}", {}, reason)

    def reveal_event(self, event_id: int, *, reason: str) -> Revealed:
        """What an event says, without the address of who did it."""
        return self._revealed(f"events/{event_id}", {}, reason)

    def reveal_memory(
        self, namespace: str, key: str, *, reason: str, version: int | None = None
    ) -> Revealed:
        """A version of a key of shared memory, the newest unless told otherwise."""
        body: dict[str, Json] = {"namespace": namespace, "key": key}
        if version is not None:
            body["version"] = version
        return self._revealed("memory", body, reason)

    def _revealed(self, path: str, body: Mapping[str, Json], reason: str) -> Revealed:
        answer = self._post(f"{path}/reveal", {**body, "reason": reason})
        return decode(Revealed, answer.body)
