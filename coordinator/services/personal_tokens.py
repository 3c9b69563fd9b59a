"""People's own tokens for automation: made by the person, revoked by them or an administrator (contract 15)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import orjson
from django.contrib.auth.models import User

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.models import OperatorToken
from coordinator.outcomes import FieldError, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.seen import TokenSeen, changed_since
from coordinator.services.answers import RequestKey, look_up, store, stored_answer
from coordinator.services.events import EventKind, Fact, record
from coordinator.services.transactions import in_transaction
from coordinator.tokens import TokenKind, new_token

from .texts import check_text

MAX_LIVE_TOKENS: Final = 20


class Ending(StrEnum):
    """What ends every token of a person at once. The words stand in the history as the reason."""

    DEACTIVATED = "The account was deactivated."
    PASSWORD_SET = "The password was set anew."  # noqa: S105 (a reason, no secret)


@dataclass(frozen=True, slots=True)
class PersonalToken:
    """`text` is shown here and never again: a repeat of the request has None."""

    token_id: int
    name: str
    text: str | None


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    token_id: int
    name: str
    revoked_at: datetime


@in_transaction
def issue_personal_token(
    *, user_id: int, name: str, expires_at: datetime | None, actor: Actor, request: RequestKey
) -> PersonalToken | Refusal:
    """Make a token that can do what the person can, no more. A repeat of `request` makes no second one."""
    (_, rows) = run_round(name_point("administer"), look_up(request))
    match stored_answer(request, rows):
        case Refusal() as conflict:
            return conflict
        case str() as answer:
            return PersonalToken(**orjson.loads(answer), text=None)
    user = User.objects.select_for_update().filter(pk=user_id, is_active=True).first()
    if user is None:
        return not_found("person")
    at = clock_of(run_round(CLOCK)[0])
    faults = check_text("/name", name)
    if expires_at is not None and expires_at <= at:
        faults.append(FieldError("/expires_at", "this instant has passed; give a later one"))
    if OperatorToken.objects.filter(user=user, revoked_at=None).count() >= MAX_LIVE_TOKENS:
        told = f"there are {MAX_LIVE_TOKENS} tokens that are not revoked; revoke one first"
        faults.append(FieldError("/name", told))
    if faults:
        return invalid(*faults)
    token = new_token(TokenKind.OPERATOR)
    row = OperatorToken.objects.create(
        user=user,
        name=name,
        prefix=token.prefix,
        last4=token.last4,
        token_sha256=token.sha256,
        expires_at=expires_at,
    )
    told_of = {"person": user.get_username(), "name": name, "expires_at": expires_at}
    kept = orjson.dumps({"token_id": row.pk, "name": name}).decode()
    run_round(
        record([Fact(EventKind.PERSONAL_TOKEN_CREATED, data=told_of)], actor=actor, at=at),
        store(request, kept),
    )
    return PersonalToken(row.pk, name, token.text)


@in_transaction
def revoke_personal_token(
    *, user_id: int, token_id: int, reason: str, actor: Actor, seen: TokenSeen | None = None
) -> TokenRevoked | Refusal:
    """Revoke a person's token at once. A repeat changes nothing.

    Refused: STATE_VERSION_MISMATCH where it is not as it was `seen`, NOT_FOUND.
    """
    run_round(name_point("administer"))
    rows = OperatorToken.objects.select_for_update(of=("self",)).select_related("user")
    row = rows.filter(pk=token_id, user_id=user_id).first()
    if row is None:
        return not_found("token")
    if changed := changed_since(seen, TokenSeen(row.expires_at, row.revoked_at)):
        return changed
    if row.revoked_at is not None:
        return TokenRevoked(row.pk, row.name, row.revoked_at)
    at = clock_of(run_round(CLOCK)[0])
    OperatorToken.objects.filter(pk=row.pk).update(revoked_at=at, revoked_by=actor.label)
    told = {"person": row.user.get_username(), "name": row.name, "reason": reason}
    run_round(record([Fact(EventKind.PERSONAL_TOKEN_REVOKED, data=told)], actor=actor, at=at))
    return TokenRevoked(row.pk, row.name, at)


@in_transaction
def end_personal_tokens(*, user_id: int, ending: Ending, actor: Actor) -> int:
    """Revoke all that a person has, in the transaction of what ends them; how many. Those made later are new ones."""
    run_round(name_point("administer"))
    user = User.objects.select_for_update().get(pk=user_id)
    live = OperatorToken.objects.select_for_update().filter(user_id=user_id, revoked_at=None)
    names = dict(live.order_by("id").values_list("id", "name"))
    at = clock_of(run_round(CLOCK)[0])
    OperatorToken.objects.filter(pk__in=names).update(revoked_at=at, revoked_by=actor.label)
    told = [
        {"person": user.get_username(), "name": name, "reason": str(ending)}
        for name in names.values()
    ]
    facts = [Fact(EventKind.PERSONAL_TOKEN_REVOKED, data=data) for data in told]
    if facts:
        run_round(record(facts, actor=actor, at=at))
    return len(names)
