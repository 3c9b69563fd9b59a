"""Who may open the admin: operators and administrators, signed in by the console (contract 15)."""

from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.translation import gettext_lazy

#: Either opens it: a person on call, or one who administers. Viewers and approvers have the console.
OPENS: Final = ("coordinator.operate_incidents", "coordinator.administer")


class Door(AdminSite):
    site_header = site_title = gettext_lazy("Tables")
    index_title = gettext_lazy("Tables")
    site_url = "/"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        """By role, not by Django's `is_staff`: what a person may do stands in one place."""
        user = request.user
        return user.is_active and any(user.has_perm(permission) for permission in OPENS)

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The console's doorway is the only one; who is signed in and still stands here may not enter."""
        if request.user.is_authenticated:
            raise PermissionDenied("Operators and administrators may open the tables.")
        following = urlencode({"next": request.GET.get("next", "/admin/")})
        return redirect(f"{resolve_url('console:sign-in')}?{following}")

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return redirect("console:overview")

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return redirect("console:profile")
