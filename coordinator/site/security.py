"""What production must not start with, and the headers every answer carries."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

DEVELOPMENT_SECRET = "development-only-not-a-secret"  # noqa: S105 - refused in production below
SHORTEST_SECRET = 50

# No nonce and no unsafe-*: pages have no inline script or style at all (console design, 2.1).
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen", "geolocation",
        "gyroscope", "magnetometer", "microphone", "midi", "payment", "publickey-credentials-get", "usb",
    )
)  # fmt: skip


def refuse_unsafe_production(*, secret_key: str, debug: bool, allowed_hosts: list[str]) -> None:
    """Raise ImproperlyConfigured, naming everything that is wrong at once."""
    faults = []
    if secret_key == DEVELOPMENT_SECRET or len(secret_key) < SHORTEST_SECRET:
        faults.append(
            f"SECRET_KEY is missing, the default, or shorter than {SHORTEST_SECRET} characters: "
            'set it to the output of `python -c "import secrets; print(secrets.token_urlsafe(50))"`'
        )
    if debug:
        faults.append("DEBUG is on: unset it")
    if not allowed_hosts or "*" in allowed_hosts:
        faults.append(
            "ALLOWED_HOSTS is empty or `*`: list the host names that people and workers use"
        )
    if faults:
        raise ImproperlyConfigured(
            "TENURE_ENV=production refuses to start. " + "; ".join(faults) + "."
        )
