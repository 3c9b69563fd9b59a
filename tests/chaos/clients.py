"""From what clients saw to one task's operations, and what must hold between tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.chaos.observations import Seen
from tests.chaos.order import CANCELLED, Operation, Undecided, Verb, explain

INFINITE = float("inf")
_FINISHED = ("COMMITTED", "CANCELLED")
#: What a worker is told only while it holds its task.
_HOLDING = frozenset({"RENEWED", "RECONCILE_FIRST", "RECORDED", "ACCEPTED", "STAGED"})


@dataclass
class Clients:
    """Everything that was seen, by task."""

    seen: Sequence[Seen]
    operations: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    unheard_claims: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    #: Every grant that somebody heard of: its claim, and when it was answered.
    grants: dict[tuple[str, int], tuple[dict[str, Any], float]] = field(default_factory=dict)

    @classmethod
    def of(cls, seen: Sequence[Seen]) -> Clients:
        clients = cls(seen)
        clients._claims()
        for each in seen:
            clients._sort(each)
        clients._epochs()
        return clients

    def judge(self) -> list[str]:
        """What no order explains, in words; empty where everything is in order."""
        wrong = list(self.complaints)
        for task_id, operations in self.operations.items():
            try:
                if explain(operations, unheard_claims=self.unheard_claims):
                    continue
                wrong.append(f"no order explains task {task_id}:\n{_story(operations)}")
            except Undecided:
                wrong.append(f"too many orders of task {task_id} ({len(operations)} calls)")
        return [*wrong, *self._serial_keys()]

    # -- sorting ----------------------------------------------------------------------------------------------------

    def _claims(self) -> None:
        """One grant for each attempt that was heard of; a repeat that lists it again says that it still holds."""
        by_key: dict[str, list[Seen]] = defaultdict(list)
        for each in self.seen:
            if each.path.endswith("/claims"):
                by_key[each.key or ""].append(each)
        for calls in by_key.values():
            began = min(each.began for each in calls)
            heard = sorted((each for each in calls if each.status == 200), key=_ended)
            if any(each.ended is None for each in calls) or not heard:
                self.unheard_claims.append(began)
            granted: set[str] = set()
            for each in heard:
                for claim in each.answer["claims"]:
                    self._grant(
                        each, claim, began, is_new=claim["fence"]["attempt_id"] not in granted
                    )
                    granted.add(claim["fence"]["attempt_id"])

    def _grant(self, seen: Seen, claim: dict[str, Any], began: float, *, is_new: bool) -> None:
        fence = claim["fence"]
        place = (fence["task_id"], fence["claim_generation"])
        if is_new:
            self.grants[place] = (claim, _ended(seen))
            if claim["node_id"] == "d" and set(claim["parents"]) != {"b", "c"}:
                self.complaints.append(
                    f"{place} was granted before its parents: {claim['parents']}"
                )
        self.operations[place[0]].append(
            Operation(
                Verb.GRANT if is_new else Verb.HOLD,
                began if is_new else seen.began,
                _ended(seen),
                place[1],
                client=seen.client,
            )
        )

    def _sort(self, seen: Seen) -> None:
        if (
            seen.status is not None
            and seen.status >= 500
            and _outcome(seen.answer) != "INTAKE_STOPPED"
        ):
            self.complaints.append(f"{seen.path} was answered {seen.status}: {seen.answer}")
            return
        head, _, verb = seen.path.rpartition("/")
        if verb in ("renewals", "commits"):
            self._batch(seen, verb)
        elif verb in ("fail", "release", "report", "accept", "effects", "commit", "renew"):
            fence = (seen.body or {}).get("fence")
            if fence is not None:
                self._call(seen, verb, fence, seen.answer)
        elif verb == "cancel" and head.startswith("tasks/"):
            self._cancel(seen, head.removeprefix("tasks/"))
        elif head == "tasks" and seen.body is None and seen.status == 200:
            self._read(seen, seen.answer)

    def _batch(self, seen: Seen, verb: str) -> None:
        items = seen.body[verb]
        answers = seen.answer["results"] if seen.status == 200 else [None] * len(items)
        for item, answer in zip(items, answers, strict=True):
            self._call(seen, verb.removesuffix("s"), item["fence"], answer)

    def _call(self, seen: Seen, verb: str, fence: dict[str, Any], answer: Any) -> None:
        told = self._operation(verb, seen, answer)
        if told is not None:
            name, result = told
            ended = INFINITE if name is Verb.MAYBE_COMMIT else _ended(seen)
            generation = fence["claim_generation"]
            made = Operation(name, seen.began, ended, generation, result, seen.client)
            self.operations[fence["task_id"]].append(made)

    def _operation(self, verb: str, seen: Seen, answer: Any) -> tuple[Verb, str] | None:
        if seen.ended is None:
            return (Verb.MAYBE_COMMIT, "") if verb == "commit" else None
        outcome = _outcome(answer)
        if outcome == "FENCED":
            if answer.get("reason") == "AHEAD":
                self.complaints.append(f"{seen.path}: a fence was called ahead")
            return Verb.FENCED, ""
        if outcome == "CANCELLED":
            return Verb.TOLD_CANCELLED, ""
        if outcome == "COMMITTED" and verb == "commit":
            return Verb.COMMIT, answer["result_commit_id"]
        if outcome in ("ALREADY_COMMITTED", "STALE_INPUT"):
            self.complaints.append(f"{seen.path} was told {outcome}: nobody does such a thing here")
        if verb in ("fail", "release") and seen.status == 200 and not answer.get("replayed"):
            return Verb.LET_GO, ""
        if outcome in _HOLDING and not (verb == "accept" and outcome == "RECORDED"):
            return Verb.HOLD, ""
        return None

    def _cancel(self, seen: Seen, task_id: str) -> None:
        outcome = _outcome(seen.answer)
        if seen.ended is None:
            made = Operation(Verb.MAYBE_CANCEL, seen.began, INFINITE)
        elif outcome == "CANCELLED":
            made = Operation(Verb.CANCEL, seen.began, seen.ended)
        elif outcome == "ALREADY_COMMITTED":
            made = Operation(Verb.TOO_LATE, seen.began, seen.ended)
        else:
            return
        self.operations[task_id].append(made)

    def _read(self, seen: Seen, task: dict[str, Any]) -> None:
        state = task["state"]
        result = {"COMMITTED": task["result_commit_id"], "CANCELLED": CANCELLED}.get(
            state, "CLAIMED" if state == "CLAIMED" else "OPEN"
        )
        self.operations[task["task_id"]].append(
            Operation(Verb.READ, seen.began, _ended(seen), task["claim_generation"], result)
        )

    # -- between tasks ----------------------------------------------------------------------------------------------

    def _epochs(self) -> None:
        """From a bump's return on, nothing is granted to who asks with an older epoch."""
        bumps = [
            (each.ended, each.answer["scheduler_epoch"])
            for each in self.seen
            if each.path == "bump" and each.ended is not None
        ]
        for each in self.seen:
            if each.path.endswith("/claims") and each.status == 200 and each.answer["claims"]:
                asked = each.body["scheduler_epoch"]
                over = [epoch for at, epoch in bumps if at < each.began and epoch > asked]
                # A repeat of what was granted before lists nothing that a bump has ended.
                if over:
                    self.complaints.append(f"epoch {asked} was granted work after {max(over)}")

    def _serial_keys(self) -> list[str]:
        """From a grant's answer to its commit's call a task was surely held: no two of one key at once."""
        commits: dict[tuple[str, int], float] = {}
        for task_id, operations in self.operations.items():
            for each in operations:
                if each.verb in (Verb.COMMIT, Verb.MAYBE_COMMIT):  # the first may have landed
                    place = (task_id, each.generation)
                    commits[place] = min(each.began, commits.get(place, INFINITE))
        done = {
            (task_id, each.generation)
            for task_id, operations in self.operations.items()
            for each in operations
            if each.verb is Verb.COMMIT
        }
        held: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for place, (_, answered) in self.grants.items():
            key = self.serial_keys.get(place[0])
            if key and place in done:
                held[key].append((answered, commits[place]))
        return [
            f"two tasks with {key} were held at once"
            for key, spans in held.items()
            for (_, ended), (began, _) in _neighbours(spans)
            if began < ended
        ]

    @property
    def serial_keys(self) -> dict[str, str]:
        """By task, as submitted."""
        found = {}
        for each in self.seen:
            if each.path == "runs" and each.status == 201:
                keys = {node["node_id"]: node.get("serial_key") for node in each.body["nodes"]}
                for task in each.answer["tasks"]:
                    if keys[task["node_id"]]:
                        found[task["task_id"]] = keys[task["node_id"]]
        return found


def _neighbours(
    spans: list[tuple[float, float]],
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    ordered = sorted(spans)
    return pairwise(ordered)


def _ended(seen: Seen) -> float:
    return INFINITE if seen.ended is None else seen.ended


def _outcome(answer: Any) -> str:
    return str(answer.get("outcome", "")) if isinstance(answer, dict) else ""


def _story(operations: list[Operation]) -> str:
    ordered = sorted(operations, key=lambda each: each.began)
    return "\n".join(
        f"  {each.began:.3f} to {each.ended:.3f} g{each.generation} {each.verb} {each.result} {each.client}"
        for each in ordered
    )
