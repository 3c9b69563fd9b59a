"""What people do to tasks: cancel, revise, reopen (contract 10), hold back for a while, let go after a restore (12)."""

from coordinator.access import Operation
from coordinator.api.bodies.bulks import SnoozeBody
from coordinator.api.bodies.runs import CancelTaskBody, ReopenBody, ReviseBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import Cancelled, cancel_task
from coordinator.services.restore_holds import HoldReleased, release_restore_hold
from coordinator.services.revisions import Reopened, Revised, reopen_task, revise_task
from coordinator.services.snoozes import Snoozed, Woken, snooze_task, wake_task


class TaskCancel(Endpoint):
    @operation(
        Operation.CANCEL_TASK,
        "Cancel a task; a repeat gets the same receipt",
        body=CancelTaskBody,
        answer=Cancelled,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.ALREADY_COMMITTED,
            Outcome.ALREADY_SETTLED,
            Outcome.STALE_INPUT,
            Outcome.STATE_VERSION_MISMATCH,
        ),
    )
    def post(self, call: Call[CancelTaskBody], task_id: str) -> Cancelled | Refusal:
        return cancel_task(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=call.body.expected_state_version,
            reason=call.body.reason,
            actor=call.caller,
        )


class TaskRevise(Endpoint):
    @operation(
        Operation.REVISE_TASK,
        "Give a node another input: a new task takes the old one's place",
        body=ReviseBody,
        answer=Revised,
        status=201,
        keyed=True,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.ALREADY_SETTLED,
            Outcome.STALE_INPUT,
            Outcome.STATE_VERSION_MISMATCH,
            Outcome.RECONCILE_FIRST,
            Outcome.IDEMPOTENCY_CONFLICT,
        ),
    )
    def post(self, call: Call[ReviseBody], task_id: str) -> Revised | Refusal:
        return revise_task(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=call.body.expected_state_version,
            input=call.body.input,
            reason=call.body.reason,
            actor=call.caller,
            request=call.request_key(),
        )


class TaskReopen(Endpoint):
    @operation(
        Operation.REOPEN_TASK,
        "Let a cancelled or failed task be worked on again",
        body=ReopenBody,
        answer=Reopened,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.ALREADY_SETTLED,
            Outcome.STALE_INPUT,
            Outcome.STATE_VERSION_MISMATCH,
        ),
    )
    def post(self, call: Call[ReopenBody], task_id: str) -> Reopened | Refusal:
        return reopen_task(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=call.body.expected_state_version,
            reason=call.body.reason,
            actor=call.caller,
        )


class TaskRestoreHold(Endpoint):
    @operation(
        Operation.RELEASE_RESTORE_HOLD,
        "Say that no unseen effect of a restored task happened, and let it go on",
        body=ReopenBody,
        answer=HoldReleased,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.RECONCILE_FIRST,
            Outcome.ALREADY_SETTLED,
            Outcome.STATE_VERSION_MISMATCH,
        ),
    )
    def post(self, call: Call[ReopenBody], task_id: str) -> HoldReleased | Refusal:
        return release_restore_hold(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=call.body.expected_state_version,
            reason=call.body.reason,
            actor=call.caller,
        )


_NOT_HELD_BACK = (
    Outcome.NOT_FOUND,
    Outcome.ALREADY_COMMITTED,
    Outcome.ALREADY_SETTLED,
    Outcome.STALE_INPUT,
    Outcome.STATE_VERSION_MISMATCH,
)


class TaskSnooze(Endpoint):
    @operation(
        Operation.SNOOZE_TASK,
        "Hold a READY or BLOCKED task back until a time, at most 30 days from now",
        body=SnoozeBody,
        answer=Snoozed,
        refusals=_NOT_HELD_BACK,
    )
    def post(self, call: Call[SnoozeBody], task_id: str) -> Snoozed | Refusal:
        return snooze_task(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=call.body.expected_state_version,
            not_before=call.body.not_before,
            reason=call.body.reason,
            actor=call.caller,
        )


class TaskWake(Endpoint):
    @operation(
        Operation.WAKE_TASK,
        "Let a task go at once that waits for a time, whatever made it wait",
        body=ReopenBody,
        answer=Woken,
        refusals=_NOT_HELD_BACK,
    )
    def post(self, call: Call[ReopenBody], task_id: str) -> Woken | Refusal:
        return wake_task(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=call.body.expected_state_version,
            reason=call.body.reason,
            actor=call.caller,
        )
