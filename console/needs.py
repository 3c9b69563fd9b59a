"""What needs a human: one row a cause, the gravest first, each with a link to its rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.filters import query_string
from coordinator.selectors.assurance import Assurance
from coordinator.selectors.audits import AuditRecord
from coordinator.selectors.console_causes import Causes
from coordinator.selectors.console_overview import OFTEN, QueueNow, Refusals
from coordinator.selectors.console_shell import Shell
from coordinator.selectors.coverage import Coverage
from coordinator.selectors.drills import QueueDrill
from coordinator.states import Intake, TaskState

#: Claimable work that nobody has asked for, for longer than this, is worth a look.
UNATTENDED: Final = timedelta(minutes=5)
#: So many queues are named in a row.
MAX_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Need:
    """`count` is None where a count says nothing; `since` is how long it has been so."""

    tone: str
    icon: str
    cause: str
    detail: str
    url: str
    count: int | None = None
    since: datetime | None = None


def find_needs(
    queues: Sequence[QueueNow],
    refusals: Refusals,
    shell: Shell,
    assurance: Assurance,
    causes: Causes,
) -> list[Need]:
    return [
        *_ahead(refusals),
        *_uncovered(assurance.coverage),
        *_undrilled(assurance.drills),
        *_broken(assurance.audit),
        *_meddled(causes),
        *_held(shell),
        *_break_glass(shell),
        *_waiting_for_people(queues, shell),
        *_failed(queues),
        *_stopped(queues),
        *_unattended(queues, shell.now),
        *_often(queues),
        *_promotions(causes),
        *_unexplained(causes),
        *_ending(causes),
    ]


def _ahead(refusals: Refusals) -> Iterator[Need]:
    if refusals.ahead:
        newest = refusals.ahead[0]
        yield Need(
            "failed",
            "siren",
            _("A fence was ahead of the database"),
            _(
                "A forgery, or commits were lost: compare with the epoch record before anything else."
            ),
            reverse("console:task-events", args=[newest.task_id])
            if newest.task_id
            else reverse("console:queues"),
            len(refusals.ahead),
            newest.at,
        )


def _uncovered(coverage: Coverage) -> Iterator[Need]:
    missing = sum(point.counted - point.guarded for point in coverage.points)
    if missing:
        names = [point.point for point in coverage.points if point.guarded < point.counted]
        yield Need(
            "failed",
            "shield-x",
            _("Writes that did not pass the guard: coverage is %(percent)s %%")
            % {"percent": f"{coverage.percent:.2f}"},
            _("At %(points)s. Promotion is blocked until an hour without any has passed.")
            % {"points": ", ".join(names)},
            reverse("console:figure", args=["coverage"]),
            missing,
            coverage.uncovered[-1].at if coverage.uncovered else None,
        )


def _undrilled(drills: Sequence[QueueDrill]) -> Iterator[Need]:
    for drill in drills:
        if drill.passed is False:
            yield Need(
                "failed",
                "shield-x",
                _("The fence drill of %(queue)s failed") % {"queue": drill.queue},
                _("Not answered as it must be: %(steps)s") % {"steps": ", ".join(drill.failed)},
                reverse("console:queue", args=[drill.queue]),
                since=drill.at,
            )
        elif drill.is_overdue:
            yield Need(
                "unknown",
                "shield-x",
                _("No fence drill of %(queue)s has passed within the hour")
                % {"queue": drill.queue},
                _("Is Celery running? Run manage.py drill to try the guard now."),
                reverse("console:queue", args=[drill.queue]),
                since=drill.last_passed_at,
            )


def _broken(audit: AuditRecord | None) -> Iterator[Need]:
    if audit is not None and audit.broken:
        yield Need(
            "failed",
            "siren",
            _("The stored history breaks an invariant"),
            ", ".join(audit.broken),
            reverse("console:audit-integrity"),
            sum(audit.broken.values()),
            audit.finished_at,
        )


def _meddled(causes: Causes) -> Iterator[Need]:
    if causes.chain_broken_at:
        yield Need(
            "failed",
            "siren",
            _("A row of the audit does not fit its chain"),
            _("It was changed, removed or put in. Keep the database as it is, and look which."),
            reverse("console:audit-chain"),
            since=causes.chain_broken_at,
        )


def _held(shell: Shell) -> Iterator[Need]:
    for incident in shell.incidents:
        if incident.held_at:
            yield Need(
                "failed",
                "octagon-x",
                _("The canary of an incident was held: its commits are fenced"),
                _("Nothing is let in to %(queues)s until a person says how to go on.")
                % {"queues": incident.queues},
                reverse("console:incident-step", args=[incident.incident_id, 6]),
                since=incident.held_at,
            )


def _break_glass(shell: Shell) -> Iterator[Need]:
    if shell.break_glass:
        yield Need(
            "failed",
            "lock-open",
            _("A break-glass session is open"),
            _("Opened by %(who)s: %(why)s")
            % {"who": shell.break_glass.opened_by, "why": shell.break_glass.reason},
            reverse("console:overview"),
        )


def _waiting_for_people(queues: Sequence[QueueNow], shell: Shell) -> Iterator[Need]:
    """Counted as the pages count that they lead to: effects and requests, whether a task waits for them or not."""
    if shell.unknown:
        yield Need(
            "unknown",
            "triangle-alert",
            _("Effects whose outcome nobody knows"),
            _where(queues, TaskState.AWAITING_RECONCILIATION)
            or _("No task waits for them yet; each may have happened."),
            reverse("console:effects-unknown"),
            shell.unknown,
        )
    if shell.asked:
        yield Need(
            "approval",
            "stamp",
            _("Payloads to approve or reject"),
            _where(queues, TaskState.AWAITING_APPROVAL),
            reverse("console:approvals"),
            shell.asked,
        )


def _failed(queues: Sequence[QueueNow]) -> Iterator[Need]:
    used_up, final = sum(queue.exhausted for queue in queues), sum(queue.failed for queue in queues)
    url = _tasks(state=TaskState.FAILED)
    if used_up:
        yield Need(
            "failed",
            "circle-x",
            _("Tasks that have used up their attempts"),
            _(
                "Each attempt failed or lost its lease. Reopen or revise them: their descendants wait."
            ),
            url,
            used_up,
        )
    if final:
        yield Need(
            "failed",
            "circle-x",
            _("Tasks that failed for good"),
            _("Their workers said that another try can't help. Revise the input, or reopen them."),
            url,
            final,
        )


def _stopped(queues: Sequence[QueueNow]) -> Iterator[Need]:
    for queue in queues:
        if queue.intake != Intake.STOPPED:
            continue
        ready = queue.states.get(TaskState.READY, 0)
        if queue.intake_share:
            cause = _("The intake of %(queue)s lets a part of the tasks in") % {"queue": queue.name}
            detail = _("%(n)d %% of them: look how they fare, then let the others in.") % {
                "n": queue.intake_share
            }
        else:
            cause = _("The intake of %(queue)s is stopped") % {"queue": queue.name}
            detail = ngettext(
                "No claims are granted; what is held may go on. %(n)d READY task waits.",
                "No claims are granted; what is held may go on. %(n)d READY tasks wait.",
                ready,
            ) % {"n": ready}
        url = reverse("console:queue", args=[queue.name])
        yield Need("unknown", "octagon-x", cause, detail, url)


def _unattended(queues: Sequence[QueueNow], now: datetime) -> Iterator[Need]:
    for queue in queues:
        oldest = queue.oldest_claimable_at
        if queue.intake == Intake.OPEN and oldest and oldest < now - UNATTENDED:
            yield Need(
                "unknown",
                "hourglass",
                _("Nobody claims the work in %(queue)s") % {"queue": queue.name},
                _("Is a worker of pool %(pool)s running?") % {"pool": queue.active_pool},
                _tasks(state=TaskState.READY, queue=queue.name),
                queue.claimable,
                oldest,
            )


def _unexplained(causes: Causes) -> Iterator[Need]:
    for queue, count in causes.unexplained.items():
        yield Need(
            "unknown",
            "milestone",
            _("Shadow of %(queue)s: mismatches that nobody has explained") % {"queue": queue},
            _("They block its promotion. Look at one of each class."),
            reverse("console:shadow-queue", args=[queue]),
            count,
        )


def _promotions(causes: Causes) -> Iterator[Need]:
    for each in causes.promotions:
        yield Need(
            "approval",
            "milestone",
            _("A promotion of %(queue)s waits for a second person") % {"queue": each.queue},
            _("%(who)s has asked for it; somebody else confirms what the gate says.")
            % {"who": each.requested_by},
            reverse("console:promotion", args=[each.request_id]),
            since=each.at,
        )


def _ending(causes: Causes) -> Iterator[Need]:
    if causes.ending:
        yield Need(
            "unknown",
            "key-round",
            _("Credentials in use that end within a week"),
            _("Rotate them with an overlap, before their workers are refused."),
            reverse("console:credentials"),
            causes.ending,
        )


def _often(queues: Sequence[QueueNow]) -> Iterator[Need]:
    for queue in queues:
        if queue.often:
            yield Need(
                "unknown",
                "rotate-cw",
                _("Tasks in %(queue)s that keep losing their workers") % {"queue": queue.name},
                _("%(n)d or more attempts of each failed or lost their lease.") % {"n": OFTEN},
                _tasks(queue=queue.name, state=TaskState.READY),
                queue.often,
            )


def _where(queues: Sequence[QueueNow], state: TaskState) -> str:
    """Which queues have tasks in this state, and how many; empty where none has."""
    named = [f"{queue.name} {queue.states[state]}" for queue in queues if queue.states.get(state)]
    told = " · ".join(named[:MAX_NAMED])
    return _("Tasks that wait: %(queues)s") % {"queues": told} if told else ""


def _tasks(**filters: str) -> str:
    return reverse("console:tasks") + query_string(
        {name: str(value) for name, value in filters.items()}
    )
