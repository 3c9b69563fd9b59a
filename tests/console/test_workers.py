"""Workers and pools: known by what they did, told in words, at a bounded cost."""

import pytest
from django.test import Client

from coordinator.canary import DRILL
from coordinator.models import Pool
from coordinator.selectors import console_workers
from coordinator.selectors.console_workers import read_held, read_pools, read_workers
from tests import world
from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_is_told_by_its_leases_and_its_newest_attempts(scene: Scene) -> None:
    rows = {row.owner: row for row in read_workers().rows}
    holder, frozen = rows["agent-3@build-02"], rows["agent-1@build-07"]
    assert (holder.leases, holder.lapsed, holder.fenced) == (1, 0, 0)
    assert (frozen.leases, frozen.fenced, frozen.lost) == (0, 1, 1)
    assert rows["agent-6@build-05"].committed == 14
    assert holder.contract == "claim.v1"
    assert {row.owner for row in read_workers(pool="green").rows} == {
        "sync-1@green",
        "sync-2@green",
    }
    assert {row.pool for row in read_workers(queue="review").rows} == {"blue"}


def test_a_lapsed_lease_makes_its_worker_silent(signed_in: Client, scene: Scene) -> None:
    world.lapse(scene.held)
    (holder,) = [row for row in read_workers().rows if row.owner == "agent-3@build-02"]
    assert (holder.leases, holder.lapsed) == (1, 1)
    page = signed_in.get("/workers").content.decode()
    assert "silent" in page
    assert "1 lapsed" in page


def test_what_is_looked_at_is_bounded_and_said(
    signed_in: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_workers, "WORKERS_SHOWN", 2)
    workers = read_workers()
    assert (len(workers.rows), workers.capped) == (2, True)
    assert "that were seen last are shown" in signed_in.get("/workers").content.decode()


def test_a_credential_tells_what_it_holds(scene: Scene) -> None:
    held = read_held(scene.credential)
    assert held.total == 2
    assert [claim.owner for claim in held.claims] == ["agent-2@build-07", "agent-3@build-02"]
    assert held.last_expiry == held.claims[1].lease_expires_at


def test_a_pool_tells_where_it_is_active_and_who_is_there(scene: Scene) -> None:
    Pool.objects.create(name=DRILL)  # the drills' own is nobody's
    pools = {row.name: row for row in read_pools()}
    assert pools["blue"].queues == ["review"]
    assert (pools["blue"].credentials, pools["blue"].holders, pools["blue"].leases) == (1, 2, 2)
    assert pools["green"].queues == ["nightly"]
    assert DRILL not in pools
