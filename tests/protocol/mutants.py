"""The contract with one rule broken. A model that can't fail is broken: each of these must be caught.

Where the contract has two or three rules for the same danger, breaking one of them alone changes nothing; those stand
in `SPARE`, and the same rules broken together stand among the mutants.
"""

from typing import Final

from .rules import Rules
from .scenarios import (
    BLIND_DEAD,
    CONDITIONAL,
    CONDITIONAL_LATE,
    GATED,
    KEYED,
    KEYED_DEAD,
    KEYED_LATE,
    QUERIED_LATE,
    RESERVED,
    Failure,
    Promise,
)
from .world import Effect, Violation

#: Broken rules of the fence: contract 3.
FENCE: Final = (
    Failure(
        name="no generation check",
        why="an owner that was taken over commits",
        downstream=CONDITIONAL,
        rules=Rules(checks_generation=False),
        finds={Violation.STALE_OWNER: 3},
    ),
    Failure(
        name="no epoch check",
        why="an owner of the old epoch commits after the bump",
        downstream=CONDITIONAL,
        rules=Rules(checks_epoch=False),
        finds={Violation.STALE_OWNER: 3},
    ),
    Failure(
        name="a late receipt un-fences",
        why="evidence is kept; it makes nobody an owner again",
        downstream=CONDITIONAL,
        rules=Rules(receipt_revives=True),
        finds={Violation.STALE_OWNER: 9},
    ),
    Failure(
        name="commit with an UNKNOWN",
        why="the task is over while its call is still on the way",
        downstream=CONDITIONAL,
        rules=Rules(commit_refuses_may_be_out=False),
        finds={Violation.COMMIT_DENIES: 6},
    ),
    Failure(
        name="a cancel receipt that lists nothing",
        why="cancelling un-sends nothing",
        downstream=CONDITIONAL,
        rules=Rules(cancel_lists_may_be_out=False),
        finds={Violation.CANCEL_DENIES: 6},
    ),
    Failure(
        name="an incident gate that counts no effects",
        why="the old fleet's calls land in the new epoch",
        downstream=CONDITIONAL,
        rules=Rules(drain_counts_may_be_out=False),
        finds={Violation.DRAIN_DENIES: 7},
    ),
)

#: Broken rules of the ledger: contract 8.1 to 8.4.
LEDGER: Final = (
    *(
        Failure(
            name=f"one state for 'send again' and 'not happened', {downstream.guarantee.name}",
            why="safe to send again is not the same as has not happened",
            downstream=downstream,
            rules=Rules(resendable_is_a_state=False),
            finds={Violation.COMMIT_DENIES: steps, Violation.CANCEL_DENIES: steps},
        )
        for downstream, steps in ((CONDITIONAL, 9), (KEYED, 9), (RESERVED, 10))
    ),
    Failure(
        name="a slot bound twice",
        why="the taker-over composes other bytes, and the ledger loses those that are out",
        downstream=CONDITIONAL,
        rules=Rules(binds_payload_once=False),
        finds={Violation.OTHER_PAYLOAD: 6},
    ),
    Failure(
        name="a client that retries by itself",
        why="one acceptance permits one transmission",
        downstream=QUERIED_LATE,
        rules=Rules(one_transmission=False),
        finds={Violation.SENT_TWICE: 5, Violation.PERFORMED_TWICE: 7},
    ),
    Failure(
        name="a false condition reported as REFUSED",
        why="it may be false by one's own first write",
        downstream=CONDITIONAL,
        rules=Rules(false_condition=Effect.PREPARED),
        finds={Violation.LEDGER_DENIES: 7, Violation.COMMIT_DENIES: 8},
    ),
    Failure(
        name="a false condition reported as COMMITTED",
        why="it may be false by somebody else's write",
        downstream=CONDITIONAL,
        rules=Rules(false_condition=Effect.COMMITTED),
        finds={Violation.NEVER_HAPPENED: 7},
    ),
    Failure(
        name="only the newest dispatch counts as open",
        why="the second call was refused, and the first is still on the way",
        downstream=CONDITIONAL,
        rules=Rules(refused_needs_others_closed=False),
        finds={Violation.COMMIT_DENIES: 13},
    ),
    Failure(
        name="a late receipt bars nothing",
        why="absence is written down with a success on file",
        downstream=CONDITIONAL,
        rules=Rules(receipt_bars_absence=False),
        finds={Violation.RECEIPT_IGNORED: 10},
    ),
    Failure(
        name="a late receipt moves nothing",
        why="the next accept sends with a success on file",
        downstream=CONDITIONAL,
        rules=Rules(receipt_moves_ledger=False),
        finds={Violation.RECEIPT_IGNORED: 10},
    ),
    Failure(
        name="a report that counts for nothing on RESENDABLE",
        why="the answer was slow, the look-up was quick, and then the success is told",
        downstream=CONDITIONAL,
        rules=Rules(report_counts_on_resendable=False),
        finds={Violation.RECEIPT_IGNORED: 10},
    ),
    Failure(
        name="a receipt of an older dispatch is only noted",
        why="the same attempt made a newer dispatch, and then hears of the first",
        downstream=CONDITIONAL,
        rules=Rules(older_receipt_counts=False),
        dispatches=3,
        finds={Violation.RECEIPT_IGNORED: 14},
    ),
    Failure(
        name="no STALE_EVIDENCE",
        why="a look-up made before the second dispatch settles the second dispatch",
        downstream=QUERIED_LATE,
        rules=Rules(counts_dispatches=False),
        finds={Violation.LEDGER_DENIES: 13},
    ),
    Failure(
        name="an assertion on an early look",
        why="the operator looked before the deadline, and wrote it down after",
        downstream=BLIND_DEAD,
        rules=Rules(assertion_judges_settle_at_look=False),
        finds={Violation.LEDGER_DENIES: 12, Violation.PERFORMED_TWICE: 19},
    ),
    Failure(
        name="an assertion on a forgotten key",
        why="not known any more looks like never seen, to a person too",
        downstream=KEYED_DEAD,
        rules=Rules(assertion_judges_key=False),
        finds={Violation.LEDGER_DENIES: 11},
    ),
    Failure(
        name="a key sent again after its validity",
        why="the downstream has forgotten it",
        downstream=KEYED,
        rules=Rules(key_window_at_accept=False),
        finds={Violation.PERFORMED_TWICE: 13},
    ),
    Failure(
        name="absence by a key past its validity",
        why="not known any more looks like never seen",
        downstream=KEYED_LATE,
        rules=Rules(key_window_at_seal=False),
        finds={Violation.LEDGER_DENIES: 11},
    ),
)

#: Broken rules of the gate: contract 8.5.
GATE: Final = (
    Failure(
        name="a dispatch left open after NOT_HAPPENED",
        why="where the gate goes by the dispatch alone, it lets it in later",
        downstream=GATED,
        rules=Rules(closes_at_not_happened=False, redeem_needs_slot=False),
        finds={
            Violation.COMMIT_DENIES: 9,
            Violation.CANCEL_DENIES: 9,
            Violation.PERFORMED_TWICE: 12,
        },
    ),
    Failure(
        name="a dispatch left open after a take-over",
        why="where the gate asks neither for the fence nor for the slot, a zombie's call is let in",
        downstream=GATED,
        rules=Rules(closes_at_ends=False, redeem_needs_slot=False, redeem_needs_current=False),
        finds={Violation.STALE_OWNER: 6, Violation.PERFORMED_TWICE: 11},
    ),
    Failure(
        name="a gate that lets in every time",
        why="the network delivers the call twice",
        downstream=GATED,
        rules=Rules(redeems_once=False),
        finds={Violation.REDEEMED_TWICE: 7, Violation.PERFORMED_TWICE: 8},
    ),
    Failure(
        name="a redeem_id that travels with the call",
        why="two executions ask with the same redeem_id, and get the same answer: REDEEMED",
        downstream=GATED,
        rules=Rules(redeem_id_per_execution=False),
        finds={Violation.PERFORMED_TWICE: 8},
    ),
)

MUTANTS: Final = (*FENCE, *LEDGER, *GATE)

#: Rules of which each is one of several: broken alone, they change nothing. Exhausted, like the promises.
SPARE: Final = (
    Promise(
        name="no cancel check: the generation and the task's state refuse the same calls",
        downstream=CONDITIONAL,
        rules=Rules(checks_cancel=False),
    ),
    Promise(
        name="a gate that asks for no current fence: the ends of attempts closed it",
        downstream=GATED,
        rules=Rules(redeem_needs_current=False, redeem_needs_slot=False),
    ),
    Promise(
        name="ends of attempts that close nothing: the gate asks for the fence",
        downstream=GATED,
        rules=Rules(closes_at_ends=False, redeem_needs_slot=False),
    ),
    Promise(
        name="NOT_HAPPENED that closes nothing: the gate asks for the slot",
        downstream=GATED,
        rules=Rules(closes_at_not_happened=False),
    ),
    Promise(
        name="reports count for older dispatches too: only true outcomes are reported",
        downstream=CONDITIONAL_LATE,
        rules=Rules(report_needs_newest=False),
    ),
    Promise(
        name="a condition made false by another's write seals for good (not in the contract)",
        downstream=CONDITIONAL,
        rules=Rules(lost_race_seals=True),
    ),
)
