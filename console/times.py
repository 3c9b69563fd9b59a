"""Instants and durations in words. Absolute time always stands; the relative one comes in addition."""

from datetime import datetime, timedelta, tzinfo
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400


def clock_text(moment: datetime, zone: tzinfo, now: datetime) -> str:
    """`14:02:11`, with the date where it is another day than `now`'s."""
    local, today = moment.astimezone(zone), now.astimezone(zone).date()
    if local.date() == today:
        return f"{local:%H:%M:%S}"
    if local.year == today.year:
        return f"{local:%m-%d %H:%M:%S}"
    return f"{local:%Y-%m-%d %H:%M}"


def full_text(moment: datetime, zone: tzinfo) -> str:
    local = moment.astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {zone_text(local)}"


def zone_text(local: datetime) -> str:
    return local.tzname() or "UTC"


def ago_text(moment: datetime, now: datetime) -> str:
    """In whole minutes, so that an unchanged page stays the same for a minute."""
    seconds = (now - moment).total_seconds()
    if seconds < _MINUTE:
        return _("less than a minute ago")
    return _("%(time)s ago") % {"time": span_text(seconds)}


def span_text(seconds: float) -> str:
    """One unit, rounded down: 42 s, 3 min, 5 h, 2 days."""
    if seconds < _MINUTE:
        return _("%(n)d s") % {"n": seconds}
    if seconds < _HOUR:
        return _("%(n)d min") % {"n": seconds // _MINUTE}
    if seconds < _DAY:
        return _("%(n)d h") % {"n": seconds // _HOUR}
    days = int(seconds // _DAY)
    return ngettext("%(n)d day", "%(n)d days", days) % {"n": days}


def duration_text(length: timedelta | float) -> str:
    """A measured duration, as exactly as is worth reading: 82 ms, 4.2 s, 3 min 20 s, 2 h 5 min."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    if seconds < 1:
        return _("%(n)d ms") % {"n": round(seconds * 1000)}
    if seconds < 10 and seconds != int(seconds):
        return _("%(n).1f s") % {"n": seconds}
    if seconds < _MINUTE:
        return _("%(n)d s") % {"n": seconds}
    whole = int(seconds)
    if whole < _HOUR and whole % _MINUTE == 0:
        return _("%(n)d min") % {"n": whole // _MINUTE}
    if whole < _HOUR:
        return _("%(m)d min %(s)d s") % {"m": whole // _MINUTE, "s": whole % _MINUTE}
    if whole < _DAY and whole % _HOUR < _MINUTE:
        return _("%(n)d h") % {"n": whole // _HOUR}
    if whole < _DAY:
        return _("%(h)d h %(m)d min") % {"h": whole // _HOUR, "m": whole % _HOUR // _MINUTE}
    days = whole // _DAY
    if whole % _DAY < _HOUR:
        return ngettext("%(n)d day", "%(n)d days", days) % {"n": days}
    return ngettext("%(n)d day %(h)d h", "%(n)d days %(h)d h", days) % {
        "n": days,
        "h": whole % _DAY // _HOUR,
    }
