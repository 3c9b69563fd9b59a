"""The whole incident by the API alone, under load, with eight worker processes of two pools (contract 12)."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.db import connection

from coordinator.models import Attempt, CanonicalCommit, Queue, Task
from coordinator.states import Guarantee
from tests import world
from tests.history import history_holds
from tests.incidents.people import Person
from tests.sdk.conftest import Site, served
from tests.sdk.processes import Program
from tests.site.waiting import until

__all__ = ["history_holds", "served"]

pytestmark = [pytest.mark.usefixtures("history_holds"), pytest.mark.slow]

BLUE, GREEN = 4, 4
WORK, PAYMENTS = 150, 30


@pytest.fixture
def site(served: Any, transactional_db: None) -> Site:
    world.queue(name="lane", retry_backoff_seconds=0, default_ttl_seconds=5, max_attempts=3)
    world.downstream(name="bank", guarantee=Guarantee.GATED, settle_seconds=0)
    world.downstream(name="ledger", guarantee=Guarantee.CONDITIONAL_WRITE)
    made = Site(served.url, "lane", "")
    made.token = made.token_for("work", "submit")
    return made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def fleet(site: Site, stack: ExitStack, bank: str, pool: str, size: int) -> list[Program]:
    token = site.token_for("work", pool=pool)
    started = [
        stack.enter_context(
            Program("tests.incidents.fleet_program", site.queue, bank, url=site.url, token=token)
        )
        for _ in range(size)
    ]
    for worker in started:
        worker.until("ready")
    return started


def submit(site: Site) -> None:
    nodes: list[dict[str, Any]] = [
        {"node_id": f"work-{n}", "kind": "work", "input": {"n": n}} for n in range(WORK)
    ]
    nodes += [
        {"node_id": f"pay-{n}", "kind": "pay", "input": {"n": n}, "slots": {"out": "bank"}}
        for n in range(PAYMENTS)
    ]
    with site.client() as client:
        client.submit_run(queue=site.queue, nodes=nodes)


class Frozen:
    """A worker of the blue pool that holds a task with a call out, and comes back after the bump."""

    def __init__(self, site: Site) -> None:
        self._call = Person(site.url, site.token)
        body = {"queue": "lane", "kind": "frozen", "input": 1, "slots": {"out": "ledger"}}
        self.task_id = self._call.must("/tasks", body)["task_id"]
        body = {"scheduler_epoch": 1, "owner": "frozen", "kinds": ["frozen"], "ttl_seconds": 5}
        headers = {"X-Claim-Contract": "claim.v1"}
        (self.claim,) = self._claim(site, body, headers)
        fence = self.claim["fence"]
        path = f"/attempts/{fence['attempt_id']}/effects"
        bound = {"fence": fence, "slot": "out", "downstream": "ledger", "payload": {"x": 1}}
        self.effect = self._call.must(path, bound)["effect"]
        digest = {"fence": fence, "payload_digest": self.effect["payload_digest"]}
        self._call.must(f"/effects/{self.effect['effect_id']}/accept", digest)

    def _claim(self, site: Site, body: dict[str, Any], headers: dict[str, str]) -> Any:
        keyed = {"Authorization": f"Bearer {site.token}", "Idempotency-Key": "k" * 16}
        url = f"{site.url}/api/v1/queues/lane/claims"
        reply = httpx.post(url, json=body, headers=headers | keyed, timeout=60)
        return reply.json()["claims"]

    def come_back(self) -> tuple[int, Any]:
        fence = self.claim["fence"]
        body = {"fence": fence, "input_digest": self.claim["input_digest"], "result": "late"}
        return self._call.post(f"/attempts/{fence['attempt_id']}/commit", body)


def commits(pool: str | None = None) -> int:
    rows = CanonicalCommit.objects.all()
    return (rows.filter(attempt__pool=pool) if pool else rows).count()


def settle_what_may_be_out(person: Person, bank: str) -> None:
    """As somebody on call does it: ask the downstream's own log, and say what it said."""
    performed = {each["key"] for each in httpx.get(f"{bank}/log", timeout=60).json()["performed"]}
    for effect in person.get("/effects?queue=lane&may_be_out=true&limit=200")["results"]:
        path = f"/effects/{effect['effect_id']}"
        if effect["downstream"] == "bank" and effect["effect_id"] not in performed:
            continue  # redeemed just now; its tool is still at it
        look_up = person.must(f"{path}/lookups", {})
        body = {
            "finding": "HAPPENED",
            "dispatches": look_up["dispatches"],
            "lookup_id": look_up["lookup_id"],
            "evidence": {"method": "query", "detail": "it stands in the downstream's log"},
            "receipt": {"found": effect["effect_id"]},
        }
        person.post(f"{path}/reconcile", body)  # a late report may have settled it meanwhile


def test_a_rollback_under_load_loses_nothing_doubles_nothing_and_refuses_the_old_epoch(
    site: Site, stack: ExitStack
) -> None:
    gate_token = site.token_for("gate")
    bank = stack.enter_context(Program("tests.races.gated_bank", url=site.url, token=gate_token))
    bank_url = bank.until("http").split()[0]
    olga, otto = (Person(site.url, site.operator_token("operator")) for _ in range(2))
    frozen = Frozen(site)
    submit(site)
    workers = fleet(site, stack, bank_url, "blue", BLUE) + fleet(
        site, stack, bank_url, "green", GREEN
    )
    until(lambda: commits() >= 20, "the blue fleet to be at work")

    # Stop, preview, bump.
    opened = olga.must("/incidents", {"queue": "lane", "reason": "the new prompts are wrong"})
    path = f"/incidents/{opened['incident_id']}"
    preview = otto.get(f"{path}/preview")
    assert preview["revoked"] >= 1
    assert preview["epochs"] == {"lane": 1}
    bumped = otto.must(
        f"{path}/bump",
        {"expected_epoch": 1, "confirm": preview["confirm"], "expected_version": 1},
    )
    assert bumped["revoked"] >= 1
    at_the_bump = commits()
    status, late = frozen.come_back()
    assert (status, late["outcome"], late["reason"]) == (409, "FENCED", "STALE_EPOCH")

    # Drain: leases run out, effects are settled, results decided about.
    status, closed = otto.post(f"{path}/switch", {"to_pool": "green"})
    assert (status, closed["outcome"]) == (409, "NOT_DRAINED")
    otto.must(f"{path}/candidates", {"decision": "KEEP", "reason": "to compare them later"})

    def drained() -> bool:
        settle_what_may_be_out(olga, bank_url)
        return bool(olga.get(f"{path}/gate")["open"])

    until(drained, "the old epoch to be drained")
    assert commits() == at_the_bump

    # Switch and resume; the green fleet does the rest.
    otto.must(f"{path}/switch", {"to_pool": "green"})
    assert commits() == at_the_bump
    olga.must(f"{path}/resume", {})
    until(lambda: commits() >= WORK + PAYMENTS, "the green fleet to finish the rest")
    for worker in workers:
        stop(worker)

    nothing_lost_nothing_doubled(bank_url, at_the_bump)
    no_write_of_the_old_epoch_followed_the_bump()
    the_report_matches_the_events(olga, path, UUID(opened["incident_id"]), frozen)


def stop(worker: Program) -> None:
    process = worker._process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0


def nothing_lost_nothing_doubled(bank_url: str, at_the_bump: int) -> None:
    done = Task.objects.exclude(kind="frozen")
    assert set(done.values_list("state", flat=True)) == {"COMMITTED"}
    assert set(Task.objects.values_list("spent_attempts", flat=True)) == {0}
    assert commits("blue") == at_the_bump
    assert commits("green") == WORK + PAYMENTS - at_the_bump
    performed = [
        each["key"] for each in httpx.get(f"{bank_url}/log", timeout=60).json()["performed"]
    ]
    assert len(performed) == len(set(performed)) == PAYMENTS
    queue = Queue.objects.get(name="lane")
    assert (queue.scheduler_epoch, queue.active_pool_id, queue.intake) == (2, "green", "OPEN")


def rows(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def no_write_of_the_old_epoch_followed_the_bump() -> None:
    """By the numbers of the transactions: a smaller one than the bump's has committed before it."""
    [(bump_id, bump_xid)] = rows(
        "SELECT id, xmin::text::bigint FROM coordinator_event WHERE kind = 'EPOCH_BUMPED'"
    )
    writes = rows(
        "SELECT e.id, e.xmin::text::bigint, a.scheduler_epoch FROM coordinator_event e"
        " JOIN coordinator_attempt a ON a.attempt_id = e.attempt_id"
        " WHERE e.kind IN ('CLAIMED', 'COMMITTED', 'EFFECT_PREPARED', 'EFFECT_ACCEPTED')"
    )
    assert {epoch for _, _, epoch in writes} == {1, 2}
    for event_id, xid, epoch in writes:
        assert (event_id < bump_id) == (xid < bump_xid) == (epoch == 1), (event_id, epoch)


def the_report_matches_the_events(
    person: Person, path: str, incident_id: UUID, frozen: Frozen
) -> None:
    story = person.get(f"{path}/report")
    told = rows(
        f"SELECT kind, actor FROM coordinator_event WHERE data ->> 'incident_id' = '{incident_id}' ORDER BY id"
    )
    assert [(entry["kind"], entry["by"]) for entry in story["timeline"]] == told
    revoked = Attempt.objects.filter(end_reason="EPOCH_BUMP")
    assert story["revoked"] == revoked.count()
    assert {hold["attempt_id"] for hold in story["holds"]} == {
        str(each) for each in revoked.values_list("attempt_id", flat=True)
    }
    [(calls,)] = rows(
        "SELECT sum(1 + e.repeats) FROM coordinator_event e, coordinator_incidenthold h, coordinator_event b"
        " WHERE e.kind = 'REFUSED' AND e.attempt_id = h.attempt_id AND b.kind = 'INCIDENT_BUMPED' AND e.at >= b.at"
    )
    assert story["fenced_calls"] == calls >= 1
    effects = {effect["effect_id"]: effect for effect in story["effects"]}
    assert effects[frozen.effect["effect_id"]]["state"] == "COMMITTED"
    assert {effect["state"] for effect in effects.values()} <= {"COMMITTED", "PREPARED"} | {"VOID"}
    assert all(each["decision"] == "KEEP" for each in story["candidates"])
    assert [step["step"] for step in story["incident"]["steps"]] == [
        "STOPPED", "BUMPED", "DRAINED", "SWITCHED", "CLOSED",
    ]  # fmt: skip
