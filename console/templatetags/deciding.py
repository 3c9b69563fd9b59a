"""The words of the pages where people decide: time that is left, as a bar and in words."""

from datetime import datetime, timedelta
from typing import Any, Final

from django import template
from django.template import Context
from django.utils.translation import gettext as _

from console.times import span_text

register = template.Library()

#: The bar moves in so many steps, so that an unchanged page stays the same for a while.
STEPS: Final = 20
#: Less than this is told in another tone.
SHORT: Final = timedelta(minutes=15)


@register.inclusion_tag("console/parts/time_left.html", takes_context=True)
def time_left(context: Context, begun: datetime, ends: datetime) -> dict[str, Any]:
    """How much of the time from `begun` to `ends` is left: a bar, and the time in words beside the instant."""
    now: datetime = context["shell"].now
    left, whole = ends - now, max(ends - begun, timedelta(seconds=1))
    share = min(max(left / whole, 0.0), 1.0)
    past = left <= timedelta(0)
    return {
        "shell": context["shell"],
        "preferences": context["preferences"],
        "ends": ends,
        "width": -int(-share * STEPS // 1) * (100 // STEPS),
        "tone": "expired" if past else "unknown" if left < SHORT else "approval",
        "words": _("run out")
        if past
        else _("%(time)s left") % {"time": span_text(left.total_seconds())},
    }
