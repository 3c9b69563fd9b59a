"""What a bulk job is called, on its review and afterwards, by what it does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from coordinator.services.bulks import ALLOWS, Verb
from coordinator.states import TaskState


@dataclass(frozen=True, slots=True)
class BulkWords:
    """`act` is the button and the heading of a review, with the number of tasks; `done` tells an item's outcome,
    `only` what can be acted on at all.
    """

    title: Promise
    verb: Promise
    review: Promise
    act: Callable[[int, str], str]
    consequence: Promise
    will: Promise
    done: Promise
    only: Promise
    tone: str
    button: str


#: Why a task in this state can't be acted on, where the act does not allow the state.
_STANDS: Final[dict[str, Promise]] = {
    TaskState.BLOCKED: gettext_lazy("It is not over: it waits for its parents."),
    TaskState.READY: gettext_lazy("It is not over: it waits for a worker."),
    TaskState.CLAIMED: gettext_lazy("A worker holds it."),
    TaskState.AWAITING_APPROVAL: gettext_lazy("It waits for a person's word."),
    TaskState.AWAITING_RECONCILIATION: gettext_lazy("It waits until its effects are settled."),
    TaskState.COMMITTED: gettext_lazy("It has committed: its result stands."),
    TaskState.FAILED: gettext_lazy("It has failed: it is over."),
    TaskState.CANCELLED: gettext_lazy("It is cancelled: it is over."),
    TaskState.SUPERSEDED: gettext_lazy("A newer revision took its place."),
}


def why_untouched(verb: str, state: str) -> str:
    """Why a task that was found in this state at the review is left alone."""
    if Verb(verb) is Verb.WAKE and state in ALLOWS[Verb.WAKE]:
        return _("It waits for no time.")
    return str(_STANDS.get(state, ""))


def why_never(state: str) -> str:
    """Why nothing can be done to such a task in bulk; empty where something can."""
    if any(state in allowed for allowed in ALLOWS.values()):
        return ""
    return str(_STANDS.get(state, ""))


def words_of(verb: str) -> BulkWords:
    return _WORDS[Verb(verb)]


def all_words() -> list[tuple[Verb, BulkWords]]:
    """In the order of the buttons under the list."""
    return list(_WORDS.items())


def _cancel(n: int, shown: str) -> str:
    return ngettext("Cancel %(shown)s task", "Cancel %(shown)s tasks", n) % {"shown": shown}


def _reopen(n: int, shown: str) -> str:
    return ngettext("Reopen %(shown)s task", "Reopen %(shown)s tasks", n) % {"shown": shown}


def _snooze(n: int, shown: str) -> str:
    return ngettext("Hold %(shown)s task back", "Hold %(shown)s tasks back", n) % {"shown": shown}


def _wake(n: int, shown: str) -> str:
    return ngettext("Let %(shown)s task go now", "Let %(shown)s tasks go now", n) % {"shown": shown}


_WORDS: Final = {
    Verb.CANCEL: BulkWords(
        title=gettext_lazy("Bulk cancel"),
        verb=gettext_lazy("Cancel"),
        review=gettext_lazy("Review cancelling…"),
        act=_cancel,
        consequence=gettext_lazy(
            "Whoever holds one of them is refused from there on. What was sent out is not un-sent."
        ),
        will=gettext_lazy("Will be cancelled"),
        done=gettext_lazy("cancelled"),
        only=gettext_lazy("What is over can't be cancelled."),
        tone="failed",
        button="danger",
    ),
    Verb.REOPEN: BulkWords(
        title=gettext_lazy("Bulk reopen"),
        verb=gettext_lazy("Reopen"),
        review=gettext_lazy("Review reopening…"),
        act=_reopen,
        consequence=gettext_lazy(
            "They become READY with fresh attempts, or BLOCKED where a parent has not committed."
        ),
        will=gettext_lazy("Will be reopened"),
        done=gettext_lazy("reopened"),
        only=gettext_lazy("Only FAILED and CANCELLED tasks can be reopened."),
        tone="prepared",
        button="primary",
    ),
    Verb.SNOOZE: BulkWords(
        title=gettext_lazy("Bulk snooze"),
        verb=gettext_lazy("Snooze"),
        review=gettext_lazy("Review snoozing…"),
        act=_snooze,
        consequence=gettext_lazy(
            "Nobody claims them before the time. They keep their states, and it can be undone as a whole."
        ),
        will=gettext_lazy("Will be held back"),
        done=gettext_lazy("held back"),
        only=gettext_lazy("Only READY and BLOCKED tasks can be held back."),
        tone="ready",
        button="primary",
    ),
    Verb.WAKE: BulkWords(
        title=gettext_lazy("Bulk wake"),
        verb=gettext_lazy("Wake"),
        review=gettext_lazy("Review waking…"),
        act=_wake,
        consequence=gettext_lazy(
            "They may be claimed at once, whatever made them wait: a person, their submission, or a retry."
        ),
        will=gettext_lazy("Will be let go"),
        done=gettext_lazy("let go"),
        only=gettext_lazy("Only READY and BLOCKED tasks that wait for a time can be let go."),
        tone="prepared",
        button="primary",
    ),
}
