"""The forms by which a person settles an effect: each is bound to the dispatches and the state that were seen."""

import json
from typing import Any, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms import Phrase, Reason
from coordinator.services.asking import MAX_CHECK_MINUTES, MIN_CHECK_MINUTES
from coordinator.services.reconciliation import MIN_STATEMENT_CHARS
from coordinator.services.texts import MAX_REASON_CHARS

MAX_RECEIPT_CHARS: Final = 20_000


class Judged(forms.Form):
    """What the person saw: so many dispatches, in this state."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    dispatches = forms.IntegerField(min_value=0, max_value=1_000_000)
    shown_state = forms.CharField(max_length=40)


class Happened(Reason, Judged):
    """It happened: the receipt is how the downstream names what it did."""

    receipt = forms.CharField(
        label=gettext_lazy("Receipt"),
        max_length=MAX_RECEIPT_CHARS,
        error_messages={
            "required": gettext_lazy("Give the receipt: how the downstream names what it did.")
        },
    )

    def clean_receipt(self) -> Any:
        """JSON where it is JSON; anything else is a name in plain words."""
        text = str(self.cleaned_data["receipt"])
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


class Typed(forms.Form):
    """With a phrase to be typed, that names the effect and what is said of it."""

    phrase = Phrase()

    def __init__(self, *args: Any, phrase_wanted: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.phrase_wanted = phrase_wanted

    def clean_phrase(self) -> str:
        typed = str(self.cleaned_data["phrase"])
        if typed != self.phrase_wanted:
            raise forms.ValidationError(
                _("Type exactly: %(phrase)s") % {"phrase": self.phrase_wanted}
            )
        return typed


class Absent(Typed, Reason, Judged):
    """It did not happen, by a look-up."""

    lookup_id = forms.UUIDField(required=False)


class Asserted(Typed, Judged):
    """It did not happen, by a person's word."""

    lookup_id = forms.UUIDField(required=False)
    statement = forms.CharField(
        label=gettext_lazy("Statement"),
        min_length=MIN_STATEMENT_CHARS,
        max_length=MAX_REASON_CHARS,
        error_messages={
            "required": gettext_lazy("State how it is known that the old process will not wake."),
            "min_length": gettext_lazy(
                "State in %(limit_value)d characters or more how it is known that the old process will not wake."
            ),
        },
    )


class StillUnknown(Judged):
    """Nobody knows yet."""

    note = forms.CharField(
        label=gettext_lazy("Note"),
        min_length=10,
        max_length=MAX_REASON_CHARS,
        error_messages={
            "required": gettext_lazy("Say what you know, and what is being done."),
            "min_length": gettext_lazy("Say why in %(limit_value)d characters or more."),
        },
    )
    minutes = forms.IntegerField(
        label=gettext_lazy("Look again in minutes"),
        min_value=MIN_CHECK_MINUTES,
        max_value=MAX_CHECK_MINUTES,
    )
