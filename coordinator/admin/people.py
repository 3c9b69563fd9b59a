"""People and groups, for administrators alone; each change is an event (contract 15)."""

from copy import copy
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext as _

from coordinator.actors import Actor
from coordinator.services.people import ADMIN, others_administer, record_change, save_password
from coordinator.services.personal_tokens import Ending, end_personal_tokens
from coordinator.services.roles import ROLES

from .deeds import person

_ADMINISTER: Final = "coordinator.administer"


class ForAdministrators:
    """Nobody else sees these tables; nobody deletes a row: the history names whom it tells of."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(_ADMINISTER)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(_ADMINISTER)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(_ADMINISTER)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(_ADMINISTER)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        record_change(what=_what(obj), name=str(obj), change="added", actor=person(request))
        return super().log_addition(request, obj, message)  # type: ignore[misc]

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Names of fields, never a value: one of them is the password."""
        fields = sorted(
            name
            for each in message
            if isinstance(each, dict)
            for name in each.get("changed", {}).get("fields", ())
        )
        told = ", ".join(fields) or "password"
        record_change(what=_what(obj), name=str(obj), change=told, actor=person(request))
        return super().log_change(request, obj, message)  # type: ignore[misc]


def _what(obj: Any) -> str:
    return "group" if isinstance(obj, Group) else "person"


class PersonForm(UserChangeForm):  # type: ignore[type-arg]
    def clean(self) -> Any:
        """Somebody who administers stays; as the console does it."""
        cleaned = super().clean() or self.cleaned_data
        stays = cleaned.get("is_active") and any(
            group.name == ADMIN for group in cleaned.get("groups", ())
        )
        was = self.instance.has_perm(_ADMINISTER)
        if (
            was
            and not stays
            and not self.instance.is_superuser
            and not others_administer(self.instance)
        ):
            raise ValidationError(
                _("This is the last person who administers; give somebody else the role first.")
            )
        return cleaned


class PasswordForm(AdminPasswordChangeForm):  # type: ignore[type-arg]
    """As Django's; what it saves ends the person's tokens, in the same transaction."""

    def __init__(self, user: User, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)
        self._actor = actor

    def save(self, commit: bool = True) -> Any:
        # Hashed before the transaction: on a busy machine that takes longer than one may stand idle.
        user = super().save(commit=False)
        if commit:
            save_password(user=user, actor=self._actor)
        return user


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class People(ForAdministrators, UserAdmin):  # type: ignore[type-arg]
    form = PersonForm
    list_display = ("username", "is_active", "is_superuser", "last_login", "date_joined")
    list_filter = ("is_active", "groups")
    search_fields = ("username", "email")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password", "first_name", "last_name", "email")}),
        (None, {"fields": ("is_active", "groups", "last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Who is deactivated has no tokens any more, whoever activates them again."""
        super().save_model(request, obj, form, change)
        if not obj.is_active:
            end_personal_tokens(user_id=obj.pk, ending=Ending.DEACTIVATED, actor=person(request))

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:  # noqa: A002 (its name)
        mine = copy(self)  # this table is shared by every request; who asks is not
        mine.change_password_form = partial(PasswordForm, actor=person(request))
        return UserAdmin.user_change_password(mine, request, id, form_url)

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        if db_field.name == "groups":
            kwargs["widget"] = forms.CheckboxSelectMultiple
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(Group)
class Groups(ForAdministrators, GroupAdmin):
    filter_horizontal = ()

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The four roles keep their names: the console and the command line know them by these."""
        return ("name",) if obj is not None and obj.name in ROLES else ()

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        if db_field.name == "permissions":
            kwargs["queryset"] = Permission.objects.filter(
                content_type__app_label="coordinator", content_type__model="access"
            ).select_related("content_type")
            kwargs["widget"] = forms.CheckboxSelectMultiple
        return super().formfield_for_manytomany(db_field, request, **kwargs)
