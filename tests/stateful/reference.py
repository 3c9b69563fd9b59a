"""What claim.v1 answers, as plain Python: one queue, one fleet, and numbers that anybody can add.

Written from the contract (3, 7, 8, 10, 12) and not from the services. It predicts each answer's
outcome and reason, and what the task and its one effect look like afterwards.
"""

from dataclasses import dataclass, field
from typing import Any, Final

FINAL: Final = frozenset({"COMMITTED", "CANCELLED", "SUPERSEDED", "FAILED"})
MAY_BE_OUT: Final = frozenset({"ACCEPTED", "UNKNOWN", "RESENDABLE"})
MAX_ATTEMPTS: Final = 3


@dataclass
class Attempt:
    """One grant. `end` is the call that ended it, by its verb and arguments; its repeat is answered again."""

    task: "Task"
    fence: dict[str, Any]
    input_digest: str
    live: bool = True
    end: tuple[Any, ...] | None = None
    answer: str = ""
    committed: bool = False
    dispatches: list[int] = field(default_factory=list)  # the numbers of those that it made
    dispatch_ids: dict[int, str] = field(default_factory=dict)


@dataclass
class Effect:
    state: str = "UNBOUND"
    payload: int = 0
    dispatches: int = 0
    effect_id: str = ""
    payload_digest: str = ""
    open: set[int] = field(default_factory=set)
    receipts: set[int] = field(default_factory=set)


@dataclass
class Task:
    task_id: str
    node: str
    state: str
    parents: list["Task"] = field(default_factory=list)
    children: list["Task"] = field(default_factory=list)
    generation: int = 0
    cancels: int = 0
    spent: int = 0
    holder: Attempt | None = None
    lapsed: bool = False
    due: bool = True
    effect: Effect = field(default_factory=Effect)
    grants: list[Attempt] = field(default_factory=list)


@dataclass
class Queue:
    epoch: int = 1
    intake: str = "OPEN"
    tasks: list[Task] = field(default_factory=list)

    # --- the guard -------------------------------------------------------------------------------

    def judge(self, attempt: Attempt, call: tuple[Any, ...], *, commits: bool = False) -> str:
        """CURRENT, REPEAT, or the refusal: the first mismatch decides (contract 3)."""
        task, fence = attempt.task, attempt.fence
        if attempt.end == call:
            return "REPEAT"
        if task.state == "SUPERSEDED":
            return "STALE_INPUT"
        if fence["cancel_generation"] != task.cancels or task.state == "CANCELLED":
            return "CANCELLED"
        if commits and attempt.committed:
            return "ALREADY_COMMITTED"
        if fence["scheduler_epoch"] != self.epoch:
            return "FENCED STALE_EPOCH"
        if task.holder is not attempt or task.state != "CLAIMED":
            return "FENCED STALE_GENERATION"
        return "CURRENT"

    # --- grants ----------------------------------------------------------------------------------

    def claimable(self, task: Task) -> bool:
        return (task.state == "READY" and task.due) or (task.state == "CLAIMED" and task.lapsed)

    def claims(self, epoch: int) -> str:
        if epoch != self.epoch:
            return f"FENCED {'AHEAD' if epoch > self.epoch else 'STALE_EPOCH'}"
        return "INTAKE_STOPPED" if self.intake == "STOPPED" else "GRANTED"

    def fails_instead(self, task: Task) -> bool:
        """A lapsed attempt counts; with none left the task fails instead of being granted again (contract 7)."""
        return task.state == "CLAIMED" and task.spent + 1 >= MAX_ATTEMPTS

    def grant(self, task: Task, fence: dict[str, Any], input_digest: str) -> Attempt:
        if task.state == "CLAIMED":
            task.spent += 1
            self._leave(task)
        task.generation += 1
        task.state, task.lapsed, task.due = "CLAIMED", False, True
        task.holder = Attempt(task, fence, input_digest)
        task.grants.append(task.holder)
        return task.holder

    def exhaust(self, task: Task) -> None:
        task.spent += 1
        self._leave(task)
        task.state = "FAILED"

    def _leave(self, task: Task) -> None:
        """The attempt has ended; what it has accepted and not settled is UNKNOWN."""
        if task.holder is not None:
            task.holder.live = False
        task.holder, task.lapsed = None, False
        if task.effect.state == "ACCEPTED":
            task.effect.state = "UNKNOWN"

    # --- ends ------------------------------------------------------------------------------------

    def commit(self, attempt: Attempt, call: tuple[Any, ...]) -> str:
        verdict = self.judge(attempt, call, commits=True)
        if verdict != "CURRENT":
            return "COMMITTED" if verdict == "REPEAT" else verdict
        task = attempt.task
        if task.effect.state in MAY_BE_OUT:
            return "RECONCILE_FIRST"
        attempt.end, attempt.committed = call, True
        self._leave(task)
        task.state = "COMMITTED"
        if task.effect.state == "PREPARED":
            task.effect.state = "VOID"
        for child in task.children:
            if child.state == "BLOCKED" and self.ready(child):
                child.state = "READY"
        return "COMMITTED"

    @staticmethod
    def ready(task: Task) -> bool:
        return all(parent.state == "COMMITTED" for parent in task.parents)

    def fail(self, attempt: Attempt, call: tuple[Any, ...], *, retryable: bool) -> str:
        verdict = self.judge(attempt, call)
        if verdict != "CURRENT":
            return attempt.answer if verdict == "REPEAT" else verdict
        task = attempt.task
        self._leave(task)
        task.spent += 1
        again = retryable and task.spent < MAX_ATTEMPTS
        task.state, task.due = ("READY", False) if again else ("FAILED", True)
        attempt.end, attempt.answer = call, "RETRY_SCHEDULED" if again else "FAILED"
        return attempt.answer

    def release(self, attempt: Attempt, call: tuple[Any, ...]) -> str:
        verdict = self.judge(attempt, call)
        if verdict != "CURRENT":
            return "RELEASED" if verdict == "REPEAT" else verdict
        self._leave(attempt.task)
        attempt.task.state, attempt.task.due = "READY", True
        attempt.end = call
        return "RELEASED"

    # --- people ----------------------------------------------------------------------------------

    def cancel(self, task: Task) -> str:
        match task.state:
            case "COMMITTED":
                return "ALREADY_COMMITTED"
            case "SUPERSEDED":
                return "STALE_INPUT"
            case "FAILED":
                return "ALREADY_SETTLED"
            case "CANCELLED":
                return "CANCELLED"
        self._leave(task)
        task.state = "CANCELLED"
        task.cancels += 1
        return "CANCELLED"

    def reopen(self, task: Task) -> str:
        if task.state not in ("CANCELLED", "FAILED"):
            return "REFUSED"
        task.state = "READY" if self.ready(task) else "BLOCKED"
        task.spent, task.due = 0, True
        return "REOPENED"

    def revise(self, task: Task, task_id: str) -> Task:
        """The new task; whether it may be is asked of `revisable` first."""
        self._leave(task)
        task.state = "SUPERSEDED"
        if task.effect.state == "PREPARED":
            task.effect.state = "VOID"
        new = Task(task_id, task.node, "READY", list(task.parents), list(task.children))
        new.state = "READY" if self.ready(new) else "BLOCKED"
        for parent in new.parents:
            parent.children = [new if child is task else child for child in parent.children]
        for child in new.children:
            child.parents = [new if parent is task else parent for parent in child.parents]
            if child.state == "READY":
                child.state = "BLOCKED"
        self.tasks.append(new)
        return new

    def revisable(self, task: Task) -> str:
        if task.state in ("CANCELLED", "SUPERSEDED"):
            return {"CANCELLED": "CANCELLED", "SUPERSEDED": "STALE_INPUT"}[task.state]
        if task.effect.state in MAY_BE_OUT:
            return "RECONCILE_FIRST"
        if task.state == "COMMITTED" and any(child.generation for child in self._below(task)):
            return "ALREADY_COMMITTED"
        return "REVISED"

    def _below(self, task: Task) -> list[Task]:
        return [each for child in task.children for each in (child, *self._below(child))]

    def bump(self) -> None:
        self.epoch += 1
        for task in self.tasks:
            if task.state == "CLAIMED":
                self._leave(task)
                task.state, task.due = "READY", True

    # --- the effect ------------------------------------------------------------------------------

    def prepare(self, attempt: Attempt, payload: int) -> str:
        verdict = self.judge(attempt, ("prepare",))
        if verdict != "CURRENT":
            return verdict
        effect = attempt.task.effect
        if effect.state == "UNBOUND":
            effect.state, effect.payload = "PREPARED", payload
        return effect.state if effect.payload == payload else "PAYLOAD_CONFLICT"

    def accept(self, attempt: Attempt) -> str:
        verdict = self.judge(attempt, ("accept",))
        if verdict != "CURRENT":
            return verdict
        effect = attempt.task.effect
        match effect.state:
            case "ACCEPTED" | "UNKNOWN":
                return "RECONCILE_FIRST"
            case "COMMITTED":
                return "ALREADY_SETTLED"
        effect.dispatches += 1
        effect.state = "ACCEPTED"
        effect.open.add(effect.dispatches)
        attempt.dispatches.append(effect.dispatches)
        return "ACCEPTED"

    def report(self, attempt: Attempt, number: int, outcome: str) -> str:
        """Of a dispatch of this attempt that has no outcome yet (contract 8.3)."""
        effect = attempt.task.effect
        verdict = self.judge(attempt, ("report",))
        if outcome == "COMMITTED":
            effect.receipts.add(number)
        if verdict != "CURRENT":
            if outcome == "COMMITTED" and effect.state in ("PREPARED", "RESENDABLE"):
                effect.state = "UNKNOWN"
            return verdict
        match outcome:
            case "COMMITTED":
                effect.state = "COMMITTED"
                effect.open.discard(number)
            case "REFUSED":
                effect.open.discard(number)
                effect.state = "UNKNOWN" if effect.open else "PREPARED"
            case _:
                effect.state = "UNKNOWN"
        return "RECORDED"

    def happened(self, task: Task) -> str:
        """An operator settles it with a receipt."""
        if task.effect.state not in MAY_BE_OUT:
            return "REFUSED"
        task.effect.state = "COMMITTED"
        task.effect.open.clear()
        return "SETTLED"
