"""Who may do what: the one table of contract 15, looked at by every API view on the server.

A worker acts by the scopes of its credential and only in its queues; a person acts by
permissions. An operation without a scope is refused to every worker, one without a permission
to every person: no operator claims or commits, no worker cancels or approves.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coordinator.actors import Actor, Operator, Worker


class Operation(StrEnum):
    """Everything that the API can be asked for; the value is its operation id in the schema."""

    READ_ME = "read_me"
    LIST_QUEUES = "list_queues"
    READ_QUEUE = "read_queue"
    CREATE_QUEUE = "create_queue"
    CHANGE_POLICY = "change_policy"
    SET_INTAKE = "set_intake"
    RUN_DRILL = "run_drill"
    LIST_DRILLS = "list_drills"
    READ_COVERAGE = "read_coverage"
    START_AUDIT = "start_audit"
    LIST_AUDITS = "list_audits"
    READ_AUDIT = "read_audit"
    READ_AUDIT_SEAL = "read_audit_seal"
    VERIFY_AUDIT_CHAIN = "verify_audit_chain"
    EXPORT_AUDIT_CHAIN = "export_audit_chain"
    REVEAL_AUDIT_CHAIN = "reveal_audit_chain"
    LIST_POOLS = "list_pools"
    CREATE_POOL = "create_pool"
    LIST_DOWNSTREAMS = "list_downstreams"
    REGISTER_DOWNSTREAM = "register_downstream"
    CHANGE_DOWNSTREAM = "change_downstream"
    LIST_CREDENTIALS = "list_credentials"
    CREATE_CREDENTIAL = "create_credential"
    REVOKE_CREDENTIAL = "revoke_credential"
    SUBMIT_RUN = "submit_run"
    SUBMIT_TASK = "submit_task"
    LIST_RUNS = "list_runs"
    READ_RUN = "read_run"
    READ_LINEAGE = "read_lineage"
    CANCEL_RUN = "cancel_run"
    LIST_TASKS = "list_tasks"
    READ_TASK = "read_task"
    LIST_ATTEMPTS = "list_attempts"
    LIST_EVENTS = "list_events"
    LIST_CANDIDATES = "list_candidates"
    EXPLAIN_TASK = "explain_task"
    CANCEL_TASK = "cancel_task"
    REVISE_TASK = "revise_task"
    REOPEN_TASK = "reopen_task"
    RELEASE_RESTORE_HOLD = "release_restore_hold"
    SNOOZE_TASK = "snooze_task"
    WAKE_TASK = "wake_task"
    LIST_VIEWS = "list_views"
    SAVE_VIEW = "save_view"
    RENAME_VIEW = "rename_view"
    DELETE_VIEW = "delete_view"
    LIST_BULKS = "list_bulks"
    REVIEW_BULK = "review_bulk"
    READ_BULK = "read_bulk"
    LIST_BULK_ITEMS = "list_bulk_items"
    START_BULK = "start_bulk"
    STOP_BULK = "stop_bulk"
    UNDO_BULK = "undo_bulk"
    CLAIM_TASKS = "claim_tasks"
    CLAIM_TASK = "claim_task"
    WAIT_FOR_WORK = "wait_for_work"
    RENEW_LEASE = "renew_lease"
    RENEW_LEASES = "renew_leases"
    STAGE_RESULT = "stage_result"
    TAKE_SHADOW_EVENTS = "take_shadow_events"
    READ_SHADOW = "read_shadow"
    LIST_SHADOW_ROUNDS = "list_shadow_rounds"
    READ_SHADOW_ROUND = "read_shadow_round"
    EXPLAIN_SHADOW_ROUND = "explain_shadow_round"
    READ_PROMOTION = "read_promotion"
    PROMOTE_QUEUE = "promote_queue"
    CONFIRM_PROMOTION = "confirm_promotion"
    WITHDRAW_PROMOTION = "withdraw_promotion"
    LIST_PROMOTION_REQUESTS = "list_promotion_requests"
    READ_PROMOTION_REQUEST = "read_promotion_request"
    DEMOTE_QUEUE = "demote_queue"
    PUT_BLOB = "put_blob"
    READ_BLOB = "read_blob"
    COMMIT_RESULT = "commit_result"
    COMMIT_RESULTS = "commit_results"
    FAIL_ATTEMPT = "fail_attempt"
    RELEASE_ATTEMPT = "release_attempt"
    READ_MEMORY = "read_memory"
    PREPARE_EFFECT = "prepare_effect"
    ACCEPT_EFFECT = "accept_effect"
    REPORT_EFFECT = "report_effect"
    START_LOOK_UP = "start_look_up"
    ASK_DOWNSTREAM = "ask_downstream"
    RECONCILE_EFFECT = "reconcile_effect"
    REDEEM_DISPATCH = "redeem_dispatch"
    LIST_EFFECTS = "list_effects"
    READ_EFFECT = "read_effect"
    GROUP_EFFECTS = "group_effects"
    LIST_TASK_EFFECTS = "list_task_effects"
    REVEAL_EFFECT = "reveal_effect"
    REVEAL_TASK = "reveal_task"
    REVEAL_RUN = "reveal_run"
    REVEAL_EVENT = "reveal_event"
    REVEAL_MEMORY = "reveal_memory"
    LIST_APPROVALS = "list_approvals"
    READ_APPROVAL = "read_approval"
    APPROVE = "approve"
    REJECT = "reject"
    ASK_FOR_CHANGES = "ask_for_changes"
    PASS_APPROVAL = "pass_approval"  # noqa: S105 (an operation, no secret)
    READ_PRESENT = "read_present"
    LOOK_AT_PRESENT = "look_at_present"
    READ_METRICS = "read_metrics"
    OPEN_INCIDENT = "open_incident"
    LIST_INCIDENTS = "list_incidents"
    READ_INCIDENT = "read_incident"
    PREVIEW_BUMP = "preview_bump"
    BUMP_INCIDENT = "bump_incident"
    READ_GATE = "read_gate"
    DECIDE_CANDIDATES = "decide_candidates"
    SWITCH_POOL = "switch_pool"
    RESUME_INTAKE = "resume_intake"
    ABORT_INCIDENT = "abort_incident"
    REPORT_INCIDENT = "report_incident"


class Scope(StrEnum):
    """What a worker's credential is for."""

    WORK = "work"
    SUBMIT = "submit"
    SHADOW = "shadow"
    GATE = "gate"


@dataclass(frozen=True, slots=True)
class Rule:
    """Any of `scopes` opens an operation to a worker, `permission` to a person."""

    scopes: frozenset[Scope] = frozenset()
    permission: str | None = None


_ANY_SCOPE: Final = frozenset(Scope)
_WORK: Final = Rule(frozenset({Scope.WORK}))
_READ: Final = Rule(frozenset({Scope.WORK, Scope.SUBMIT}), "view")
_READ_PAYLOAD: Final = Rule(frozenset({Scope.WORK, Scope.SUBMIT}), "view_payload")
_SUBMIT: Final = Rule(frozenset({Scope.SUBMIT}), "submit")
_PEOPLE_SEE: Final = Rule(permission="view")
_CANCEL: Final = Rule(permission="cancel")
_SETTLE: Final = Rule(frozenset({Scope.WORK}), "reconcile")
_APPROVE: Final = Rule(permission="approve")
_OPERATE: Final = Rule(permission="operate_incidents")
_ADMINISTER: Final = Rule(permission="administer")

_O = Operation
RULES: Final[dict[Operation, Rule]] = {
    _O.READ_ME: Rule(_ANY_SCOPE, "view"),
    _O.LIST_QUEUES: Rule(_ANY_SCOPE, "view"),
    _O.READ_QUEUE: Rule(_ANY_SCOPE, "view"),
    _O.CREATE_QUEUE: _ADMINISTER,
    _O.CHANGE_POLICY: _ADMINISTER,
    _O.SET_INTAKE: Rule(permission="operate_incidents"),
    _O.TAKE_SHADOW_EVENTS: Rule(frozenset({Scope.SHADOW})),
    _O.READ_SHADOW: _PEOPLE_SEE,
    _O.LIST_SHADOW_ROUNDS: _PEOPLE_SEE,
    _O.READ_SHADOW_ROUND: _PEOPLE_SEE,
    # Explaining a mismatch opens the gate as much as promoting does: one permission for both.
    _O.EXPLAIN_SHADOW_ROUND: Rule(permission="operate_incidents"),
    _O.READ_PROMOTION: _PEOPLE_SEE,
    # Who runs the queue moves it forward, two of them; the server's own gate decides whether it may.
    _O.PROMOTE_QUEUE: Rule(permission="operate_incidents"),
    _O.CONFIRM_PROMOTION: Rule(permission="operate_incidents"),
    _O.WITHDRAW_PROMOTION: Rule(permission="operate_incidents"),
    _O.LIST_PROMOTION_REQUESTS: _PEOPLE_SEE,
    _O.READ_PROMOTION_REQUEST: _PEOPLE_SEE,
    _O.DEMOTE_QUEUE: Rule(permission="bump_epoch"),  # it is one
    _O.SET_INTAKE: _OPERATE,
    _O.RUN_DRILL: Rule(permission="operate_incidents"),
    _O.LIST_DRILLS: _PEOPLE_SEE,
    _O.READ_COVERAGE: _PEOPLE_SEE,
    _O.START_AUDIT: Rule(permission="operate_incidents"),
    _O.LIST_AUDITS: _PEOPLE_SEE,
    _O.READ_AUDIT: _PEOPLE_SEE,
    _O.READ_AUDIT_SEAL: _PEOPLE_SEE,
    _O.VERIFY_AUDIT_CHAIN: _PEOPLE_SEE,
    # With the addresses, which are part of what was sealed.
    _O.EXPORT_AUDIT_CHAIN: _ADMINISTER,
    # And `reveal_secrets` besides.
    _O.REVEAL_AUDIT_CHAIN: _ADMINISTER,
    _O.LIST_POOLS: _PEOPLE_SEE,
    _O.CREATE_POOL: _ADMINISTER,
    _O.LIST_DOWNSTREAMS: _PEOPLE_SEE,
    _O.REGISTER_DOWNSTREAM: _ADMINISTER,
    _O.CHANGE_DOWNSTREAM: _ADMINISTER,
    _O.LIST_CREDENTIALS: _ADMINISTER,
    _O.CREATE_CREDENTIAL: _ADMINISTER,
    _O.REVOKE_CREDENTIAL: _ADMINISTER,
    _O.SUBMIT_RUN: _SUBMIT,
    _O.SUBMIT_TASK: _SUBMIT,
    _O.LIST_RUNS: _READ,
    _O.READ_RUN: _READ,
    _O.READ_LINEAGE: _READ,
    _O.CANCEL_RUN: _CANCEL,
    _O.LIST_TASKS: _READ,
    _O.READ_TASK: _READ,
    _O.LIST_ATTEMPTS: _READ,
    _O.LIST_EVENTS: _READ,
    _O.LIST_CANDIDATES: _READ_PAYLOAD,
    _O.EXPLAIN_TASK: _READ,
    _O.CANCEL_TASK: _CANCEL,
    _O.REVISE_TASK: _CANCEL,
    _O.REOPEN_TASK: _CANCEL,
    _O.RELEASE_RESTORE_HOLD: Rule(permission="reconcile"),
    _O.SNOOZE_TASK: _CANCEL,
    _O.WAKE_TASK: _CANCEL,
    _O.LIST_VIEWS: _PEOPLE_SEE,
    # Whoever sees the list keeps filters of it; only their maker, or who administers, changes one.
    _O.SAVE_VIEW: _PEOPLE_SEE,
    _O.RENAME_VIEW: _PEOPLE_SEE,
    _O.DELETE_VIEW: _PEOPLE_SEE,
    _O.LIST_BULKS: _PEOPLE_SEE,
    _O.REVIEW_BULK: _CANCEL,
    _O.READ_BULK: _PEOPLE_SEE,
    _O.LIST_BULK_ITEMS: _PEOPLE_SEE,
    _O.START_BULK: _CANCEL,
    _O.STOP_BULK: _CANCEL,
    _O.UNDO_BULK: _CANCEL,
    _O.CLAIM_TASKS: _WORK,
    _O.CLAIM_TASK: _WORK,
    _O.WAIT_FOR_WORK: _WORK,
    _O.RENEW_LEASE: _WORK,
    _O.RENEW_LEASES: _WORK,
    _O.STAGE_RESULT: _WORK,
    _O.PUT_BLOB: _WORK,
    _O.READ_BLOB: _READ_PAYLOAD,
    _O.COMMIT_RESULT: _WORK,
    _O.COMMIT_RESULTS: _WORK,
    _O.FAIL_ATTEMPT: _WORK,
    _O.RELEASE_ATTEMPT: _WORK,
    _O.READ_MEMORY: _READ_PAYLOAD,
    _O.PREPARE_EFFECT: _WORK,
    _O.ACCEPT_EFFECT: _WORK,
    _O.REPORT_EFFECT: Rule(frozenset({Scope.WORK, Scope.GATE})),
    _O.START_LOOK_UP: _SETTLE,
    _O.ASK_DOWNSTREAM: Rule(permission="reconcile"),
    _O.RECONCILE_EFFECT: _SETTLE,
    _O.REDEEM_DISPATCH: Rule(frozenset({Scope.GATE})),
    _O.LIST_EFFECTS: _READ,
    _O.READ_EFFECT: _READ,
    _O.GROUP_EFFECTS: _READ,
    _O.LIST_TASK_EFFECTS: _READ,
    _O.REVEAL_EFFECT: Rule(permission="reveal_secrets"),
    _O.REVEAL_TASK: Rule(permission="reveal_secrets"),
    _O.REVEAL_RUN: Rule(permission="reveal_secrets"),
    _O.REVEAL_EVENT: Rule(permission="reveal_secrets"),
    _O.REVEAL_MEMORY: Rule(permission="reveal_secrets"),
    _O.LIST_APPROVALS: _PEOPLE_SEE,
    _O.READ_APPROVAL: _PEOPLE_SEE,
    _O.APPROVE: _APPROVE,
    _O.REJECT: _APPROVE,
    # Its task is revised with the same input; whoever may let it fail may let it be tried anew.
    _O.ASK_FOR_CHANGES: _APPROVE,
    _O.PASS_APPROVAL: _APPROVE,
    # What was told is a part of the payload: who sees that, sees this. Asking is for who may decide.
    _O.READ_PRESENT: Rule(permission="view_payload"),
    _O.LOOK_AT_PRESENT: _APPROVE,
    _O.READ_METRICS: _PEOPLE_SEE,
    _O.OPEN_INCIDENT: _OPERATE,
    _O.LIST_INCIDENTS: _PEOPLE_SEE,
    _O.READ_INCIDENT: _PEOPLE_SEE,
    _O.PREVIEW_BUMP: _PEOPLE_SEE,
    _O.BUMP_INCIDENT: Rule(permission="bump_epoch"),
    _O.READ_GATE: _PEOPLE_SEE,
    _O.DECIDE_CANDIDATES: _OPERATE,
    _O.SWITCH_POOL: _OPERATE,
    _O.RESUME_INTAKE: _OPERATE,
    _O.ABORT_INCIDENT: _OPERATE,
    _O.REPORT_INCIDENT: _PEOPLE_SEE,
}


def may(actor: Actor, operation: Operation) -> bool:
    """Whether the operation is open to the actor at all; which rows it may touch is told by `sees_queue`."""
    rule = RULES[operation]
    match actor:
        case Worker():
            return not rule.scopes.isdisjoint(actor.scopes)
        case Operator():
            return rule.permission is not None and rule.permission in actor.permissions
        case _:
            return False


def sees_queue(actor: Actor, queue: str) -> bool:
    """Workers see the queues that their credential names, people all of them."""
    return not isinstance(actor, Worker) or actor.reaches(queue)


def sees_payloads(actor: Actor) -> bool:
    """Inputs and results are a permission of their own for people; workers need them to work."""
    return isinstance(actor, Worker) or (
        isinstance(actor, Operator) and "view_payload" in actor.permissions
    )


def has_permission(actor: Actor, permission: str) -> bool:
    """A finer permission that an operation asks for only in some cases; workers have none."""
    return isinstance(actor, Operator) and permission in actor.permissions
