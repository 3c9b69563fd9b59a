"""People who are new, and people who have lost their way in (contract 15).

An administrator gives neither a password: they give a code, shown once, by which the person sets a password that nobody
else has ever known. A code is signed, not stored. It holds for `PASSWORD_RESET_TIMEOUT` seconds, and until a password
is set, a newer code is given or the person signs in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round

from .answers import RequestKey, look_up, store, stored_answer
from .events import EventKind, Fact, record
from .people import ADMIN, roles_of
from .personal_tokens import Ending, end_personal_tokens
from .roles import ROLES
from .texts import check_reason, is_storable
from .transactions import in_transaction

#: Of a name to sign in with, as the table has it.
MAX_PERSON_CHARS = 150


@dataclass(frozen=True, slots=True)
class WayIn:
    """`code` is shown here and never again: a repeat of the request has None."""

    user_id: int
    name: str
    code: str | None


@in_transaction
def admit_person(
    *, name: str, role: str, reason: str, actor: Actor, request: RequestKey
) -> WayIn | Refusal:
    """Make an account with a role and no password, and a code to set one. A repeat of `request` makes no second one.

    Refused: a name that somebody has in whatever case, so that nobody passes for another.
    """
    (_, rows) = run_round(name_point("administer"), look_up(request))
    if (known := _known(request, rows)) is not None:
        return known
    if faults := [*_check_name(name), *_check_role(role), *check_reason(reason)]:
        return invalid(*faults)
    # One at a time: of two with one name the second finds the first.
    Group.objects.select_for_update().get(name=ADMIN)
    if User.objects.filter(username__iexact=name).exists():
        return invalid(FieldError("/name", "somebody has this name already; take another"))
    user = User.objects.create(username=name, password=make_password(None), is_staff=role == ADMIN)
    user.groups.add(Group.objects.get(name=role))
    told = {"person": name, "role": role, "reason": reason}
    return _given(user, EventKind.PERSON_ADMITTED, told, actor=actor, request=request)


@in_transaction
def give_code(
    *, user_id: int, shown: Sequence[str], reason: str, actor: Actor, request: RequestKey
) -> WayIn | Refusal:
    """Take a person's password away and give a code to set another; sessions, tokens and older codes end.

    `shown` are the roles that the decider saw: whoever has others by now is another risk, and STATE_VERSION_MISMATCH.
    Refused: one's own, which is set with the old one, a superuser's, and that of a disabled account.
    """
    (_, rows) = run_round(name_point("administer"), look_up(request))
    if (known := _known(request, rows)) is not None:
        return known
    if faults := check_reason(reason):
        return invalid(*faults)
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None:
        return not_found("person")
    if (roles := roles_of(user)) != sorted(shown):
        told = f"The roles are {', '.join(roles) or 'none'} by now; look again."
        return Refusal(Outcome.STATE_VERSION_MISMATCH, told)
    if user.pk == actor.id:
        return invalid(FieldError("/person", "you set your own password in your profile"))
    if user.is_superuser:
        told = "a superuser's password is set on the server (manage.py changepassword)"
        return invalid(FieldError("/person", told))
    if not user.is_active:
        return invalid(
            FieldError("/person", "the account is disabled; enable it in the admin first")
        )
    user.password = make_password(None)
    User.objects.filter(pk=user.pk).update(password=user.password)
    end_personal_tokens(user_id=user.pk, ending=Ending.PASSWORD_SET, actor=actor)
    what = {"person": user.get_username(), "reason": reason}
    return _given(user, EventKind.WAY_IN_GIVEN, what, actor=actor, request=request)


def holder_of(*, name: str, code: str) -> User | None:
    """Who may set a password by this code; nobody where it is not theirs, was used, or has run out."""
    if not (is_storable(name) and is_storable(code)):
        return None
    user = User.objects.filter(username=name, is_active=True).first()
    return user if user and default_token_generator.check_token(user, code) else None


@in_transaction
def set_first_password(*, user_id: int, code: str, password: str, actor: Actor) -> User | None:
    """Store a hashed password by a code; of two sendings at once one does, and the other is told that nobody may."""
    clock = run_round(name_point("administer"), CLOCK)[1]
    user = User.objects.select_for_update().get(pk=user_id)
    if not user.is_active or not default_token_generator.check_token(user, code):
        return None
    return _set(user, password, actor=actor, at=clock_of(clock))


@in_transaction
def set_own_password(*, user_id: int, known: str, password: str, actor: Actor) -> User | None:
    """Store one's own new password, hashed; `known` is the hash that the old one was compared with."""
    clock = run_round(name_point("administer"), CLOCK)[1]
    user = User.objects.select_for_update().get(pk=user_id)
    if user.password != known:
        return None
    return _set(user, password, actor=actor, at=clock_of(clock))


def _set(user: User, password: str, *, actor: Actor, at: datetime) -> User:
    user.password = password
    User.objects.filter(pk=user.pk).update(password=password)
    end_personal_tokens(user_id=user.pk, ending=Ending.PASSWORD_SET, actor=actor)
    told = {"person": user.get_username()}
    run_round(record([Fact(EventKind.PASSWORD_SET, data=told)], actor=actor, at=at))
    return user


def _known(request: RequestKey, rows: Sequence[tuple[object, ...]]) -> WayIn | Refusal | None:
    match stored_answer(request, rows):
        case Refusal() as conflict:
            return conflict
        case str() as answer:
            return WayIn(**orjson.loads(answer), code=None)
        case _:
            return None


def _given(
    user: User, kind: EventKind, told: dict[str, str], *, actor: Actor, request: RequestKey
) -> WayIn:
    name = user.get_username()
    at = clock_of(run_round(CLOCK)[0])
    kept = orjson.dumps({"user_id": user.pk, "name": name}).decode()
    run_round(record([Fact(kind, data=told)], actor=actor, at=at), store(request, kept))
    return WayIn(user.pk, name, default_token_generator.make_token(user))


def _check_name(name: str) -> list[FieldError]:
    if not 1 <= len(name) <= MAX_PERSON_CHARS:
        told = f"It has {len(name)} characters; 1 to {MAX_PERSON_CHARS} are allowed."
        return [FieldError("/name", told)]
    try:
        User.username_validator(name)
    except ValidationError:
        return [FieldError("/name", "letters, digits and @ . + - _ are allowed, and no spaces")]
    return []


def _check_role(role: str) -> list[FieldError]:
    if role in ROLES:
        return []
    return [FieldError("/role", f"there is no such role; roles: {', '.join(ROLES)}")]
