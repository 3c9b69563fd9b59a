"""The forms of the incident wizard; each is bound to the incident's version that was looked at."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms import Phrase, Reason
from coordinator.intake_shares import WHOLE

MAX_CHOICES: Final = 1_000


class Declaration(Reason):
    """Which queues, and why. Intake stops the moment it is sent."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    scope = forms.ChoiceField(choices=[("some", "some"), ("all", "all")])
    queues = forms.MultipleChoiceField(label=gettext_lazy("Queues"), required=False)

    def __init__(self, *args: Any, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["queues"].choices = [(name, name) for name in names[:MAX_CHOICES]]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        told = super().clean() or {}
        if told.get("scope") == "some" and not told.get("queues") and "queues" not in self.errors:
            self.add_error("queues", _("Choose the queues, or all of them."))
        return told

    @property
    def wanted(self) -> list[str] | None:
        """None for every queue that there is."""
        return None if self.cleaned_data["scope"] == "all" else list(self.cleaned_data["queues"])


class Step(Reason):
    """What every step carries: the version that was seen."""

    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    expected_version = forms.IntegerField(min_value=1)
    shown_state = forms.CharField(max_length=40)


class Typed(Step):
    """With a phrase that names what will change, and into what."""

    phrase = Phrase()

    def __init__(self, *args: Any, phrase_wanted: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.phrase_wanted = phrase_wanted

    def clean(self) -> dict[str, Any]:
        told = super().clean() or {}
        if told.get("phrase") != self.wanted_phrase(told):
            wanted = {"phrase": self.wanted_phrase(told)}
            self.add_error("phrase", _("Type exactly: %(phrase)s") % wanted)
        return told

    def wanted_phrase(self, told: dict[str, Any]) -> str:  # noqa: ARG002 - a switch names its pool
        return self.phrase_wanted


class Bump(Typed):
    """`epochs` as the page showed them: `name=epoch`, one a line."""

    epochs = forms.CharField(max_length=200_000)
    alone = forms.BooleanField(required=False)

    def clean_epochs(self) -> dict[str, int]:
        try:
            pairs = [line.rpartition("=") for line in self.cleaned_data["epochs"].splitlines()]
            return {name: int(epoch) for name, _sign, epoch in pairs if name}
        except ValueError as error:
            raise forms.ValidationError(_("Look at the page again.")) from error


class Candidates(Step):
    decision = forms.ChoiceField(choices=[("DISCARD", "DISCARD"), ("KEEP", "KEEP")])


class Switch(Typed):
    to_pool = forms.CharField(
        max_length=100,
        error_messages={"required": gettext_lazy("Choose the pool that takes over.")},
    )

    def wanted_phrase(self, told: dict[str, Any]) -> str:
        return f"switch to {told.get('to_pool') or '…'}"


class Resume(Step):
    """Open the intake again: all of it, or a part first."""

    percent = forms.IntegerField(
        min_value=0,
        max_value=WHOLE,
        error_messages={
            name: gettext_lazy("A whole number from 0 to 100.")
            for name in ("required", "invalid", "min_value", "max_value")
        },
    )


class Abort(Step):
    """Call it off before the epoch was raised."""
