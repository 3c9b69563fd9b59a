"""Why a task is in its state, and what happens next: the two sentences at the top of its page.

Built from facts and from the codes of `explain_task`; every word that others wrote is made visible first.
"""

from typing import Final

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.cases import Case, Verdict, by_whom, code, names_of, sentence
from console.looks import look_of
from console.reasons import reasons_of
from console.visible import masked, visible
from coordinator.states import TaskState


def tell(case: Case) -> Verdict:
    why, then = _BY_STATE[TaskState(case.task.state)](case)
    tone, icon = look_of(case.task.state)
    return Verdict(tone, icon, why, then, tuple(reasons_of(case)))


# --- one pair of sentences for each state --------------------------------------------------------


def _blocked(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    waiting = [each for each in case.neighbours.parents if each.state != TaskState.COMMITTED]
    stuck = [each for each in waiting if each.state in (TaskState.FAILED, TaskState.CANCELLED)]
    why = format_html(
        ngettext(
            "It waits for {n} parent without a canonical commit: {names}.",
            "It waits for {n} parents without a canonical commit: {names}.",
            task.pending_dependencies,
        ),
        n=task.pending_dependencies,
        names=names_of(waiting, task.pending_dependencies),
    )
    if stuck:
        return why, format_html(
            _("It stays BLOCKED: {names} does not move until a person reopens or revises it."),
            names=names_of(stuck),
        )
    return why, sentence(
        _("The commit of the last of them makes it READY, in the same transaction.")
    )


def _waits_for_its_time(case: Case) -> SafeString:
    until, change = case.at(case.task.not_before), case.last_change
    if change is not None and change.kind == "SNOOZED":
        return format_html(
            _("{actor} holds it back until {at}: “{reason}”."),
            actor=code(change.actor),
            at=until,
            reason=visible(masked(str(change.data.get("reason") or ""))),
        )
    return format_html(_("It waits for its time: claimable from {at} on."), at=until)


def _ready(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    if case.has("NOT_BEFORE"):
        why = _waits_for_its_time(case)
    elif case.explanation.claimable:
        why = format_html(
            _("It is claimable since {at}; no worker has asked for it yet."),
            at=case.at(task.not_before or task.ready_at),
        )
    else:
        why = sentence(_("It is READY, but nobody can claim it now."))
    if not case.explanation.claimable and not case.has("NOT_BEFORE"):
        return why, sentence(_("It stays READY until what is listed here has changed."))
    then = format_html(
        _("The next claim by pool {pool} in queue {queue} takes it under generation {generation}."),
        pool=code(task.active_pool),
        queue=code(task.queue),
        generation=task.claim_generation + 1,
    )
    return why, then


def _claimed(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    if case.has("LEASE_LAPSED"):
        why = format_html(
            _("{owner} held it under generation {generation}; its lease ran out at {at}."),
            owner=code(task.owner),
            generation=task.claim_generation,
            at=case.at(task.lease_expires_at),
        )
        if case.has("ATTEMPTS_USED_UP"):
            return why, sentence(
                _(
                    "Its attempts are used up: the next claim ends it as FAILED, unless it commits before."
                )
            )
        return why, format_html(
            _(
                "The next claim takes it over under generation {next}. Until then a commit of generation"
                " {generation} counts: the fence decides, not the clock."
            ),
            next=task.claim_generation + 1,
            generation=task.claim_generation,
        )
    why = format_html(
        _("{owner} holds it under generation {generation}; its lease runs until {at}."),
        owner=code(task.owner),
        generation=task.claim_generation,
        at=case.until(task.lease_expires_at),
    )
    then = format_html(
        _(
            "Unless it is renewed or committed by then, the next claim takes it over under generation {next},"
            " and {owner} is refused from there on."
        ),
        next=task.claim_generation + 1,
        owner=code(task.owner),
    )
    return why, then


def _awaiting_approval(_case: Case) -> tuple[SafeString, SafeString]:
    return (
        sentence(_("A person must decide on the exact payload of its effect. Nobody holds it.")),
        sentence(_("Approved, it is READY again; rejected, it is FAILED with the reason.")),
    )


def _awaiting_reconciliation(case: Case) -> tuple[SafeString, SafeString]:
    if case.has("RESTORE_HOLD"):
        return (
            sentence(
                _(
                    "The database was restored while it was open: an effect of it may have happened"
                    " that can't be seen here. Nobody holds it."
                )
            ),
            sentence(
                _(
                    "A person settles what is UNKNOWN, reads the outside's own log and releases it;"
                    " then it is READY again."
                )
            ),
        )
    return (
        sentence(_("One of its effects is UNKNOWN, and no worker can settle it. Nobody holds it.")),
        sentence(_("A look-up or a person finds out whether it happened; then it is READY again.")),
    )


def _committed(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    why = format_html(
        _("Generation {generation} of {owner} has the canonical commit, since {at}."),
        generation=task.committed_generation or "?",
        owner=code(task.committed_by),
        at=case.at(task.committed_at),
    )
    if case.late_refusals:
        then = ngettext(
            "This is final. {n} late call of an earlier owner was refused and changed nothing.",
            "This is final. {n} late calls of earlier owners were refused and changed nothing.",
            case.late_refusals,
        )
        return why, format_html(then, n=case.late_refusals)
    return why, sentence(_("This is final. Any other write to it is refused."))


def _cancelled(case: Case) -> tuple[SafeString, SafeString]:
    return (
        by_whom(
            case, _("{actor} cancelled it at {at}."), _("{actor} cancelled it at {at}: “{reason}”")
        ),
        sentence(
            _(
                "It stays so until an operator reopens it. What its last owner still sends is refused."
            )
        ),
    )


def _superseded(case: Case) -> tuple[SafeString, SafeString]:
    why = by_whom(
        case, _("{actor} revised it at {at}."), _("{actor} revised it at {at}: “{reason}”")
    )
    if case.task.successor is None:
        return why, sentence(_("This is final. A newer revision took its place."))
    return why, format_html(
        _('This is final. <a href="{url}">Revision {n}</a> took its place.'),
        url=reverse("console:task", args=[case.task.successor]),
        n=case.task.revision + 1,
    )


def _failed(case: Case) -> tuple[SafeString, SafeString]:
    task, error = case.task, case.last_error
    if task.spent_attempts >= task.max_attempts:
        why = _("All {max} attempts are used up; each of them failed or lost its lease.")
    else:
        why = _("Its last attempt failed, and said that another try can't help.")
    then = _(
        "A person decides: reopen it with a fresh allowance, or revise its input. Its descendants wait."
    )
    if error is None:
        return format_html(why, max=task.max_attempts), sentence(then)
    last = format_html(
        _("The last error was {type}: {message}"),
        type=code(error.get("type")),
        message=visible(masked(str(error.get("message") or ""))),
    )
    return format_html(why, max=task.max_attempts), format_html("{}<br>{}", last, then)


_BY_STATE: Final = {
    TaskState.BLOCKED: _blocked,
    TaskState.READY: _ready,
    TaskState.CLAIMED: _claimed,
    TaskState.AWAITING_APPROVAL: _awaiting_approval,
    TaskState.AWAITING_RECONCILIATION: _awaiting_reconciliation,
    TaskState.COMMITTED: _committed,
    TaskState.CANCELLED: _cancelled,
    TaskState.SUPERSEDED: _superseded,
    TaskState.FAILED: _failed,
}
