"""What every template of the console knows."""

from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest

from console.commands import Terminal, origin_of
from console.page_commands import commands_of
from console.pages import shell_of
from console.preferences import read_preferences

#: The entry of the rail that a page belongs to, by how its route's name begins.
_SECTIONS: Final = {
    "overview": "overview",
    "run": "run",
    "task": "task",
    "queue": "queue",
    "shadow": "shadow",
    "numbers": "numbers",
    "figure": "numbers",
    "audit": "audit",
    "worker": "worker",
    "pool": "pool",
    "downstream": "downstream",
    "approval": "approval",
    "effect": "effect",
    "incident": "incident",
    "credential": "credential",
    "people": "person",
    "person": "person",
    "menu": "menu",
    "shortcuts": "shortcuts",
    "profile": "profile",
}
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
        "terminal": _terminal(request),
    }


def _terminal(request: HttpRequest) -> Terminal | None:
    """The page's commands; a view whose state says more gives its own."""
    match = request.resolver_match
    if match is None or not match.url_name:
        return None
    return commands_of(match.url_name, match.kwargs, origin_of(request))


def _section(request: HttpRequest) -> str:
    name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    return next((section for begins, section in _SECTIONS.items() if name.startswith(begins)), "")


def _is_console(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is None or match.app_name == "console"
