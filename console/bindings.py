"""What a form's page showed of its subject: it goes with the form, and comes back with it (console design, 3.3)."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import orjson
from django import forms
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import TypeAdapter, ValidationError

from console.accesses import standing_of
from console.pages import shell_of
from console.preferences import read_preferences
from console.times import full_text
from coordinator.seen import Seen, TokenSeen

#: What is compared, in words, in the order in which a difference is told.
_NAMES: Final[dict[str, Promise]] = {
    "state": gettext_lazy("State"),
    "cancelled": gettext_lazy("Cancelled tasks"),
    "revised": gettext_lazy("Revised tasks"),
    "failed": gettext_lazy("Failed tasks"),
    "started_at": gettext_lazy("Started"),
    "stopped_at": gettext_lazy("Stopped"),
    "finished_at": gettext_lazy("Ended"),
    "expires_at": gettext_lazy("Ends"),
    "revoked_at": gettext_lazy("Revoked"),
}
_NO_WORD: Final = gettext_lazy("The form does not say what you saw. Load the page again.")
MAX_SEEN_CHARS: Final = 1_000


def sealed(seen: Seen) -> str:
    """As a hidden field has it."""
    return orjson.dumps(asdict(seen)).decode()


class SeenField(forms.CharField):
    """A hidden field that says what was seen, one `kind` of coordinator.seen."""

    def __init__(self, kind: type[Seen]) -> None:
        super().__init__(max_length=MAX_SEEN_CHARS, error_messages={"required": _NO_WORD})
        self.reads: TypeAdapter[Seen] = TypeAdapter(kind)

    def clean(self, value: Any) -> Seen:
        text = super().clean(value)
        try:
            return self.reads.validate_json(text)
        except ValidationError as fault:
            raise forms.ValidationError(_NO_WORD) from fault


def differences(request: HttpRequest, seen: Seen, now: Seen) -> list[tuple[str, str, str]]:
    """Each thing that was seen: its name, as it was, and as it is."""
    then, after = asdict(seen), asdict(now)
    return [
        (str(_NAMES[name]), _told(request, then[name]), _told(request, after[name]))
        for name in then
    ]


def token_changes(
    request: HttpRequest, seen: TokenSeen, now: TokenSeen
) -> list[tuple[str, str, str]]:
    """As `differences`, and whether it works: it may have run out, which changes nothing else."""
    at = shell_of(request).now
    words = [standing_of(each, at).word for each in (seen, now)]
    return [(_("State"), words[0], words[1]), *differences(request, seen, now)]


def _told(request: HttpRequest, value: Any) -> str:
    if isinstance(value, datetime):
        return full_text(value, read_preferences(request).tzinfo)
    return "—" if value is None else str(value)
