"""An asynchronous standby that was behind takes over: what was acknowledged and lost is never done a second time."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tests.cases.second_server import QUEUE, Site, arrivals
from tests.downstreams.service import Service
from tests.failover import fallen
from tests.failover.clerks import TTL_SECONDS, Clerks
from tests.failover.pair import Pair
from tests.site.conftest import state_folder
from tests.site.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("failover")]

PLAIN, PAYING = 30, 8
#: So many commits are acknowledged and lost.
LOST = 8
BUMP = (
    "from coordinator.actors import system; from coordinator.services.epochs import bump_epoch;"
    f" bump_epoch(queue='{QUEUE}', expected_epoch=1, reason='a bad release', actor=system('t150'))"
)
LAPSE = (
    "SELECT set_config('tenure.point', 'test', false);"
    " UPDATE coordinator_task SET lease_expires_at = lease_expires_at - interval '1 hour' WHERE task_id = '{}'"
)


@dataclass
class Old:
    """What a worker still has in hand of a grant that the standby never heard of."""

    claimed: Any
    effect: Any = None
    dispatch: str = ""


def test_what_was_lost_is_held_and_no_old_fence_passes() -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(state_folder())
        pair = stack.enter_context(Pair(folder, synchronous=False))
        outside = stack.enter_context(Service())
        site = stack.enter_context(fallen.installed(folder, pair))
        fallen.submit(site, taken=1, pay=PAYING, work=PLAIN)
        first = site.claim("taken", ttl_seconds=TTL_SECONDS)
        pair.catch_up()
        pair.cut()

        # Everything from here on is lost: a bump, a take-over, grants with their effects, a task, commits under load.
        site.shell(BUMP)
        clerks = Clerks(site, outside)
        site.rows(LAPSE.format(first["fence"]["task_id"]))
        again = Old(site.claim("taken", ttl_seconds=TTL_SECONDS))
        assert again.claimed["fence"]["claim_generation"] == 2
        site.submit("unseen")
        unseen = Old(site.claim("unseen", ttl_seconds=TTL_SECONDS))
        paying = in_the_middle_of_paying(site, clerks)
        clerks.put_to_work(stack)
        known = clerks.acknowledged
        until(lambda: len(known.commits) >= LOST, "the load to be under way")
        clerks.stop()
        messages = len(outside.world.messages)

        fallen.fall(site, pair)
        done = fallen.take_over(site)
        assert done["epochs"] == {QUEUE: 3}, "the bump to 2 is on file outside only"
        found = fallen.commits(site)
        lost = {task for task, commit in known.commits.items() if found.get(task) != commit}
        assert len(lost) >= LOST, "nothing was lost: the story proves nothing"
        held = set(fallen.held_tasks(site))
        assert held >= set(known.sent.values()), "an effect is out whose task may run again unasked"
        old = [again, unseen, *paying]
        for each in old:
            nobody_listens(site, each)

        # Intake opens; what is held waits, the rest is done again: under generations that had been given before.
        fallen.open_intake(site)
        anew = site.claim("taken", ttl_seconds=TTL_SECONDS)
        assert anew["fence"]["claim_generation"] == again.claimed["fence"]["claim_generation"]
        for each in old:
            nobody_listens(site, each)
        mixed = {**again.claimed["fence"], "scheduler_epoch": anew["fence"]["scheduler_epoch"]}
        nobody_listens(site, Old({**again.claimed, "fence": mixed}))
        assert site.try_commit(anew).status_code == 200
        clerks = Clerks(site, outside).put_to_work(stack)
        until(lambda: fallen.unfinished(site) == len(held), "all but what is held to be done again")
        assert len(outside.world.messages) == messages, "something went out unasked"

        # A person reads the outside's own log: what went out is cancelled, the rest is let go.
        gone_out = set(known.sent.values())
        for task_id in held:
            if task_id in gone_out:
                site.send(f"/tasks/{task_id}/cancel", {"reason": "its log has it"}, by="olga")
            else:
                fallen.settle_and_release(site, outside, task_id)
        until(lambda: fallen.unfinished(site) == 0, "the work to go on to its end")
        clerks.stop()
        sent = {**known.sent, **clerks.acknowledged.sent}
        assert [arrivals(outside, {"effect_id": one}) for one in sent] == [1] * PAYING
        assert len(outside.world.messages) == PAYING
        assert not fallen.broken_history(pair)


def in_the_middle_of_paying(site: Site, clerks: Clerks) -> list[Old]:
    """Four workers with a payment: bound; permitted and out; out and reported; out, reported and committed."""
    workers = []
    for steps in range(4):
        old = Old(site.claim("pay", ttl_seconds=TTL_SECONDS))
        old.effect = clerks.prepare(old.claimed)
        if steps:
            old.dispatch = clerks.accept(old.claimed, old.effect)
            clerks.send(old.claimed, old.effect)
        if steps > 1:
            clerks.report(old.claimed, old.effect, old.dispatch)
        if steps > 2:
            clerks.commit(old.claimed)
        workers.append(old)
    return workers


def nobody_listens(site: Site, old: Old) -> None:
    """Every acceptance point, with a fence that was lost: refused, and no row moves."""
    before = fallen.standing(site)
    for point, (path, body) in calls(old).items():
        reply = site.ask(path, body)
        assert reply.status_code in (403, 404, 409), (point, reply.text)
    assert fallen.standing(site) == before


def calls(old: Old) -> dict[str, tuple[str, Any]]:
    """What a worker with this grant may send, by acceptance point."""
    fence = old.claimed["fence"]
    attempt = f"/attempts/{fence['attempt_id']}"
    digest = old.claimed["input_digest"]
    found: dict[str, tuple[str, Any]] = {
        "claim": (
            f"/tasks/{fence['task_id']}/claims",
            {"expected_state_version": 1, "scheduler_epoch": 2, "owner": "w"},
        ),
        "renew": (f"{attempt}/renew", {"fence": fence, "owner": "w", "ttl_seconds": 60}),
        "stage": (f"{attempt}/stage", {"fence": fence, "result": 2}),
        "prepare": (
            f"{attempt}/effects",
            {"fence": fence, "slot": "out", "downstream": "pay", "payload": {"to": "x"}},
        ),
        "commit": (f"{attempt}/commit", {"fence": fence, "input_digest": digest, "result": 2}),
        "fail": (
            f"{attempt}/fail",
            {"fence": fence, "error": {"type": "X", "message": "x"}, "retryable": True},
        ),
        "release": (f"{attempt}/release", {"fence": fence}),
    }
    return found | (of_effect(old) if old.effect else {})


def of_effect(old: Old) -> dict[str, tuple[str, Any]]:
    fence, digest = old.claimed["fence"], old.effect["payload_digest"]
    effect = f"/effects/{old.effect['effect_id']}"
    dispatch = old.dispatch or str(uuid4())
    evidence = {"method": "query"}
    return {
        "accept": (f"{effect}/accept", {"fence": fence, "payload_digest": digest}),
        "redeem": (
            f"{effect}/redeem",
            {
                "dispatch_id": dispatch,
                "redeem_id": "r" * 8,
                "fencing_token": "t" * 8,
                "payload_digest": digest,
            },
        ),
        "report": (
            f"{effect}/report",
            {"fence": fence, "dispatch_id": dispatch, "outcome": "COMMITTED", "receipt": "r"},
        ),
        "look up": (f"{effect}/lookups", {"fence": fence}),
        "reconcile": (
            f"{effect}/reconcile",
            {
                "fence": fence,
                "finding": "HAPPENED",
                "dispatches": 1,
                "evidence": evidence,
                "receipt": "r",
            },
        ),
    }
