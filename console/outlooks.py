"""Whether "it did not happen" can count for an effect now, what is missing, and from when it can be had.

The rules are those of coordinator.seals; here they are only asked ahead of the decision, and put in words.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from console.guarantees import promise_of
from coordinator.seals import Seal, absence_seal, key_still_valid, last_arrival
from coordinator.selectors.console_effect import EffectFacts, LookUpMade
from coordinator.states import LIVE_ATTEMPT, EffectState, Guarantee

#: Answers of a look-up by which nobody may say that it did not happen.
_AGAINST: Final = frozenset({"HAPPENED", "DONT_KNOW"})
_RESENDABLE: Final = frozenset(
    {Guarantee.CONDITIONAL_WRITE, Guarantee.RESERVATION, Guarantee.IDEMPOTENT_KEY}
)


@dataclass(frozen=True, slots=True)
class Outlook:
    """`seal` is what "did not happen" would have now, None where it is blocked.

    `missing` says what is missing, `since` from when it can be had; `never` where no look-up
    can ever seal it. `assertable` is None where a person's bare word may count, else what bars it.
    """

    seal: Seal | None
    look_up: LookUpMade | None
    missing: str = ""
    since: datetime | None = None
    never: bool = False
    assertion_barred: str = ""
    assertion_since: datetime | None = None

    @property
    def assertable(self) -> bool:
        return not self.assertion_barred


def outlook_of(effect: EffectFacts, now: datetime) -> Outlook:
    look_up = usable_look_up(effect)
    looked_at = look_up.started_at if look_up else None
    barred, barred_until = _assertion(effect, looked_at)
    if effect.row.state == EffectState.ACCEPTED:
        missing = _(
            "The call may be out right now. Its outcome is open until its deadline has passed."
        )
        return Outlook(
            None, look_up, missing, effect.row.call_deadline, False, barred, barred_until
        )
    seal = absence_seal(effect.row, effect.calls, looked_at=looked_at, clock=now)
    if seal is not None:
        return Outlook(seal, look_up, assertion_barred=barred, assertion_since=barred_until)
    missing, since, never = _missing(effect, looked_at, now)
    return Outlook(None, look_up, missing, since, never, barred, barred_until)


def usable_look_up(effect: EffectFacts) -> LookUpMade | None:
    """The newest look-up about the newest dispatch, unless it said something else than "not there"."""
    fitting = (each for each in effect.look_ups if each.dispatches == effect.row.dispatches)
    newest = next(fitting, None)
    if newest is None:
        return None
    told = {
        each.said
        for each in effect.evidence
        if str(each.detail.get("lookup_id")) == str(newest.lookup_id)
    }
    return None if told & _AGAINST else newest


def _missing(
    effect: EffectFacts, looked_at: datetime | None, now: datetime
) -> tuple[str, datetime | None, bool]:
    row = effect.row
    if row.happened_on_file:
        return (
            _("A receipt is on file: it can't be said any more that it did not happen."),
            None,
            True,
        )
    if row.guarantee == Guarantee.IDEMPOTENT_KEY and not key_still_valid(row, now):
        return (
            _("The downstream has forgotten the key by now: that it is not there proves nothing."),
            None,
            True,
        )
    if row.guarantee in _RESENDABLE and looked_at is None:
        return _("A look-up about the newest dispatch is missing."), now, False
    arrival = last_arrival(row, [call for call in effect.calls if call.is_open])
    if row.refuses_late and arrival is not None:
        told = (
            _("A look-up that began after the last call could arrive is missing.")
            if looked_at is None or looked_at <= arrival
            else _("The look-up is missing.")
        )
        return told, arrival, False
    return (
        _(
            "This downstream can't seal an absence: a call that is out may still arrive after any look-up."
        ),
        None,
        True,
    )


def _assertion(effect: EffectFacts, looked_at: datetime | None) -> tuple[str, datetime | None]:
    """What keeps a person's bare word from counting (contract 8.4)."""
    if effect.row.happened_on_file:
        return _("A receipt is on file; nobody's word stands against it."), None
    if effect.row.state == EffectState.ACCEPTED:
        return _("Its call may be out right now."), effect.row.call_deadline
    if effect.holder_state in LIVE_ATTEMPT:
        return _("The attempt that sent it has not ended. Let it expire, or cancel the task."), None
    arrival = last_arrival(effect.row, effect.calls)
    if arrival is not None and (looked_at is None or looked_at <= arrival):
        return (
            _(
                "Look after the last call could have arrived, and stamp that look before you make it."
            ),
            arrival,
        )
    return "", None


def if_wrong(effect: EffectFacts, stake: str, seal: Seal | None) -> str:
    """What it costs to say that it did not happen, where it did."""
    told = {
        "downstream": effect.row.downstream,
        "generation": effect.claim_generation + 1,
        "stake": stake,
    }
    if seal is Seal.RESEND:
        return (
            _(
                "If you are wrong: generation %(generation)d sends %(stake)s to %(downstream)s again,"
                " under the same key and condition."
            )
            % told
            + " "
            + promise_of(effect.row.guarantee)
        )
    return (
        _(
            "If you are wrong: generation %(generation)d sends %(stake)s to %(downstream)s a second time,"
            " and nothing there stops it."
        )
        % told
    )


def key_ends(effect: EffectFacts) -> datetime | None:
    row = effect.row
    if row.guarantee != Guarantee.IDEMPOTENT_KEY or not row.first_accepted_at:
        return None
    return row.first_accepted_at + timedelta(seconds=row.key_valid_seconds or 0)


def last_arrival_of(effect: EffectFacts) -> datetime | None:
    return last_arrival(effect.row, effect.calls)
