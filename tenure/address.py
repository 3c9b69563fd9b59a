"""Where the coordinator is and who asks: checked before anything is sent."""

from __future__ import annotations

import httpx


def base_url(url: str) -> str:
    """The API's base for what a person types: with or without `/api/v1`, never with credentials in it."""
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise ValueError(f"the coordinator's address is not a URL: {error}") from error
    if parsed.userinfo or parsed.query:
        raise ValueError(
            "the coordinator's address must not carry a name, a password or a query; pass the token as such"
        )
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(
            f"the coordinator's address must be an http or https URL like http://127.0.0.1:8000, not {url!r}"
        )
    path = parsed.path.rstrip("/").removesuffix("/api/v1")
    return str(parsed.copy_with(path=f"{path}/api/v1/"))


def bearer(token: str) -> str:
    """A token that can travel in a header; the message never repeats it."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            "the token must be the one line of printable ASCII that was shown when the credential was made"
        )
    return token
