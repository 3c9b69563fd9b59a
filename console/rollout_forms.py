"""Forms of the rollout: a promotion that is typed, a demotion, and a word on a mismatch."""

from typing import Any, Final

from django import forms
from django.utils.translation import gettext as _

from console.forms import Reason
from coordinator.services.shadow_explanations import MAX_CLASS_DAYS, MAX_LINK_CHARS
from coordinator.shadow.words import Triage
from coordinator.states import RolloutStage

_STAGES: Final = [(stage, stage) for stage in RolloutStage]
#: Days that an explanation holds; 0 for ever, which a whole class can't have.
EXPLAINED_DAYS: Final = (7, 14, MAX_CLASS_DAYS, 0)


class Demotion(Reason):
    to_stage = forms.ChoiceField(choices=_STAGES)
    shown_stage = forms.ChoiceField(choices=_STAGES)


class Promoting(Reason):
    """`phrase` has to be typed: what is promoted, and what it becomes (console design, 3.5)."""

    shown_stage = forms.ChoiceField(choices=_STAGES)
    confirm = forms.CharField(max_length=300, required=False)

    def __init__(self, *args: Any, phrase: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.phrase = phrase

    def clean_confirm(self) -> str:
        typed: str = self.cleaned_data["confirm"]
        if typed != self.phrase:
            raise forms.ValidationError(_("Type it exactly: %(phrase)s") % {"phrase": self.phrase})
        return typed


class Confirming(Promoting):
    """The second person's word, bound to the figures that they saw; `alone` where there is no second person."""

    shown_stage = None  # type: ignore[assignment]  # the request says from which stage
    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")
    evidence_digest = forms.RegexField(r"^sha256:[0-9a-f]{64}$")
    alone = forms.BooleanField(required=False)


class Withdrawing(Reason):
    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")


class Explanation(Reason):
    triage = forms.ChoiceField(choices=[(each, each) for each in Triage])
    of_class = forms.BooleanField(required=False)
    owner = forms.CharField(max_length=200, required=False)
    link = forms.CharField(max_length=MAX_LINK_CHARS, required=False)
    days = forms.TypedChoiceField(coerce=int, choices=[(days, days) for days in EXPLAINED_DAYS])
