"""Forms of credentials, personal tokens and roles."""

from typing import Any, Final

from django import forms
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.accesses import ROLES, SCOPES
from console.forms import Reason, Revocation
from console.service_words import in_words
from coordinator.outcomes import Refusal
from coordinator.services.credentials import MAX_NAME
from coordinator.services.newcomers import MAX_PERSON_CHARS
from coordinator.services.rotations import MAX_OVERLAP_HOURS

#: Days until a new token ends; 0 stands for never.
LIFETIMES: Final = (30, 90, 180, 365, 0)
DEFAULT_LIFETIME: Final = 90
#: Longer ones are nobody's; no hasher is kept busy with them.
MAX_PASSWORD_CHARS: Final = 1_000
OVERLAPS: Final = (1, 4, 24, 72, MAX_OVERLAP_HOURS)
DEFAULT_OVERLAP: Final = 24


class Keyed(forms.Form):
    action_key = forms.RegexField(r"^[0-9a-f-]{16,64}$")


class Lifetime(forms.Form):
    lifetime = forms.TypedChoiceField(coerce=int, choices=[(days, days) for days in LIFETIMES])


class NewCredential(Lifetime, Keyed):
    name = forms.CharField(
        max_length=MAX_NAME,
        error_messages={"required": gettext_lazy("Give it a name that says whose it is.")},
    )
    pool = forms.CharField(max_length=200)
    queues = forms.MultipleChoiceField(
        error_messages={"required": gettext_lazy("Choose at least one queue.")}
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in SCOPES],
        error_messages={"required": gettext_lazy("Choose at least one scope.")},
    )

    def __init__(self, *args: Any, queue_names: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["queues"].choices = [(name, name) for name in queue_names]  # type: ignore[attr-defined]


class Rotation(Revocation, Lifetime, Keyed):
    overlap_hours = forms.TypedChoiceField(
        coerce=int, choices=[(hours, hours) for hours in OVERLAPS]
    )


class NewPersonalToken(Lifetime, Keyed):
    name = forms.CharField(
        max_length=MAX_NAME,
        error_messages={"required": gettext_lazy("Give it a name that says what uses it.")},
    )


class RoleDecision(Reason):
    role = forms.ChoiceField(choices=[(role, role) for role in (*ROLES, "")], required=False)
    shown_roles = forms.CharField(required=False, max_length=200)


class NewPerson(Reason, Keyed):
    name = forms.CharField(
        max_length=MAX_PERSON_CHARS,
        error_messages={"required": gettext_lazy("Give the name that they sign in with.")},
    )
    role = forms.ChoiceField(
        choices=[(role, role) for role in ROLES],
        error_messages={"required": gettext_lazy("Choose a role.")},
    )


class NewCode(Reason, Keyed):
    shown_roles = forms.CharField(required=False, max_length=200)


class NewPassword(forms.Form):
    """A password, twice, as the house's rules have it for `user`."""

    password = forms.CharField(
        max_length=MAX_PASSWORD_CHARS,
        strip=False,
        error_messages={"required": gettext_lazy("Choose a password.")},
    )
    again = forms.CharField(
        max_length=MAX_PASSWORD_CHARS,
        strip=False,
        error_messages={"required": gettext_lazy("Type it once more.")},
    )

    def __init__(self, data: Any, *, user: User | None) -> None:
        super().__init__(data)
        self.user = user

    def clean(self) -> dict[str, Any]:
        told = super().clean() or {}
        password, again = told.get("password"), told.get("again")
        if password and again and password != again:
            self.add_error("again", _("The two passwords differ."))
        elif password and self.user is not None:
            try:
                validate_password(password, self.user)
            except ValidationError as error:
                self.add_error("password", error)
        return told


class ByCode(NewPassword):
    name = forms.CharField(max_length=MAX_PERSON_CHARS)
    code = forms.CharField(max_length=200)


class OwnPassword(NewPassword):
    current = forms.CharField(
        max_length=MAX_PASSWORD_CHARS,
        strip=False,
        error_messages={"required": gettext_lazy("Type the password that you have now.")},
    )

    def clean(self) -> dict[str, Any]:
        told = super().clean()
        current = told.get("current")
        if current and self.user is not None and not check_password(current, self.user.password):
            self.add_error("current", _("This is not your password."))
        return told


def take_faults(form: forms.Form, refusal: Refusal) -> None:
    """Put the faults that a service found beside the fields that they are about."""
    for error in refusal.errors:
        name = error.pointer.strip("/").split("/")[0]
        form.add_error(name if name in form.fields else None, in_words(error.detail))
    if not refusal.errors:
        form.add_error(None, in_words(refusal.detail))
