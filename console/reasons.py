"""What `explain_task` says beyond the two sentences: each reason with its code and a link into the console."""

from collections.abc import Iterator
from typing import Final

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext_lazy

from console.cases import Case, Told, code
from console.service_words import in_words
from console.visible import coded, masked
from coordinator.selectors.explain import Reason
from coordinator.states import TaskState

#: What the sentences above tell already.
TOLD_ABOVE: Final = frozenset(
    {
        "BLOCKED_BY",
        "NOT_BEFORE",
        "LEASED",
        "LEASE_LAPSED",
        "COMMITTED",
        "CANCELLED",
        "SUPERSEDED",
        "FAILED",
    }
)
IN_WORDS: Final[dict[str, Promise]] = {
    "NO_CAPABLE_POOL": gettext_lazy(
        "No valid credential of pool {pool} may work in queue {queue}."
    ),
    "AWAITING_APPROVAL": gettext_lazy("The request, with the whole payload."),
    "AWAITING_RECONCILIATION": gettext_lazy("The effect, with everything that is known of it."),
    "RESTORE_HOLD": gettext_lazy("What the restore holds waits for a person's word."),
    "ATTEMPTS_USED_UP": gettext_lazy("{spent} of {max} attempts are spent."),
}


def reasons_of(case: Case) -> Iterator[Told]:
    task = case.task
    for reason in case.explanation.reasons:
        if reason.code in TOLD_ABOVE or task.state == TaskState.FAILED:
            continue
        words = IN_WORDS.get(reason.code)
        text = (
            format_html(
                str(words),
                queue=code(task.queue),
                pool=code(task.active_pool),
                spent=task.spent_attempts,
                max=task.max_attempts,
            )
            if words
            else coded(masked(in_words(reason.detail)))
        )
        yield Told(reason.code, text, _page_of(reason))


def _page_of(reason: Reason) -> str:
    """The console's page for what the API links to; for a hold, the one that releases it."""
    parts = (reason.link or "").removeprefix("/api/v1/").split("/")
    match parts:
        case ["tasks", task_id] if reason.code == "RESTORE_HOLD":
            return reverse("console:task-release", args=[task_id])
        case ["tasks", task_id]:
            return reverse("console:task", args=[task_id])
        case ["approvals", approval_id]:
            return reverse("console:approval", args=[approval_id])
        case ["effects", effect_id]:
            return reverse("console:effect", args=[effect_id])
        case ["queues", name]:
            return reverse("console:queue", args=[name])
        case _:
            return ""
