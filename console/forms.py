"""The forms of the console. Each decision carries the version that was looked at, and a key of its own."""

import json
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.bindings import SeenField
from console.preferences import THEMES
from coordinator.seen import BulkSeen, RunSeen, TokenSeen
from coordinator.selectors.saved_views import MAX_VIEW_NAME
from coordinator.services.texts import MAX_REASON_CHARS
from coordinator.states import Intake, RejectionCode

#: A reason shorter than this says nothing to whoever reads it later (console design, 3.5).
MIN_REASON_CHARS: Final = 10


#: Why somebody says no; asking for changes is a button of its own.
REJECTIONS: Final = [code for code in RejectionCode if code is not RejectionCode.CHANGES_ASKED]
ZONES: Final = sorted(available_timezones())


class Shown(forms.Form):
    """What the person saw, bound to the decision; it comes back with it."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    expected_state_version = forms.IntegerField(min_value=1)
    shown_state = forms.CharField(max_length=40)
    shown_owner = forms.CharField(max_length=200, required=False)
    shown_generation = forms.IntegerField(min_value=0)


class Reason(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        min_length=MIN_REASON_CHARS,
        max_length=MAX_REASON_CHARS,
        error_messages={
            "required": gettext_lazy("Say why; it stands in the history."),
            "min_length": gettext_lazy("Say why in %(limit_value)d characters or more."),
        },
    )


class BulkDecision(Reason):
    """Start what was reviewed, or stop it."""

    seen = SeenField(BulkSeen)


#: How long tasks may be held back by one choice; any other time is typed.
WAITS: Final = {
    "15m": (timedelta(minutes=15), gettext_lazy("15 minutes")),
    "1h": (timedelta(hours=1), gettext_lazy("1 hour")),
    "4h": (timedelta(hours=4), gettext_lazy("4 hours")),
    "1d": (timedelta(days=1), gettext_lazy("1 day")),
    "7d": (timedelta(days=7), gettext_lazy("7 days")),
}


class SnoozeStart(BulkDecision):
    """Until when tasks are held back: for a while from now (the database's), or until a time of the person's zone."""

    wait = forms.ChoiceField(choices=[(name, label) for name, (_wait, label) in WAITS.items()])
    until = forms.DateTimeField(
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        error_messages={"invalid": gettext_lazy("Not an instant. Write it as 2026-05-31T14:00.")},
    )

    def __init__(self, data: Any, *, now: datetime, zone: ZoneInfo) -> None:
        super().__init__(data, initial={"wait": "1h"})
        self.now, self.zone = now, zone

    def clean(self) -> dict[str, Any]:
        told = super().clean() or {}
        until, wait = told.get("until"), told.get("wait")
        if until:
            told["not_before"] = until.replace(tzinfo=self.zone)
        elif wait:
            told["not_before"] = self.now + WAITS[wait][0]
        return told


class ViewName(forms.Form):
    """What a saved view is called, for everybody."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=MAX_VIEW_NAME,
        error_messages={"required": gettext_lazy("Give it a name that says what it finds.")},
    )


class ViewChange(ViewName):
    """Another name, bound to the one that was seen."""

    shown_name = forms.CharField(max_length=MAX_VIEW_NAME, strip=False)


class TaskDecision(Reason, Shown):
    """Cancel or reopen a task."""


class Revision(TaskDecision):
    input = forms.CharField(label=gettext_lazy("Input"), strip=False)

    def clean_input(self) -> Any:
        try:
            return json.loads(self.cleaned_data["input"])
        except (ValueError, RecursionError) as error:
            place = (
                f"{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            )
            raise forms.ValidationError(
                _("This is not JSON. Look at line and column %(place)s.") % {"place": place or "?"}
            ) from error


class RunDecision(Reason):
    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    seen = SeenField(RunSeen)


class Revocation(Reason):
    """Of a worker's credential, or a personal token."""

    seen = SeenField(TokenSeen)


class IntakeDecision(Reason):
    intake = forms.ChoiceField(choices=[(word, word) for word in Intake])
    shown_intake = forms.ChoiceField(choices=[(word, word) for word in Intake])


class Phrase(forms.CharField):
    """What a person types before something that can't be undone; white space is forgiven, nothing else."""

    def __init__(self) -> None:
        super().__init__(
            required=False, max_length=300, label=gettext_lazy("The phrase"), strip=True
        )

    def clean(self, value: Any) -> str:
        return " ".join(str(super().clean(value)).split())


class ApprovalDecision(Reason):
    """One person's word on one exact payload. `phrase_wanted` is what approving has to be typed as."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    decision = forms.ChoiceField(
        choices=[(word, word) for word in ("approve", "reject", "changes")]
    )
    reason_code = forms.ChoiceField(
        choices=[(code, code) for code in REJECTIONS], required=False, label=gettext_lazy("Why")
    )
    payload_digest = forms.RegexField(r"^sha256:[0-9a-f]{64}$")
    expected_version = forms.IntegerField(min_value=0, max_value=100)
    shown_state = forms.CharField(max_length=40)
    seen_end = forms.BooleanField(
        label=gettext_lazy("The payload"),
        error_messages={
            "required": gettext_lazy("Read the payload to its end first, and say that you have.")
        },
    )
    phrase = Phrase()

    def __init__(self, *args: Any, phrase_wanted: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.phrase_wanted = phrase_wanted

    def clean(self) -> dict[str, Any]:
        told = super().clean() or {}
        if told.get("decision") == "approve" and told.get("phrase") != self.phrase_wanted:
            self.add_error("phrase", _("Type exactly: %(phrase)s") % {"phrase": self.phrase_wanted})
        return told


class Reveal(Reason):
    """Why somebody has to see what is masked."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")


class PassOn(Reason):
    """Whose turn it is to be, bound to whose it was."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    to = forms.CharField(
        max_length=150,
        label=gettext_lazy("To"),
        error_messages={"required": gettext_lazy("Choose somebody.")},
    )
    expected_assignee = forms.CharField(max_length=150, required=False)
    shown_state = forms.CharField(max_length=40, required=False)


class Profile(forms.Form):
    theme = forms.ChoiceField(choices=[(word, word) for word in THEMES])
    zone = forms.ChoiceField(
        choices=[(name, name) for name in ZONES],
        error_messages={
            "invalid_choice": gettext_lazy("There is no such time zone. Take one of the list.")
        },
    )
    language = forms.ChoiceField(choices=settings.LANGUAGES)
    shortcuts = forms.BooleanField(required=False)


def new_action_key() -> str:
    return str(uuid4())
