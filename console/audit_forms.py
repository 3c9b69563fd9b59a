"""The range of the audit that is to be verified."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from coordinator.selectors.audit_chain import MAX_NUMBER, ChainHead

_A_NUMBER = {
    name: gettext_lazy("A whole number from 1 on.")
    for name in ("required", "invalid", "min_value", "max_value")
}


class Range(forms.Form):
    """From link `first` to `last`, the newest where it is left out; `anchor` is the digest before `first`."""

    first = forms.IntegerField(min_value=1, max_value=MAX_NUMBER, error_messages=_A_NUMBER)
    last = forms.IntegerField(
        min_value=1, max_value=MAX_NUMBER, required=False, error_messages=_A_NUMBER
    )
    anchor = forms.RegexField(
        r"^sha256:[0-9a-f]{64}\Z",
        required=False,
        error_messages={"invalid": gettext_lazy("A digest: sha256: and 64 hex digits.")},
    )

    def __init__(self, *args: Any, head: ChainHead, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = head

    def clean(self) -> dict[str, Any]:
        told = super().clean() or {}
        first, last = told.get("first"), told.get("last")
        if first and last and last < first:
            self.add_error("last", _("At least as much as the first."))
        if first and first > self._head.number + 1 and not told.get("anchor"):
            end = {"n": self._head.number}
            self.add_error("first", _("The chain ends with %(n)d.") % end)
        return told
