"""How states look: a tone (a family of colour tokens) and an icon. The word itself is always there too."""

from typing import Final, NamedTuple

from coordinator.states import (
    ApprovalState,
    AttemptState,
    EffectState,
    IncidentState,
    Intake,
    PromotionState,
    RunState,
    TaskState,
)


class Look(NamedTuple):
    tone: str
    icon: str


_UNKNOWN_WORD: Final = Look("expired", "circle")

LOOKS: Final[dict[str, Look]] = {
    TaskState.BLOCKED: Look("expired", "circle-dashed"),
    TaskState.READY: Look("ready", "circle"),
    TaskState.CLAIMED: Look("leased", "circle-play"),
    TaskState.AWAITING_APPROVAL: Look("approval", "stamp"),
    TaskState.AWAITING_RECONCILIATION: Look("unknown", "triangle-alert"),
    TaskState.COMMITTED: Look("commit", "circle-check"),
    TaskState.CANCELLED: Look("expired", "ban"),
    TaskState.SUPERSEDED: Look("expired", "layers-2"),
    TaskState.FAILED: Look("failed", "circle-x"),
    AttemptState.STARTED: Look("leased", "circle-play"),
    AttemptState.RESULT_STAGED: Look("prepared", "package"),
    AttemptState.FENCED: Look("fenced", "shield-x"),
    AttemptState.EXPIRED: Look("expired", "timer-off"),
    AttemptState.STALE_INPUT: Look("expired", "file-x"),
    AttemptState.RELEASED: Look("ready", "undo-2"),
    AttemptState.PARKED: Look("approval", "circle-pause"),
    RunState.ACTIVE: Look("leased", "circle-play"),
    EffectState.PREPARED: Look("prepared", "package"),
    EffectState.ACCEPTED: Look("leased", "send"),
    EffectState.UNKNOWN: Look("unknown", "triangle-alert"),
    EffectState.RESENDABLE: Look("unknown", "repeat"),
    EffectState.VOID: Look("expired", "circle-slash"),
    ApprovalState.PENDING: Look("approval", "stamp"),
    ApprovalState.APPROVED: Look("commit", "circle-check"),
    ApprovalState.CONSUMED: Look("commit", "send"),
    ApprovalState.REJECTED: Look("failed", "circle-x"),
    "CHANGES_ASKED": Look("prepared", "undo-2"),
    "WITHDRAWN": Look("expired", "undo-2"),
    "EXECUTION_EXPIRED": Look("expired", "timer-off"),
    IncidentState.BUMPED: Look("prepared", "chevrons-up"),
    IncidentState.DRAINED: Look("commit", "funnel"),
    IncidentState.SWITCHED: Look("leased", "arrow-left-right"),
    IncidentState.CLOSED: Look("commit", "circle-check"),
    IncidentState.ABORTED: Look("expired", "undo-2"),
    PromotionState.ASKED: Look("approval", "users"),
    PromotionState.CONFIRMED: Look("commit", "circle-check"),
    Intake.OPEN: Look("commit", "door-open"),
    Intake.STOPPED: Look("failed", "octagon-x"),
}

#: Events that are told by a state's word look like it; these have a look of their own.
EVENT_LOOKS: Final[dict[str, Look]] = {
    "SUBMITTED": Look("ready", "plus"),
    "SECRET_REVEALED": Look("unknown", "eye"),
    "PROMOTION_ASKED": Look("approval", "users"),
    "APPROVAL_PASSED": Look("approval", "forward"),
    "UNBLOCKED": Look("ready", "lock-open"),
    "REBLOCKED": Look("expired", "lock"),
    "STAGED": Look("prepared", "package"),
    "RETRY_SCHEDULED": Look("unknown", "rotate-cw"),
    "REOPENED": Look("ready", "rotate-ccw"),
    "SNOOZED": Look("ready", "alarm-clock"),
    "WOKEN": Look("ready", "bell-ring"),
    "REFUSED": Look("fenced", "shield-x"),
    "INCIDENT_OPENED": Look("failed", "siren"),
    "INCIDENT_BUMPED": Look("prepared", "chevrons-up"),
    "INCIDENT_DRAINED": Look("commit", "funnel"),
    "INCIDENT_SWITCHED": Look("leased", "arrow-left-right"),
    "INCIDENT_CLOSED": Look("commit", "circle-check"),
    "INCIDENT_ABORTED": Look("expired", "undo-2"),
    "HELD_FOR_RECONCILIATION": Look("unknown", "triangle-alert"),
    "SETTLED": Look("ready", "circle-check"),
    "EFFECT_PREPARED": Look("prepared", "package"),
    "EFFECT_ACCEPTED": Look("leased", "send"),
    "EFFECT_REDEEMED": Look("leased", "ticket-check"),
    "EFFECT_COMMITTED": Look("commit", "circle-check"),
    "EFFECT_UNKNOWN": Look("unknown", "triangle-alert"),
    "EFFECT_RESENDABLE": Look("unknown", "repeat"),
    "EFFECT_REFUSED": Look("failed", "circle-x"),
    "APPROVAL_REQUESTED": Look("approval", "stamp"),
    "APPROVAL_DECIDED": Look("approval", "users"),
    "APPROVAL_CONSUMED": Look("commit", "send"),
    "APPROVAL_EXPIRED": Look("expired", "timer-off"),
    "ALARM": Look("failed", "siren"),
    "INTAKE_STOPPED": Look("failed", "octagon-x"),
    "CANARY_SET": Look("unknown", "bird"),
    "CANARY_HELD": Look("failed", "octagon-x"),
    "INTAKE_OPENED": Look("commit", "door-open"),
    "EPOCH_BUMPED": Look("prepared", "chevrons-up"),
    "POLICY_CHANGED": Look("expired", "sliders-horizontal"),
    "RUN_SETTLED": Look("expired", "flag"),
    "BREAK_GLASS_OPENED": Look("failed", "lock-open"),
    "BREAK_GLASS_CLOSED": Look("ready", "lock"),
    "IDENTITY_DOUBTED": Look("failed", "octagon-x"),
    "IDENTITY_CONFIRMED": Look("commit", "circle-check"),
    "RESTORE_HOLD_RELEASED": Look("ready", "lock-open"),
}


def look_of(word: str) -> Look:
    return LOOKS.get(word) or EVENT_LOOKS.get(word) or _UNKNOWN_WORD


#: The order in which states are counted and drawn: done first, then moving, then waiting, then stuck.
STATE_ORDER: Final = (
    TaskState.COMMITTED,
    TaskState.CLAIMED,
    TaskState.READY,
    TaskState.BLOCKED,
    TaskState.AWAITING_APPROVAL,
    TaskState.AWAITING_RECONCILIATION,
    TaskState.FAILED,
    TaskState.CANCELLED,
    TaskState.SUPERSEDED,
)


def fill_of(state: str) -> str:
    """The colour of a state in drawings, where greys must be told apart without their words."""
    return "blocked" if state == TaskState.BLOCKED else look_of(state).tone


class Share(NamedTuple):
    """A part of a bar of states, in per mille of its width."""

    state: str
    fill: str
    number: int
    x: int
    width: int


def shares(states: dict[str, int]) -> list[Share]:
    total = sum(states.values()) or 1
    found, before = [], 0
    for state in STATE_ORDER:
        count = states.get(state, 0)
        if count:
            x = before * 1000 // total
            before += count
            found.append(Share(str(state), fill_of(state), count, x, before * 1000 // total - x))
    return found
