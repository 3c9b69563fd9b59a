"""What crosses, and what must be true afterwards whichever order it took.

A scene is made anew for each schedule. `play` gives the calls; `judge` gets their answers and
says what came of it, as a word that is counted: each of the words in `ends` must be seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from coordinator.actors import Worker
from coordinator.ids import new_id
from coordinator.models import CanonicalCommit, Dispatch, EffectSlot
from coordinator.outcomes import Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.cancels import Cancelled, cancel_task
from coordinator.services.claims import claim_task, claim_tasks
from coordinator.services.commits import Committed
from coordinator.services.effects import Prepared
from coordinator.services.endings import Released, release_attempt
from coordinator.services.epochs import Bumped, bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import Guarantee
from tests import world
from tests.effects import ledger

Call = Callable[[], Any]


@dataclass(frozen=True)
class Scene:
    name: str
    play: Callable[["Cast"], tuple[Sequence[Call], Callable[[Sequence[Any]], str]]]
    ends: frozenset[str]


@dataclass(frozen=True)
class Cast:
    """Two workers of one fleet and a person, on one queue; `there` and `once` are downstreams."""

    first: Worker
    second: Worker


def cast() -> Cast:
    world.queue()
    ledger.register(Guarantee.CONDITIONAL_WRITE, name="there")
    ledger.register(Guarantee.NONE, name="once")
    return Cast(world.worker(name="first"), world.worker(name="second"))


def outcome(answer: Any) -> str:
    return str(answer.outcome) if isinstance(answer, Refusal) else type(answer).__name__


def cancel(of: UUID) -> Any:
    return cancel_task(task_id=of, reason="stop", actor=world.operator())


def bump() -> Call:
    """A bump from the epoch as it is now."""
    return partial(
        bump_epoch,
        queue="q",
        expected_epoch=world.epoch(),
        reason="roll back",
        actor=world.operator(),
    )


def take_over(of: UUID, version: int, by: Worker) -> Any:
    return claim_task(
        task_id=of,
        expected_state_version=version,
        scheduler_epoch=world.epoch(),
        owner="second",
        worker=by,
    )


def held(people: Cast, *, lapsed: bool = False, **node: Any) -> Claim:
    """A task that `first` holds, with a lease that may have run out."""
    run = world.submit(world.node("a", **node))
    claim = world.claim_one(by=people.first, of=world.task_id(run, "a"))
    if lapsed:
        world.lapse(claim.fence.task_id)
    return claim


def canonical(of: UUID) -> int:
    return CanonicalCommit.objects.filter(task_id=of).count()


# --- the scenes -------------------------------------------------------------------------------


def commit_and_take_over(people: Cast) -> Any:
    claim = held(people, lapsed=True)
    of, version = claim.fence.task_id, world.task(claim.fence.task_id).state_version

    def judge(answers: Sequence[Any]) -> str:
        committed, taken = answers
        if isinstance(committed, Committed):
            assert isinstance(taken, Refusal), taken
            assert canonical(of) == 1
            assert world.task(of).state == "COMMITTED"
            return "committed"
        assert outcome(committed) == "FENCED"
        assert isinstance(taken, Claim), taken
        assert taken.fence.claim_generation == 2
        assert canonical(of) == 0
        return "taken over"

    calls = [partial(world.try_commit, claim, by=people.first)]
    return [*calls, partial(take_over, of, version, people.second)], judge


def commit_and_cancel(people: Cast) -> Any:
    claim = held(people)
    of = claim.fence.task_id

    def judge(answers: Sequence[Any]) -> str:
        committed, cancelled = answers
        state = world.task(of).state
        if isinstance(committed, Committed):
            assert outcome(cancelled) == "ALREADY_COMMITTED"
            assert (state, canonical(of)) == ("COMMITTED", 1)
            return "committed"
        assert outcome(committed) == "CANCELLED"
        assert isinstance(cancelled, Cancelled)
        assert (state, canonical(of)) == ("CANCELLED", 0)
        return "cancelled"

    return [partial(world.try_commit, claim, by=people.first), partial(cancel, of)], judge


def commit_and_bump(people: Cast) -> Any:
    claim = held(people)
    of = claim.fence.task_id

    def judge(answers: Sequence[Any]) -> str:
        committed, bumped = answers
        assert isinstance(bumped, Bumped), bumped
        if isinstance(committed, Committed):
            assert bumped.revoked == 0
            assert canonical(of) == 1
            return "committed before"
        assert (outcome(committed), str(committed.reason)) == ("FENCED", "STALE_EPOCH")
        assert (world.task(of).state, canonical(of)) == ("READY", 0)
        return "bumped before"

    return [partial(world.try_commit, claim, by=people.first), bump()], judge


def renew_and_take_over(people: Cast) -> Any:
    claim = held(people, lapsed=True)
    of, version = claim.fence.task_id, world.task(claim.fence.task_id).state_version
    renewal = Renewal(claim.fence.attempt_id, claim.fence, "worker-1", 60)

    def judge(answers: Sequence[Any]) -> str:
        (renewed,), taken = answers
        if isinstance(renewed, Renewed):
            assert outcome(taken) == "NOT_CLAIMABLE"
            assert world.task(of).claim_generation == 1
            return "renewed"
        assert outcome(renewed) == "FENCED"
        assert isinstance(taken, Claim), taken
        assert world.task(of).lease_expires_at == taken.lease_expires_at
        return "taken over"

    renew = partial(renew_leases, items=[renewal], worker=people.first, queue=None)
    return [renew, partial(take_over, of, version, people.second)], judge


def two_claims_and_a_bump(people: Cast) -> Any:
    kind = f"of-its-own-{new_id()}"  # else the claims would find what earlier schedules have left
    run = world.submit(world.node("a", kind=kind))
    of, epoch = world.task_id(run, "a"), world.epoch()

    def claim(by: Worker) -> Any:
        return claim_tasks(queue="q", worker=by, scheduler_epoch=epoch, owner=by.name, kinds=[kind])

    def judge(answers: Sequence[Any]) -> str:
        *claims, bumped = answers
        assert isinstance(bumped, Bumped), bumped
        granted = [c for answer in claims if not isinstance(answer, Refusal) for c in answer.claims]
        assert len(granted) <= 1
        assert world.task(of).claim_generation == len(granted) == bumped.revoked
        assert world.task(of).state == "READY"
        for each in granted:
            assert outcome(world.try_commit(each, by=people.first)) in ("FENCED", "FORBIDDEN")
        return "granted before" if granted else "granted nothing"

    return [partial(claim, people.first), partial(claim, people.second), bump()], judge


def two_payloads(people: Cast) -> Any:
    claim = held(people, slots={ledger.SLOT: "there"})

    def judge(answers: Sequence[Any]) -> str:
        bound = [number for number, each in enumerate(answers) if isinstance(each, Prepared)]
        assert len(bound) == 1
        assert outcome(answers[1 - bound[0]]) == "PAYLOAD_CONFLICT"
        assert EffectSlot.objects.filter(task_id=claim.fence.task_id).count() == 1
        return f"the {('first', 'second')[bound[0]]} bound it"

    return [
        partial(ledger.try_prepare, claim, by=people.first, payload={"n": number})
        for number in (1, 2)
    ], judge


def prepared(people: Cast, *, lapsed: bool = False) -> tuple[Claim, Any]:
    claim = held(people, slots={ledger.SLOT: "there"})
    effect = ledger.prepare(claim, by=people.first)
    if lapsed:
        world.lapse(claim.fence.task_id)
    return claim, effect


def accept_and(people: Cast, other: Callable[[Claim], Call], *, lapsed: bool = False) -> Any:
    """An acceptance crosses the end of its attempt: permission and PREPARED are never both given."""
    claim, effect = prepared(people, lapsed=lapsed)

    def judge(answers: Sequence[Any]) -> str:
        accepted, _ = answers
        slot = EffectSlot.objects.get(effect_id=effect.effect_id)
        if isinstance(accepted, Accepted):
            assert slot.state == "UNKNOWN"
            assert slot.dispatches == 1
            return "accepted before"
        assert outcome(accepted) in ("FENCED", "CANCELLED")
        assert (slot.state, slot.dispatches) == ("PREPARED", 0)
        return "refused"

    accept = partial(ledger.try_accept, effect, claim.fence, by=people.first)
    return [accept, other(claim)], judge


def accept_and_cancel(people: Cast) -> Any:
    return accept_and(people, lambda claim: partial(cancel, claim.fence.task_id))


def accept_and_bump(people: Cast) -> Any:
    return accept_and(people, lambda _: bump())


def accept_and_take_over(people: Cast) -> Any:
    def other(claim: Claim) -> Call:
        version = world.task(claim.fence.task_id).state_version
        return partial(take_over, claim.fence.task_id, version, people.second)

    return accept_and(people, other, lapsed=True)


def accept_and_commit(people: Cast) -> Any:
    """A commit never leaves a call behind that may be out."""
    claim, effect = prepared(people)

    def judge(answers: Sequence[Any]) -> str:
        accepted, committed = answers
        slot = EffectSlot.objects.get(effect_id=effect.effect_id)
        if isinstance(accepted, Accepted):
            assert outcome(committed) == "RECONCILE_FIRST"
            assert (slot.state, world.task(claim.fence.task_id).state) == ("ACCEPTED", "CLAIMED")
            return "accepted before"
        assert isinstance(committed, Committed), committed
        assert slot.state == "VOID"
        return "committed before"

    return [
        partial(ledger.try_accept, effect, claim.fence, by=people.first),
        partial(world.try_commit, claim, by=people.first),
    ], judge


def two_accepts(people: Cast) -> Any:
    """One slot, two acceptances at once, as two threads of one worker ask: one transmission."""
    claim, effect = prepared(people)

    def judge(answers: Sequence[Any]) -> str:
        assert sorted(outcome(answer) for answer in answers) == ["Accepted", "RECONCILE_FIRST"]
        assert Dispatch.objects.filter(effect_id=effect.effect_id).count() == 1
        return f"the {'first' if isinstance(answers[0], Accepted) else 'second'} may send"

    ask = partial(ledger.try_accept, effect, claim.fence, by=people.first)
    return [ask, ask], judge


def two_parents(people: Cast) -> Any:
    """The last parent's commit releases the child, whichever it is; never none of them, never both."""
    run = world.submit(world.node("a"), world.node("b"), world.node("c", "a", "b"))
    claims = [world.claim_one(by=people.first, of=world.task_id(run, name)) for name in ("a", "b")]

    def judge(answers: Sequence[Any]) -> str:
        released = [each.released for each in answers]
        assert sorted(released) == [[], ["c"]]
        child = world.current(run, "c")
        assert (child.state, child.pending_dependencies) == ("READY", 0)
        return f"{('first', 'second')[released.index(['c'])]} released it"

    return [partial(world.try_commit, claim, by=people.first) for claim in claims], judge


def commit_and_revise_the_child(people: Cast) -> Any:
    """A parent's commit and a new revision of its child never miss each other (contract 4)."""
    run = world.submit(world.node("a"), world.node("b", "a"))
    claim = world.claim_one(by=people.first, of=world.task_id(run, "a"))
    child = world.task(world.task_id(run, "b"))

    def judge(answers: Sequence[Any]) -> str:
        committed, revised = answers
        assert isinstance(committed, Committed), committed
        newest = world.current(run, "b")
        assert (newest.state, newest.pending_dependencies) == ("READY", 0)
        if isinstance(revised, Revised):
            assert newest.revision == 2
            return f"revised as {revised.state}"
        assert outcome(revised) == "STATE_VERSION_MISMATCH"
        return "released before"

    revise = partial(
        revise_task,
        task_id=child.task_id,
        expected_state_version=child.state_version,
        input={"other": True},
        reason="better",
        actor=world.operator(),
    )
    return [partial(world.try_commit, claim, by=people.first), revise], judge


def release_and_cancel(people: Cast) -> Any:
    claim = held(people)
    of = claim.fence.task_id

    def judge(answers: Sequence[Any]) -> str:
        released, cancelled = answers
        assert isinstance(cancelled, Cancelled), cancelled
        assert world.task(of).state == "CANCELLED"
        if isinstance(released, Released):
            return "released before"
        assert outcome(released) == "CANCELLED"
        return "cancelled before"

    release = partial(
        release_attempt,
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        usage=None,
        worker=people.first,
    )
    return [release, partial(cancel, of)], judge


SCENES = [
    Scene("commit against take-over", commit_and_take_over, frozenset({"committed", "taken over"})),
    Scene("commit against cancel", commit_and_cancel, frozenset({"committed", "cancelled"})),
    Scene("commit against bump", commit_and_bump, frozenset({"committed before", "bumped before"})),
    Scene("renew against take-over", renew_and_take_over, frozenset({"renewed", "taken over"})),
    Scene(
        "claim against claim against bump",
        two_claims_and_a_bump,
        frozenset({"granted before", "granted nothing"}),
    ),
    Scene(
        "prepare against prepare",
        two_payloads,
        frozenset({"the first bound it", "the second bound it"}),
    ),
    Scene("accept against cancel", accept_and_cancel, frozenset({"accepted before", "refused"})),
    Scene("accept against bump", accept_and_bump, frozenset({"accepted before", "refused"})),
    Scene(
        "accept against take-over", accept_and_take_over, frozenset({"accepted before", "refused"})
    ),
    Scene(
        "accept against commit",
        accept_and_commit,
        frozenset({"accepted before", "committed before"}),
    ),
    Scene(
        "accept against accept",
        two_accepts,
        frozenset({"the first may send", "the second may send"}),
    ),
    Scene(
        "commit against commit of two parents",
        two_parents,
        frozenset({"first released it", "second released it"}),
    ),
    Scene(
        "commit against revision of the child",
        commit_and_revise_the_child,
        frozenset({"revised as BLOCKED", "released before"}),
    ),
    Scene(
        "release against cancel",
        release_and_cancel,
        frozenset({"released before", "cancelled before"}),
    ),
]
