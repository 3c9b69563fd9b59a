"""What a new password ends, however it was set: Django calls this after each `set_password` that is saved."""

from typing import Any

from django.utils.translation import gettext as _

from coordinator.actors import system
from coordinator.services.personal_tokens import Ending, end_personal_tokens


class EndsTokens:
    """Among the validators of passwords for its `password_changed` alone; it finds no fault with any.

    Not called where a sign-in only stores the same password by a newer hasher.
    """

    def validate(self, password: str, user: Any = None) -> None:
        """Any will do."""

    def get_help_text(self) -> str:
        return str(_("Setting it anew ends the person's sessions and personal tokens."))

    def password_changed(self, password: str, user: Any = None) -> None:  # noqa: ARG002
        if user is not None and user.pk is not None:
            ending = Ending.PASSWORD_SET
            end_personal_tokens(user_id=user.pk, ending=ending, actor=system("password"))
