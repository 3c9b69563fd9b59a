"""What may be done from a list: asked for on a page of its own with a reason, and done by the service (contract 15)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from coordinator.actors import ActorKind, Operator
from coordinator.outcomes import Refusal
from coordinator.services.texts import MAX_REASON_CHARS

#: So many rows in one go; more is a run's own cancel, or an incident.
MAX_AT_ONCE: Final = 100
_PERMISSIONS: Final = "coordinator."


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        min_length=10,
        max_length=MAX_REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("It stands in the history, beside your name."),
    )


@dataclass(frozen=True, slots=True)
class Deed:
    """One deed on chosen rows. `act` calls the service with the rows, the reason and the person; one answer a row."""

    do_not_call_in_templates: ClassVar = True  # a page shows it; only the list does it
    title: Any
    consequence: Any
    act: Callable[[Sequence[Any], str, Operator], Sequence[tuple[str, Any]]]
    is_grave: bool = True

    def __call__(
        self, modeladmin: "admin.ModelAdmin[Any]", request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        """Ask for the reason; once it is given, do it and say what came of each row."""
        rows = list(queryset[: MAX_AT_ONCE + 1])
        if len(rows) > MAX_AT_ONCE:
            told = _("Choose at most %(most)s rows.") % {"most": MAX_AT_ONCE}
            modeladmin.message_user(request, told, messages.ERROR)
            return None
        form = ReasonForm(request.POST if "apply" in request.POST else None)
        if not form.is_valid():
            return self._ask(modeladmin, request, rows, form)
        answers = self.act(rows, form.cleaned_data["reason"], person(request))
        _tell(modeladmin, request, answers)
        return None

    def _ask(
        self,
        modeladmin: "admin.ModelAdmin[Any]",
        request: HttpRequest,
        rows: Sequence[Any],
        form: ReasonForm,
    ) -> HttpResponse:
        context = {
            **modeladmin.admin_site.each_context(request),
            "title": self.title,
            "deed": self,
            "rows": rows,
            "form": form,
            "opts": modeladmin.opts,
            "action": request.POST["action"],
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/reason.html", context)


def person(request: HttpRequest) -> Operator:
    """The signed-in person, with what they may do now."""
    user = request.user
    return Operator(
        ActorKind.OPERATOR,
        user.get_username(),
        user.pk or 0,
        getattr(request, "request_id", ""),
        request.META.get("REMOTE_ADDR", ""),
        permissions=frozenset(
            name.removeprefix(_PERMISSIONS)
            for name in user.get_all_permissions()
            if name.startswith(_PERMISSIONS)
        ),
    )


def _tell(
    modeladmin: "admin.ModelAdmin[Any]",
    request: HttpRequest,
    answers: Sequence[tuple[str, Any]],
) -> None:
    refused = [(name, answer) for name, answer in answers if isinstance(answer, Refusal)]
    done = len(answers) - len(refused)
    if done:
        told = _("Done: %(n)s.") % {"n": done}
        modeladmin.message_user(request, told, messages.SUCCESS)
    for name, answer in refused:
        faults = "; ".join(fault.detail for fault in answer.errors)
        modeladmin.message_user(request, f"{name}: {faults or answer.detail}", messages.ERROR)
