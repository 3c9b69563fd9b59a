"""What a credential may do and how it stands, in plain sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from coordinator.seen import TokenSeen
from coordinator.selectors.console_people import TokenRow
from coordinator.selectors.credentials import CredentialRecord

#: Warn so long before the end, while there is time to rotate.
ENDS_SOON: Final = timedelta(days=14)
SCOPES: Final[dict[str, Promise]] = {
    "work": gettext_lazy("Claims tasks, renews, commits and performs their effects."),
    "submit": gettext_lazy("Submits runs and tasks."),
    "shadow": gettext_lazy("Reports what a legacy scheduler did, to be judged in shadow."),
    "gate": gettext_lazy("Redeems dispatches at the gate in front of a tool."),
}
ROLES: Final[dict[str, Promise]] = {
    "viewer": gettext_lazy("Sees queues, runs, tasks, attempts and events; no payloads."),
    "approver": gettext_lazy("Sees payloads too, approves and rejects, settles UNKNOWN effects."),
    "operator": gettext_lazy(
        "Sees payloads too, submits, cancels, revises and reopens, settles UNKNOWN effects, runs incidents."
    ),
    "admin": gettext_lazy(
        "May do all of it, and manages queues, pools, downstreams, credentials and people."
    ),
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a token works: `LIVE`, `ENDS_SOON`, `EXPIRED` or `REVOKED`, with its tone and icon."""

    word: str
    tone: str
    icon: str

    @property
    def works(self) -> bool:
        return self.word in ("LIVE", "ENDS_SOON")


def standing_of(token: CredentialRecord | TokenRow | TokenSeen, now: datetime) -> Standing:
    if token.revoked_at is not None:
        return Standing("REVOKED", "expired", "ban")
    if token.expires_at is not None and token.expires_at <= now:
        return Standing("EXPIRED", "expired", "timer-off")
    if token.expires_at is not None and token.expires_at <= now + ENDS_SOON:
        return Standing("ENDS_SOON", "unknown", "hourglass")
    return Standing("LIVE", "commit", "key-round")


def scope_sentences(scopes: Sequence[str]) -> list[str]:
    return [str(SCOPES[scope]) if scope in SCOPES else scope for scope in scopes]


def role_choices() -> list[tuple[str, str]]:
    return [(role, str(told)) for role, told in ROLES.items()] + [
        ("", _("No role: may sign in and see nothing."))
    ]
