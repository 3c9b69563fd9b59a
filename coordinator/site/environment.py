"""The environment, read with one clear error for each value that makes no sense."""

import json
import os
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off", ""})


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool = False) -> bool:
    given = os.environ.get(name)
    if given is None:
        return default
    word = given.strip().lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={given!r} is neither yes nor no. Write 1 or 0.")


def number(name: str, default: int, *, minimum: int = 0, maximum: int = 2**31 - 1) -> int:
    given = text(name)
    if not given:
        return default
    try:
        value = int(given)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={given!r} is not a whole number.") from None
    if not minimum <= value <= maximum:
        raise ImproperlyConfigured(
            f"{name}={value} is out of range. Choose {minimum} to {maximum}."
        )
    return value


def words(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """A comma-separated list."""
    given = [word.strip() for word in os.environ.get(name, "").split(",")]
    return [word for word in given if word] or list(default)


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    given = text(name, default)
    if given not in allowed:
        raise ImproperlyConfigured(
            f"{name}={given!r} is not known. Choose one of: {', '.join(allowed)}."
        )
    return given


def mapping(name: str) -> dict[str, Any]:
    """A JSON object."""
    given = text(name, "{}")
    try:
        value = json.loads(given)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} must be a JSON object, like {{}}.")
    return value


def state_folder(base: Path) -> Path:
    """TENURE_STATE, else `var/` of the checkout."""
    return Path(text("TENURE_STATE", str(base / "var"))).expanduser().resolve()
