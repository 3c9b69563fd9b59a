"""The form of a downstream: what it is, and what it promises."""

from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy

from console.forms import Reason
from coordinator.selectors.downstreams import DownstreamRecord
from coordinator.states import Guarantee

MAX_SECONDS: Final = 31_536_000


class Pointers(forms.CharField):
    """One JSON pointer a line; the service says what is wrong with one."""

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in str(super().to_python(value)).splitlines() if line.strip()]

    def validate(self, value: Any) -> None:
        super().validate("\n".join(value))

    def run_validators(self, value: Any) -> None:
        super().run_validators("\n".join(value))


class DownstreamForm(Reason):
    name = forms.CharField(max_length=200, required=False)
    kind = forms.CharField(max_length=200)
    guarantee = forms.ChoiceField(choices=[(each, each) for each in Guarantee])
    key_valid_seconds = forms.IntegerField(min_value=1, max_value=MAX_SECONDS, required=False)
    call_timeout_seconds = forms.IntegerField(min_value=1, max_value=3_600)
    settle_seconds = forms.IntegerField(min_value=0, max_value=86_400)
    refuses_late = forms.BooleanField(required=False)
    serial_scope = forms.CharField(max_length=200, required=False, empty_value=None)
    required_approvers = forms.TypedChoiceField(coerce=int, choices=[(1, 1), (2, 2)])
    probe = forms.CharField(max_length=2_000, required=False, empty_value=None)
    secret_pointers = Pointers(max_length=20_000, required=False)

    def __init__(self, *args: Any, registering: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.registering = registering

    def clean(self) -> dict[str, Any] | None:
        told = super().clean()
        if self.registering and not self.cleaned_data.get("name") and "name" not in self.errors:
            self.add_error("name", gettext_lazy("Give it the name that slots will use."))
        return told

    @property
    def described(self) -> dict[str, Any]:
        """What the service takes, name and reason apart."""
        return {
            name: value
            for name, value in self.cleaned_data.items()
            if name not in ("name", "reason")
        }


def as_initial(downstream: DownstreamRecord | None) -> dict[str, Any]:
    """The fields of the form as they stand, for a page that was not sent yet."""
    if downstream is None:
        return {
            "guarantee": Guarantee.NONE,
            "call_timeout_seconds": 30,
            "settle_seconds": 60,
            "required_approvers": 1,
        }
    told = {
        name: getattr(downstream, name) for name in DownstreamForm.base_fields if name != "reason"
    }
    return told | {"secret_pointers": "\n".join(downstream.secret_pointers)}
