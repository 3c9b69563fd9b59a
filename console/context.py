"""What every template of the console knows."""

from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest

from console.pages import shell_of
from console.preferences import read_preferences

_NEXT_THEME: Final = {"system": "dark", "dark": "light", "light": "system"}


def shell(request: HttpRequest) -> dict[str, Any]:
    """Nothing for pages that are not the console's own (admin, API documentation)."""
    if not _is_console(request):
        return {}
    preferences = read_preferences(request)
    return {
        "shell": shell_of(request),
        "preferences": preferences,
        "environment": settings.ENVIRONMENT,
        "section": _section(request),
        "next_theme": _NEXT_THEME[preferences.theme],
    }


def _section(request: HttpRequest) -> str:
    """Which entry of the rail a page belongs to."""
    name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    return next(
        (each for each in ("overview", "run", "task", "queue", "profile") if name.startswith(each)),
        "",
    )


def _is_console(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is None or match.app_name == "console"
