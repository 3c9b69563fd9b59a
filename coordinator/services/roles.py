"""Roles: the groups that give people the permissions of contract 15."""

from typing import Any, Final

from django.contrib.auth.models import Group, Permission

#: Each permission is explained on models.Access.
ROLES: Final[dict[str, frozenset[str]]] = {
    "viewer": frozenset({"view"}),
    "approver": frozenset({"view", "view_payload", "reveal_secrets", "approve", "reconcile"}),
    "operator": frozenset(
        {"view", "view_payload", "submit", "cancel", "reconcile", "operate_incidents", "bump_epoch"}
    ),
    "admin": frozenset(
        {
            "view",
            "view_payload",
            "reveal_secrets",
            "submit",
            "cancel",
            "approve",
            "reconcile",
            "assert_absence",
            "operate_incidents",
            "bump_epoch",
            "administer",
        }
    ),
}


def ensure_roles(**_signal: Any) -> None:
    """Give each role's group the permissions of the role; others that a group has are left alone.

    Runs after each migration, so that a new permission reaches the roles that are meant to have it.
    """
    known = {
        permission.codename: permission
        for permission in Permission.objects.filter(
            content_type__app_label="coordinator", content_type__model="access"
        )
    }
    for role, permissions in ROLES.items():
        group, _ = Group.objects.get_or_create(name=role)
        group.permissions.add(*(known[name] for name in sorted(permissions) if name in known))
