"""What a person set for this browser: theme, time zone, shortcuts. Kept in cookies that only the server reads."""

from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest, HttpResponse

THEMES: Final = ("system", "light", "dark")
DEFAULT_ZONE: Final = "UTC"
_YEAR_SECONDS: Final = 365 * 24 * 3600
_THEME, _ZONE, _KEYS = "tenure_theme", "tenure_zone", "tenure_keys"


@dataclass(frozen=True, slots=True)
class Preferences:
    theme: str = "system"
    zone: str = DEFAULT_ZONE
    shortcuts: bool = True

    @property
    def tzinfo(self) -> ZoneInfo:
        return ZoneInfo(self.zone)


def read_preferences(request: HttpRequest) -> Preferences:
    """A cookie with anything else than we would write counts as not set."""
    theme, zone = request.COOKIES.get(_THEME, ""), request.COOKIES.get(_ZONE, "")
    return Preferences(
        theme=theme if theme in THEMES else "system",
        zone=zone if zone and zone in available_timezones() else DEFAULT_ZONE,
        shortcuts=request.COOKIES.get(_KEYS) != "off",
    )


def write_preferences(response: HttpResponse, wanted: Preferences, *, language: str = "") -> None:
    values = {_THEME: wanted.theme, _ZONE: wanted.zone, _KEYS: "on" if wanted.shortcuts else "off"}
    if language:
        values[settings.LANGUAGE_COOKIE_NAME] = language
    for name, value in values.items():
        response.set_cookie(
            name,
            value,
            max_age=_YEAR_SECONDS,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
