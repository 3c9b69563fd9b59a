"""People's roles: changed by an administrator, and never so that nobody is left who can (contract 15)."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import Group, User

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round

from .events import EventKind, Fact, record
from .personal_tokens import Ending, end_personal_tokens
from .roles import ROLES
from .texts import check_reason
from .transactions import in_transaction

ADMIN = "admin"
_BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(frozen=True, slots=True)
class RoleChanged:
    person: str
    role: str | None
    changed: bool


@in_transaction
def set_role(
    *, user_id: int, role: str | None, shown: Sequence[str], reason: str, actor: Actor
) -> RoleChanged | Refusal:
    """Give a person one role, or none; it holds from their next request on.

    `shown` are the roles that the decider saw: others by now are STATE_VERSION_MISMATCH. Refused:
    the last active administrator's own fall, and a superuser, who has every permission anyway.
    """
    if faults := check_reason(reason):
        return invalid(*faults)
    if role is not None and role not in ROLES:
        return invalid(FieldError("/role", f"there is no such role; roles: {', '.join(ROLES)}"))
    run_round(name_point("administer"))
    # One change at a time: two administrators who demote each other leave one of them.
    Group.objects.select_for_update().get(name=ADMIN)
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None:
        return not_found("person")
    before = roles_of(user)
    if before != sorted(shown):
        told = f"The roles are {', '.join(before) or 'none'} by now; look again."
        return Refusal(Outcome.STATE_VERSION_MISMATCH, told)
    wanted = [role] if role else []
    if before == wanted:
        return RoleChanged(user.get_username(), role, changed=False)
    if user.is_superuser:
        told = "a superuser has every permission; take that from them first (manage.py shell)"
        return invalid(FieldError("/role", told))
    if role != ADMIN and not others_administer(user):
        told = "this is the last person who administers; give somebody else the role first"
        return invalid(FieldError("/role", told))
    user.groups.remove(*Group.objects.filter(name__in=before))
    user.groups.add(*Group.objects.filter(name__in=wanted))
    User.objects.filter(pk=user.pk).update(is_staff=role == ADMIN)
    at = clock_of(run_round(CLOCK)[0])
    told_of = {
        "person": user.get_username(),
        "before": {"roles": before},
        "after": {"roles": wanted},
        "reason": reason,
    }
    run_round(record([Fact(EventKind.ROLE_CHANGED, data=told_of)], actor=actor, at=at))
    return RoleChanged(user.get_username(), role, changed=True)


def roles_of(user: User) -> list[str]:
    return sorted(user.groups.filter(name__in=list(ROLES)).values_list("name", flat=True))


def others_administer(user: User) -> bool:
    """Whether somebody else could undo it: an active person who administers."""
    able = User.objects.with_perm("coordinator.administer", backend=_BACKEND)
    return able.filter(is_active=True).exclude(pk=user.pk).exists()


@in_transaction
def save_password(*, user: User, actor: Actor) -> int:
    """Store a password that `user.set_password` has hashed; how many personal tokens have ended by it.

    Whoever sets one anew doubts who knows the old one: sessions end by themselves, and tokens
    that somebody may have made in one of them end here.
    """
    # Not by `save`, which would tell the hook of coordinator/site/passwords.py; it knows of no person who did it.
    User.objects.filter(pk=user.pk).update(password=user.password)
    return end_personal_tokens(user_id=user.pk, ending=Ending.PASSWORD_SET, actor=actor)


@in_transaction
def record_change(*, what: str, name: str, change: str, actor: Actor) -> None:
    """A person's account or a group was changed in the admin: an event, in the transaction of the change if open."""
    _, clock = run_round(name_point("administer"), CLOCK)
    told = {what: name, "change": change}
    run_round(record([Fact(EventKind.PERSON_CHANGED, data=told)], actor=actor, at=clock_of(clock)))
