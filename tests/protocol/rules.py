"""The rules that a search may vary: what the downstream promises, and each rule of the contract as a switch.

A mutant is the contract with one switch thrown. The predicates on which the steps agree stand here too.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from .world import (
    GONE,
    KEY_LAPSED,
    OLD_CANCEL,
    OLD_EPOCH,
    OLD_GENERATION,
    REVIVED,
    Approval,
    Effect,
    Outcome,
    Task,
    World,
)


class Guarantee(Enum):
    """Contract 8, and one that the contract warns of: a fencing token that is compared and nothing else."""

    CONDITIONAL_WRITE = auto()
    IDEMPOTENT_KEY = auto()
    RESERVATION = auto()
    GATED = auto()
    QUERY_ONLY = auto()
    NONE = auto()
    FENCING_TOKEN = auto()


class Key(Enum):
    """When a downstream may forget an idempotency key."""

    KEPT = auto()  # not while a call of ours may still arrive
    LAPSES = auto()  # once every call deadline + settle has passed, whoever is frozen


@dataclass(frozen=True, kw_only=True)
class Downstream:
    """One downstream and the world around it: what it promises, and how unkind everything else may be."""

    guarantee: Guarantee
    refuses_late: bool = (
        False  # contract 8: it, or our egress proxy, rejects calls past the deadline
    )
    time_passes: bool = (
        False  # deadline + settle pass, and then what was *sent* can't arrive any more
    )
    frozen_wakes: bool = (
        True  # a worker that was frozen with its 200 in hand may send after all that
    )
    repeats: bool = False  # the network may deliver one transmission again and again
    refusal_final: bool = True  # "not done" speaks for every copy of the transmission
    key: Key = Key.KEPT
    another_writer: bool = False  # somebody else may write first and make the condition false
    value_returns: bool = False  # the condition is on a value, and somebody may restore it
    named: bool = True  # a reservation is made under the effect_id

    @property
    def askable(self) -> bool:
        return self.guarantee not in (Guarantee.NONE, Guarantee.GATED)

    @property
    def resend_seals(self) -> bool:
        """The classes whose absence may be sealed for sending again (8.4)."""
        return self.guarantee in {
            Guarantee.CONDITIONAL_WRITE,
            Guarantee.IDEMPOTENT_KEY,
            Guarantee.RESERVATION,
            Guarantee.FENCING_TOKEN,
        }

    @property
    def forgetful(self) -> bool:
        """Whether a key may be forgotten while the search lasts."""
        return self.guarantee is Guarantee.IDEMPOTENT_KEY and self.time_passes

    @property
    def held_calls_end(self) -> bool:
        """Whether a call that was never sent dies with its deadline: refused late, or its process known dead."""
        return self.refuses_late or not self.frozen_wakes


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The contract, rule by rule. All as they stand here: the contract. One changed: a mutant."""

    checks_generation: bool = True  # 3
    checks_epoch: bool = True  # 3
    checks_cancel: bool = True  # 3
    binds_payload_once: bool = True  # 8.1
    closes_at_ends: bool = True  # 8.5, every end of an attempt closes unredeemed dispatches
    closes_at_not_happened: bool = True  # 8.5
    redeems_once: bool = True  # 8.5
    redeem_id_per_execution: bool = True  # 8.5, the tool draws it; it doesn't travel with the call
    redeem_needs_current: bool = True  # 8.5
    redeem_needs_slot: bool = True  # 8.5, the slot's newest, and the slot ACCEPTED or UNKNOWN
    one_transmission: bool = True  # 8.2
    commit_refuses_may_be_out: bool = True  # 8.6
    cancel_lists_may_be_out: bool = True  # 10
    drain_counts_may_be_out: bool = True  # 12
    resendable_is_a_state: bool = True  # 8.4, else the re-send seal gives PREPARED
    elapsed_time_seals: bool = (
        False  # 8.4, a look-up after deadline + settle, with nothing that refuses late
    )
    counts_dispatches: bool = True  # 8.4, STALE_EVIDENCE
    assertion_judges_settle_at_look: bool = (
        True  # 8.4, when the operator looked, not when they wrote it down
    )
    assertion_judges_key: bool = (
        True  # 8.4, a look-up by a key past its validity is no evidence for a person either
    )
    receipt_bars_absence: bool = True  # 8.3
    receipt_moves_ledger: bool = True  # 8.3, PREPARED or RESENDABLE → UNKNOWN
    receipt_revives: bool = False  # a late receipt makes its attempt current again
    report_needs_newest: bool = True  # 8.3, "it counts only for the slot's newest dispatch"
    report_counts_on_resendable: bool = True  # 2, RESENDABLE → COMMITTED
    older_receipt_counts: bool = (
        True  # 8.3, a receipt of a dispatch that is not the newest is one too
    )
    refused_needs_others_closed: bool = (
        True  # 8.3, REFUSED → PREPARED only if no other dispatch is open
    )
    false_condition: Effect = Effect.UNKNOWN  # 8.3, what a 412 is taken for
    key_window_at_accept: bool = True  # 8.2, no re-send that could outlive the key
    key_window_at_seal: bool = True  # 8.4, no absence from a key that may be forgotten
    lost_race_seals: bool = (
        False  # not in the contract: a condition made false by another's write seals for good
    )

    @property
    def checked(self) -> int:
        """The stale bits that the guard looks at."""
        return (
            (OLD_GENERATION if self.checks_generation else 0)
            | (OLD_EPOCH if self.checks_epoch else 0)
            | (OLD_CANCEL if self.checks_cancel else 0)
        )


CONTRACT: Final = Rules()


@dataclass(frozen=True, kw_only=True)
class Model:
    """One search: a downstream, the rules, and how many acceptances one slot may get."""

    downstream: Downstream
    rules: Rules = CONTRACT
    dispatches: int = 2
    every_world: bool = False  # visit worlds one by one, however alike (see likeness.py)

    def current(self, stale: int, world: World) -> bool:
        """The guard of contract 3: would an acceptance point let this fence through?"""
        fresh = stale != GONE and not stale & self.rules.checked
        return world.task == Task.CLAIMED and (fresh or stale >= REVIVED)

    @property
    def start(self) -> World:
        """A READY task whose effect nobody has prepared."""
        return World(approval=self.usual_approval)

    @property
    def replayable(self) -> bool:
        """Contract 8: QUERY_ONLY that takes late calls, and NONE, make a task NON_REPLAYABLE."""
        if self.downstream.guarantee is Guarantee.QUERY_ONLY:
            return self.downstream.refuses_late or self.rules.elapsed_time_seals
        return self.downstream.guarantee is not Guarantee.NONE

    @property
    def assertable(self) -> bool:
        """Whether the search lets an operator assert absence (8.4): where they can know that the old process is dead,
        and where nothing else would settle the slot."""
        downstream = self.downstream
        return downstream.time_passes and not (downstream.frozen_wakes and self.replayable)

    @property
    def usual_approval(self) -> Approval:
        """A NON_REPLAYABLE task needs an approval for each dispatch; another only after an assertion (8.4)."""
        return Approval.NOT_NEEDED if self.replayable else Approval.NEEDED

    def can_settle(self, world: World) -> bool:
        """Whether a worker can bring an effect that may be out any further (contract 7)."""
        if self.downstream.forgetful and world.place == KEY_LAPSED:
            return False
        if world.effect == Effect.RESENDABLE:
            return True
        return self.downstream.askable and self.replayable


def may_be_out(effect: Effect) -> bool:
    """The one predicate (contract 2): commit, cancel's list, revise, take-over and the incident gate share it."""
    return Effect.ACCEPTED <= effect <= Effect.RESENDABLE


def receipt_on_file(world: World) -> bool:
    return any(d.receipt or d.outcome == Outcome.COMMITTED for d in world.dispatches)


def all_late(world: World) -> bool:
    return all(d.late for d in world.dispatches)
