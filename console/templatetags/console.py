"""The words of the console's templates: safe text, icons, state chips, times, numbers."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
from django import template
from django.conf import settings
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from lucide import IconDoesNotExist
from lucide.templatetags.lucide import lucide

from console import bulk_words, service_words, times, visible
from console.bindings import sealed
from console.filters import Wanted, query_string
from console.forms import new_action_key
from console.looks import Share, fill_of, look_of, shares
from coordinator.secrets import mask_text, mask_value
from coordinator.seen import Seen
from coordinator.selectors.console_counts import COUNT_CAP

register = template.Library()

#: A digest, or an id that is one; its beginning tells it apart.
_DIGEST: Final = re.compile(r"((?:sha256:)?[0-9a-f]{12})[0-9a-f]{52}")
#: An address is for administrators; what stands at a downstream is told beside the payload, with its masks.
_UNSAID: Final = frozenset({"address", "present_state"})
#: As events and sentences of ours have it.
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")
_OURS: Final = frozenset({"token_id", "credential_id", "credential", "fencing_token"})
_OWN_FIELDS: Final = frozenset({"queue", "kind", "owner", "run"})
_FIELD_WORDS: Final = {
    "reason": gettext_lazy("Reason"),
    "name": gettext_lazy("Name"),
    "role": gettext_lazy("Role"),
    "pool": gettext_lazy("Pool"),
    "queues": gettext_lazy("Queues"),
    "to_pool": gettext_lazy("To which pool"),
    "input": gettext_lazy("Input"),
    "current": gettext_lazy("Password now"),
    "password": gettext_lazy("New password"),
    "again": gettext_lazy("The same again"),
    "q": gettext_lazy("Id, node or query"),
    "state": gettext_lazy("State"),
    "queue": gettext_lazy("Queue"),
    "kind": gettext_lazy("Kind"),
    "owner": gettext_lazy("Owner"),
    "run": gettext_lazy("Run"),
    "node": gettext_lazy("Node"),
}
_FENCE_WORDS: Final = {
    "scheduler_epoch": "epoch",
    "claim_generation": "generation",
    "cancel_generation": "cancel generation",
}
_TOLD_FIRST: Final = {
    name: place
    for place, name in enumerate(
        (
            "point",
            "outcome",
            "reason",
            "error_type",
            "from",
            "to",
            "owner",
            "claim_generation",
            "scheduler_epoch",
            "fence",
        )
    )
}


@register.filter(name="visible", is_safe=True)
def visible_text(text: object) -> SafeString:
    """Text that others wrote, in one line."""
    return visible.visible(text)


@register.filter(name="visible_name", is_safe=True)
def visible_name(text: object) -> SafeString:
    """A name that others gave, which may be broken at its seams."""
    return visible.visible_name(text)


@register.filter(name="visible_lines", is_safe=True)
def visible_lines(text: object) -> SafeString:
    return visible.visible(text, lines=True)


@register.filter(name="visible_attr")
def visible_attr(text: object) -> str:
    return visible.visible_in_attribute(text)


@register.filter(name="visible_value", is_safe=True)
def visible_value(value: Any) -> SafeString:
    """A value out of an event's data; secrets in it are masked, and digests cut: the whole is told on hover."""
    shown = mask_value(value)[0]
    if isinstance(shown, str) and (found := _DIGEST.fullmatch(shown)):
        return format_html('<span title="{}">{}…</span>', shown, found[1])
    return visible.visible(visible.compact(shown))


@register.filter(name="visible_json", is_safe=True)
def visible_json(text: str | None) -> SafeString:
    """Stored JSON text in one line; secrets in it are masked."""
    return visible.visible(visible.masked_json(text) if text else text)


@register.filter(name="masked")
def masked(text: object) -> str:
    """Free text of others, such as an error's message, without what looks like a secret."""
    return visible.masked("" if text is None else str(text))


@register.filter(name="in_words")
def in_words(text: object) -> str:
    """A sentence that a service said, in the reader's language; others' words as they are."""
    return service_words.in_words("" if text is None else str(text))


@register.filter(name="coded", is_safe=True)
def coded(text: str) -> SafeString:
    """A sentence of ours with names of others between backticks; what looks like a secret is masked."""
    return visible.coded(visible.masked(text))


@register.filter(name="pretty", is_safe=True)
def pretty(text: str) -> SafeString:
    """Stored JSON text, indented; secrets in it are masked."""
    return visible.visible(visible.pretty_json(visible.masked_json(text)), lines=True)


@register.filter(name="pretty_as_it_is", is_safe=True)
def pretty_as_it_is(text: str) -> SafeString:
    """The same without masks: for what is masked already, and for a reveal."""
    return visible.visible(visible.pretty_json(text), lines=True)


@register.filter
def said(data: dict[str, Any]) -> list[tuple[str, Any]]:
    """What an event says, the telling parts first; a fence in words, empty values left out."""
    flat = {
        key: _masked_member(key, value)
        for key, value in data.items()
        if key not in _UNSAID and value not in (None, "", [], {})
    }
    fence = flat.pop("fence", None)
    if isinstance(fence, dict):
        flat["fence"] = " · ".join(
            f"{word} {fence[name]}" for name, word in _FENCE_WORDS.items() if name in fence
        )
    return sorted(flat.items(), key=lambda pair: _TOLD_FIRST.get(pair[0], len(_TOLD_FIRST)))


def _masked_member(key: str, value: Any) -> Any:
    """A member of an event's data. Our own ids are no secrets, whatever they are called."""
    if key in _OURS:
        return value
    return mask_value({key: value})[0][key]


@register.filter
def hides(data: Any) -> bool:
    """Whether something of an event's data, or of stored JSON text, is masked where it is told."""
    if isinstance(data, str):
        return bool(mask_text(data).hidden)
    return any(_masked_member(key, value) != value for key, value in data.items())


@register.simple_tag
def icon(name: str, size: int = 16) -> SafeString:
    """A Lucide icon, hidden from screen readers: words stand beside it."""
    try:
        return SafeString(lucide(str(name), size=size, aria_hidden="true", focusable="false"))
    except IconDoesNotExist:
        if settings.DEBUG:
            raise
        return mark_safe("")


@register.simple_tag
def chip(word: str) -> SafeString:
    look = look_of(word)
    return format_html(
        '<span class="chip c-{}">{}{}</span>', look.tone, icon(look.icon, 12), visible.visible(word)
    )


@register.filter
def tone(word: str) -> str:
    return look_of(word).tone


@register.filter
def fill(word: str) -> str:
    return fill_of(word)


@register.filter
def look_icon(word: str) -> str:
    return look_of(word).icon


@register.filter(name="shares")
def shares_of(states: dict[str, int]) -> list[Share]:
    return shares(states)


@register.simple_tag(takes_context=True)
def when(context: Context, moment: datetime | None, *, zone: bool = False) -> SafeString:
    """An instant in the person's time zone; the whole of it, with the zone, on hover and for machines."""
    if moment is None:
        return mark_safe('<span class="quiet">—</span>')
    info, now = _zone(context), _now(context)
    text = times.clock_text(moment, info, now)
    if zone:
        text += f" {times.zone_text(moment.astimezone(info))}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        times.full_text(moment, info),
        text,
    )


@register.simple_tag(takes_context=True)
def told(context: Context, value: Any) -> SafeString:
    """A value out of an event's data; an instant is told as every other one on the page."""
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        return when(context, datetime.fromisoformat(value))
    return visible_value(value)


@register.simple_tag(takes_context=True)
def coded_with_times(context: Context, text: str) -> SafeString:
    """The same as `coded`, and the instants in it are told as every other one on the page."""
    found = _INSTANT.sub(
        lambda match: when(context, datetime.fromisoformat(match[0]), zone=True),
        coded(service_words.in_words(text)),
    )
    return mark_safe(found)  # noqa: S308 - escaped by `coded` and `when`


@register.filter
def minute(moment: datetime | None) -> datetime | None:
    """The minute alone, of what is computed anew for each poll: else no poll would ever be unchanged."""
    return moment.replace(second=0, microsecond=0) if moment else None


@register.simple_tag(takes_context=True)
def ago(context: Context, moment: datetime | None) -> str:
    return times.ago_text(moment, _now(context)) if moment else ""


@register.simple_tag(takes_context=True)
def until(context: Context, moment: datetime | None) -> SafeString:
    """A countdown. Without scripts it is the instant alone, which is always beside it."""
    if moment is None:
        return mark_safe("")
    past = moment <= _now(context)
    return format_html(
        '<span class="quiet" data-until="{}" data-past="{}">{}</span>',
        moment.isoformat(),
        _("run out"),
        _("run out") if past else "",
    )


@register.simple_tag(takes_context=True)
def zone_name(context: Context) -> str:
    return times.zone_text(_now(context).astimezone(_zone(context)))


@register.filter
def duration(length: Any) -> str:
    return times.duration_text(length) if length is not None else "—"


@register.filter
def capped(count: int | None) -> str:
    """`10 000+` for what was not counted to its end."""
    if count is None:
        return "—"
    return f"{_spaced(COUNT_CAP)}+" if count > COUNT_CAP else _spaced(count)


@register.filter
def spaced(count: int) -> str:
    return _spaced(count)


@register.filter
def money(amount: Decimal | None) -> str:
    return f"${amount:.4f}".rstrip("0").rstrip(".") if amount else "—"


@register.filter
def share(ratio: float | None) -> str:
    """`0.25 %`; a share that is not nothing is never told as nothing."""
    if ratio is None:
        return "—"
    percent = f"{ratio * 100:.2f}".rstrip("0").rstrip(".")
    return "< 0.01 %" if ratio > 0 and percent in ("", "0") else f"{percent} %"


@register.filter
def short(identifier: UUID | str | None) -> str:
    """An id to tell apart at a glance: its time-ordered head and its random tail."""
    text = str(identifier or "")
    return f"{text[:8]}…{text[-4:]}" if len(text) == 36 else text


@register.filter
def short_digest(digest: str | None) -> str:
    return f"{digest[:15]}…" if digest and digest.startswith("sha256:") else (digest or "—")


@register.filter
def clipped(text: object, length: int) -> str:
    """Text for a drawing, where nothing wraps: cut in its middle, its ends tell most."""
    words = str(text or "")
    if len(words) <= length:
        return words
    head = (length - 1) * 2 // 5
    return f"{words[:head]}…{words[len(words) - (length - 1 - head) :]}"


@register.filter(name="raw_json", is_safe=True)
def raw_json(record: object) -> SafeString:
    options = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z
    plain = orjson.loads(orjson.dumps(record, option=orjson.OPT_UTC_Z, default=str))
    shown, _hidden = mask_value(plain)
    return visible.visible(orjson.dumps(shown, option=options).decode(), lines=True)


@register.simple_tag
def action_key() -> SafeString:
    """The key of a form, new with each page: sent twice, it is one act."""
    return format_html('<input type="hidden" name="action_key" value="{}">', new_action_key())


@register.filter
def field_word(name: str) -> str:
    """What a field of a form, or a part of a filter, is called above it."""
    return str(_FIELD_WORDS.get(name, name))


@register.simple_tag
def why_untouched(verb: str, state: str) -> str:
    """Beside a task that a bulk job leaves alone."""
    return bulk_words.why_untouched(verb, state)


@register.filter
def why_never(state: str) -> str:
    """Beside a task that no bulk job can act on."""
    return bulk_words.why_never(state)


#: What names a place in a list, in its address.
_PLACES: Final = ("before", "after", "start", "held")


@register.inclusion_tag("console/parts/pager.html", takes_context=True)
def pager(
    context: Context, older: object, *, place: str = "before", label: str = ""
) -> dict[str, object]:
    """Links to the first page of a list and to its next one, which begins at `older`; plain addresses, no scripts."""
    request = context["request"]
    first = request.GET.copy()
    placed = [name for name in _PLACES if first.pop(name, None)]
    further = first.copy()
    further[place] = str(older)
    return {
        "first": f"{request.path}?{first.urlencode()}".rstrip("?") if placed else "",
        "next": f"{request.path}?{further.urlencode()}" if older else "",
        "label": label or _("Older"),
    }


@register.simple_tag
def bound_to(seen: Seen) -> SafeString:
    """What the page shows of the form's subject; the decision is refused where it has changed."""
    return format_html('<input type="hidden" name="seen" value="{}">', sealed(seen))


@register.simple_tag
def facet_link(wanted: Wanted, state: str) -> str:
    return wanted.link(state=str(state))


@register.simple_tag
def fault_anchor(name: str) -> str:
    """The field of the list's form that a fault is about; words of the query are about the query."""
    return f"f-{name}" if name in _OWN_FIELDS else "f-q"


@register.simple_tag
def page_link(wanted: Wanted, side: str, row_id: UUID) -> str:
    return wanted.link(**{side: str(row_id)})


@register.simple_tag
def query_link(typed: dict[str, str], **more: object) -> str:
    return query_string({**typed, **{name: str(value) for name, value in more.items()}})


@register.simple_tag(takes_context=True)
def tick(context: Context, moment: datetime, with_day: bool) -> str:
    local = moment.astimezone(_zone(context))
    return f"{local:%m-%d %H:%M}" if with_day else f"{local:%H:%M:%S}"


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", "\u202f")


def _now(context: Context) -> datetime:
    now: datetime = context["shell"].now
    return now


def _zone(context: Context) -> ZoneInfo:
    zone: ZoneInfo = context["preferences"].tzinfo
    return zone
