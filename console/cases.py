"""A task's case: the facts that its sentences are made of, and words that others wrote put into them safely."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.times import clock_text, full_text
from console.visible import masked, visible
from coordinator.selectors.console_task import LastChange, Neighbour, Neighbours, TaskFacts
from coordinator.selectors.explain import Explanation


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
    zone: tzinfo

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


def by_whom(case: Case, plain: str, with_reason: str) -> SafeString:
    change = case.last_change
    if change is None:
        return sentence(_("Its history has been pruned."))
    reason = str(change.data.get("reason") or "")
    return format_html(
        with_reason if reason else plain,
        actor=code(change.actor),
        at=case.at(change.at),
        reason=visible(masked(reason)),
    )


def names_of(nodes: list[Neighbour], total: int | None = None) -> SafeString:
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


def code(text: object) -> SafeString:
    return format_html("<code>{}</code>", visible(text))


def sentence(text: str) -> SafeString:
    return format_html("{}", text)
