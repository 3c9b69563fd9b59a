"""Why a task is in its state, and what happens next: the two sentences at the top of its page.

Built from facts and from the codes of `explain_task`; every word that others wrote is made visible first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.looks import look_of
from console.times import clock_text, full_text
from console.visible import visible
from coordinator.selectors.console_task import LastChange, Neighbour, Neighbours, TaskFacts
from coordinator.selectors.explain import Explanation, Reason
from coordinator.states import TaskState


@dataclass(frozen=True, slots=True)
class Told:
    """A reason with its code, as the API tells it too."""

    code: str
    text: SafeString
    url: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    tone: str
    icon: str
    why: SafeString
    next: SafeString
    reasons: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that the sentences are made of."""

    task: TaskFacts
    explanation: Explanation
    neighbours: Neighbours
    last_change: LastChange | None
    late_refusals: int
    last_error: dict[str, Any] | None
    now: datetime
    zone: Any

    def at(self, moment: datetime | None) -> SafeString:
        if moment is None:
            return SafeString("—")
        text = f"{clock_text(moment, self.zone, self.now)} {self.zone_name}"
        return format_html(
            '<time datetime="{}" title="{}">{}</time>',
            moment.isoformat(),
            full_text(moment, self.zone),
            text,
        )

    def until(self, moment: datetime | None) -> SafeString:
        """The instant with its countdown."""
        if moment is None:
            return SafeString("—")
        return format_html(
            '{} <span data-until="{}" data-past="{}"></span>',
            self.at(moment),
            moment.isoformat(),
            _("run out"),
        )

    @property
    def zone_name(self) -> str:
        return self.now.astimezone(self.zone).tzname() or "UTC"

    def has(self, code: str) -> bool:
        return any(reason.code == code for reason in self.explanation.reasons)


def tell(case: Case) -> Verdict:
    why, then = _BY_STATE[TaskState(case.task.state)](case)
    tone, icon = look_of(case.task.state)
    return Verdict(tone, icon, why, then, tuple(_reasons(case)))


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
        names=_names(waiting, task.pending_dependencies),
    )
    if stuck:
        return why, format_html(
            _("It stays BLOCKED: {names} does not move until a person reopens or revises it."),
            names=_names(stuck),
        )
    return why, _text(_("The commit of the last of them makes it READY, in the same transaction."))


def _ready(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    if case.has("NOT_BEFORE"):
        why = format_html(
            _("It waits for its time: claimable from {at} on."), at=case.at(task.not_before)
        )
    elif case.explanation.claimable:
        why = format_html(
            _("It is claimable since {at}; no worker has asked for it yet."),
            at=case.at(task.not_before or task.ready_at),
        )
    else:
        why = _text(_("It is READY, but nobody can claim it now."))
    if not case.explanation.claimable and not case.has("NOT_BEFORE"):
        return why, _text(_("It stays READY until what is listed here has changed."))
    then = format_html(
        _("The next claim by pool {pool} in queue {queue} takes it under generation {generation}."),
        pool=_code(task.active_pool),
        queue=_code(task.queue),
        generation=task.claim_generation + 1,
    )
    return why, then


def _claimed(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    if case.has("LEASE_LAPSED"):
        why = format_html(
            _("{owner} held it under generation {generation}; its lease ran out at {at}."),
            owner=_code(task.owner),
            generation=task.claim_generation,
            at=case.at(task.lease_expires_at),
        )
        if case.has("ATTEMPTS_USED_UP"):
            return why, _text(
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
        owner=_code(task.owner),
        generation=task.claim_generation,
        at=case.until(task.lease_expires_at),
    )
    then = format_html(
        _(
            "Unless it is renewed or committed by then, the next claim takes it over under generation {next},"
            " and {owner} is refused from there on."
        ),
        next=task.claim_generation + 1,
        owner=_code(task.owner),
    )
    return why, then


def _awaiting_approval(_case: Case) -> tuple[SafeString, SafeString]:
    return (
        _text(_("A person must decide on the exact payload of its effect. Nobody holds it.")),
        _text(_("Approved, it is READY again; rejected, it is FAILED with the reason.")),
    )


def _awaiting_reconciliation(_case: Case) -> tuple[SafeString, SafeString]:
    return (
        _text(_("One of its effects is UNKNOWN, and no worker can settle it. Nobody holds it.")),
        _text(_("A look-up or a person finds out whether it happened; then it is READY again.")),
    )


def _committed(case: Case) -> tuple[SafeString, SafeString]:
    task = case.task
    why = format_html(
        _("Generation {generation} of {owner} has the canonical commit, since {at}."),
        generation=task.committed_generation or "?",
        owner=_code(task.committed_by),
        at=case.at(task.committed_at),
    )
    if case.late_refusals:
        then = ngettext(
            "This is final. {n} late call of an earlier owner was refused and changed nothing.",
            "This is final. {n} late calls of earlier owners were refused and changed nothing.",
            case.late_refusals,
        )
        return why, format_html(then, n=case.late_refusals)
    return why, _text(_("This is final. Any other write to it is refused."))


def _cancelled(case: Case) -> tuple[SafeString, SafeString]:
    return (
        _by_whom(
            case, _("{actor} cancelled it at {at}."), _("{actor} cancelled it at {at}: “{reason}”")
        ),
        _text(
            _(
                "It stays so until an operator reopens it. What its last owner still sends is refused."
            )
        ),
    )


def _superseded(case: Case) -> tuple[SafeString, SafeString]:
    why = _by_whom(
        case, _("{actor} revised it at {at}."), _("{actor} revised it at {at}: “{reason}”")
    )
    if case.task.successor is None:
        return why, _text(_("This is final. A newer revision took its place."))
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
        return format_html(why, max=task.max_attempts), _text(then)
    last = format_html(
        _("The last error was {type}: {message}"),
        type=_code(error.get("type")),
        message=visible(error.get("message")),
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


# --- reasons --------------------------------------------------------------------------------------

#: What the sentences above tell already.
_TOLD_ABOVE: Final = frozenset(
    {
        "BLOCKED_BY",
        "NOT_BEFORE",
        "LEASED",
        "LEASE_LAPSED",
        "AWAITING_APPROVAL",
        "AWAITING_RECONCILIATION",
        "COMMITTED",
        "CANCELLED",
        "SUPERSEDED",
        "FAILED",
    }
)
_IN_WORDS: Final[dict[str, Promise]] = {
    "INTAKE_STOPPED": gettext_lazy(
        "The intake of queue {queue} is stopped: no claims are granted."
    ),
    "NO_CAPABLE_POOL": gettext_lazy(
        "No valid credential of pool {pool} may work in queue {queue}."
    ),
    "ATTEMPTS_USED_UP": gettext_lazy("{spent} of {max} attempts are spent."),
}


def _reasons(case: Case) -> Iterator[Told]:
    task = case.task
    for reason in case.explanation.reasons:
        if reason.code in _TOLD_ABOVE or task.state == TaskState.FAILED:
            continue
        words = _IN_WORDS.get(reason.code)
        text = (
            format_html(
                str(words),
                queue=_code(task.queue),
                pool=_code(task.active_pool),
                spent=task.spent_attempts,
                max=task.max_attempts,
            )
            if words
            else visible(reason.detail)
        )
        yield Told(reason.code, text, _page_of(reason))


def _page_of(reason: Reason) -> str:
    """The console's page for what the API links to."""
    parts = (reason.link or "").removeprefix("/api/v1/").split("/")
    match parts:
        case ["tasks", task_id]:
            return reverse("console:task", args=[task_id])
        case ["queues", name]:
            return reverse("console:queue", args=[name])
        case _:
            return ""


def _by_whom(case: Case, plain: str, with_reason: str) -> SafeString:
    change = case.last_change
    if change is None:
        return _text(_("Its history has been pruned."))
    reason = str(change.data.get("reason") or "")
    return format_html(
        with_reason if reason else plain,
        actor=_code(change.actor),
        at=case.at(change.at),
        reason=visible(reason),
    )


def _names(nodes: list[Neighbour], total: int | None = None) -> SafeString:
    links = format_html_join(
        ", ",
        '<a href="{}">{}</a>',
        (
            (reverse("console:task", args=[each.task_id]), visible(each.node_id))
            for each in nodes[:4]
        ),
    )
    more = (total if total is not None else len(nodes)) - min(len(nodes), 4)
    return format_html(_("{links} and {n} more"), links=links, n=more) if more > 0 else links


def _code(text: object) -> SafeString:
    return format_html("<code>{}</code>", visible(text))


def _text(text: str) -> SafeString:
    return format_html("{}", text)
