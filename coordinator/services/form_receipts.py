"""One form, one act: what a person's form was answered with, kept under the form's own key (console design, 3.3).

The key is taken before anything is done, so that of two sendings at once one acts and the other waits for its receipt.
What is done stands by itself in its service's transaction: where a process dies between the act and its receipt, the
repeat is judged by its version as any late decision is.
"""

from enum import StrEnum
from typing import Final

from coordinator.rounds import Statement, name_point, run_round

from .answers import RequestKey, look_up
from .transactions import in_transaction

#: A sending that has said nothing for so long has died; its key can be taken again.
DEAD_SECONDS: Final = 120
_UNDER_WAY: Final = "under way"

_TAKE: Final = (
    "INSERT INTO coordinator_storedanswer AS s (scope, key, request_digest, answer) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (scope, key) DO UPDATE SET created_at = clock_timestamp()"
    " WHERE s.answer = excluded.answer AND s.request_digest = excluded.request_digest"
    " AND s.created_at < clock_timestamp() - make_interval(secs => %s::float8) RETURNING 1"
)
_KEEP: Final = "UPDATE coordinator_storedanswer SET answer = %s WHERE scope = %s AND key = %s"
_FORGET: Final = (
    "DELETE FROM coordinator_storedanswer WHERE scope = %s AND key = %s AND answer = %s"
)


class Sending(StrEnum):
    """What a form that arrives is: to be carried out, being carried out, or not the one of this key."""

    FIRST = "FIRST"
    UNDER_WAY = "UNDER_WAY"
    ANOTHER = "ANOTHER"  # other words under the same key, or a key whose receipt has gone: judged by its service


@in_transaction
def take_form(form: RequestKey) -> Sending | str:
    """Take the form's key, or say what its first sending was answered with (a receipt of `keep_receipt`)."""
    taken, rows = run_round(
        name_point("form"),
        Statement(_TAKE, (form.scope, form.key, form.request_digest, _UNDER_WAY, DEAD_SECONDS)),
        look_up(form),
    )[1:]
    if taken:
        return Sending.FIRST
    (digest, answer) = rows[0]
    if digest != form.request_digest:
        return Sending.ANOTHER
    return Sending.UNDER_WAY if answer == _UNDER_WAY else str(answer)


@in_transaction
def keep_receipt(form: RequestKey, receipt: str) -> None:
    """Every further sending of the form is answered with `receipt`."""
    run_round(name_point("form"), Statement(_KEEP, (receipt, form.scope, form.key)))


@in_transaction
def forget_form(form: RequestKey) -> None:
    """Nothing was done: the same form may be sent again."""
    run_round(name_point("form"), Statement(_FORGET, (form.scope, form.key, _UNDER_WAY)))
