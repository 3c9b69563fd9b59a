"""C23 — a copy of production starts sending.

Two real installations, each with its own server; the second is restored from the first one's dump by PostgreSQL's own
programs. At t=100 the dump knows: T1 open, T2 running with its effect accepted, T3 approved and not sent.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from coordinator.site.postgres import Postgres
from tests.cases import second_server
from tests.cases.second_server import Site, arrivals, deliver, json_of
from tests.downstreams.service import Service
from tests.site.conftest import state_folder
from tests.site.waiting import until


@dataclass
class Story:
    """I1 at t=100, its dump, and what its workers hold."""

    first: Site
    dump: Path
    outside: Service
    tasks: dict[str, str]
    t2: Any
    t2_effect: Any
    t3_effect: Any
    t4: Any

    def sent(self, name: str) -> int:
        effect = self.first.effect(self.tasks[name])
        return arrivals(self.outside, effect)


@pytest.fixture
def folders() -> Iterator[tuple[Path, Path]]:
    with state_folder() as first, state_folder() as second:
        yield first, second


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Whatever is started in the story is stopped at its end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def story(folders: tuple[Path, Path], running: ExitStack) -> Story:
    first = Site.new(folders[0])
    running.callback(first.up.stop)
    outside = running.enter_context(Service())
    tasks = {name: first.submit(name, slots={"out": "pay"}) for name in ("T1", "T2")}
    tasks |= {"T3": first.submit("T3", slots={"out": "mail"}), "T4": first.submit("T4")}
    t3 = first.claim("T3")
    t3_effect = first.prepare(t3, "mail")
    assert first.try_accept(t3, t3_effect).json()["outcome"] == "APPROVAL_REQUIRED"
    first.approve()
    t4 = first.claim("T4", ttl_seconds=300)
    t2 = first.claim("T2", ttl_seconds=300)
    t2_effect = first.prepare(t2, "pay")
    accepted = first.try_accept(t2, t2_effect)
    assert accepted.status_code == 200
    deliver(outside, t2_effect)  # it is out, and its outcome is not on file at t=100
    file = folders[0] / "t100.dump"
    second_server.dump(first.up, file)
    body = {"fence": t2["fence"], "dispatch_id": accepted.json()["dispatch_id"]}
    first.send(
        f"/effects/{t2_effect['effect_id']}/report",
        {**body, "outcome": "COMMITTED", "receipt": "r"},
    )
    return Story(first, file, outside, tasks, t2, t2_effect, t3_effect, t4)


def finish_everything(story: Story) -> None:
    """I1 from t=100 to t=200: each task is done, each effect sent once."""
    first, outside = story.first, story.outside
    assert first.try_commit(story.t2).status_code == 200
    t1 = first.claim("T1")
    assert first.perform(t1, first.prepare(t1, "pay"), outside) == 200
    assert first.try_commit(t1).status_code == 200
    t3 = first.claim("T3")
    assert first.perform(t3, story.t3_effect, outside) == 200
    assert first.try_commit(t3).status_code == 200
    assert [story.sent(name) for name in ("T1", "T2", "T3")] == [1, 1, 1]


@pytest.mark.slow
def test_a_copy_notices_that_it_is_one_and_sends_nothing(
    story: Story, folders: tuple[Path, Path], running: ExitStack
) -> None:
    # 1. Restored as I2, with its server, web and background workers started.
    with Postgres(folders[1]):
        pass
    second_server.restore(folders[1], story.dump)
    copy = story.first.again(folders[1])
    running.callback(copy.up.stop)
    assert "manage.py after_restore" in copy.up.told()
    assert httpx.get(f"{copy.up.url}/healthz").status_code == 200
    ready = httpx.get(f"{copy.up.url}/readyz")
    assert ready.status_code == 503
    assert "after_restore" not in ready.text, "it tells nothing else"
    assert httpx.get(f"{story.first.up.url}/readyz").status_code == 200

    # … over all due times: leases lapse, deadlines pass, an hour goes by.
    copy.rows(
        "SELECT set_config('tenure.point', 'test', false);"
        " UPDATE coordinator_task SET lease_expires_at = lease_expires_at - interval '1 hour'"
        " WHERE state = 'CLAIMED'"
    )
    until(lambda: copy.effect(story.tasks["T2"])["state"] == "UNKNOWN", "the deadline to pass")
    for kind in ("T1", "T2", "T3", "T4", None):
        reply = copy.try_claim(kind)
        assert (reply.status_code, reply.json()["outcome"]) == (503, "INTAKE_STOPPED")
        assert "manage.py after_restore" in reply.json()["detail"]
    assert copy.perform(story.t2, story.t2_effect, story.outside) != 200
    late = copy.try_commit(story.t2)
    assert (late.status_code, late.json()["outcome"]) == (409, "FENCED")

    # 2. The page says why, T2's effect is UNKNOWN, T3's approval is of no use.
    password = (folders[0] / "admin_password").read_text().strip()
    page = copy.page("/", password=password)
    assert "Intake is held." in page
    assert "This database was another one" in page
    (granted,) = copy.send("/approvals?state=APPROVED", by="olga")["results"]
    assert granted["effect_id"] == story.t3_effect["effect_id"]
    body = {"intake": "OPEN", "reason": "it is only staging"}
    opened = copy.ask("/queues/lane/intake", body, by="olga")
    assert (opened.status_code, opened.json()["outcome"]) == (503, "INTAKE_STOPPED")

    # 3. A copy that cannot write permits no send either.
    copy.rows("ALTER DATABASE tenure SET default_transaction_read_only = on")
    copy.rows(
        "SELECT pg_terminate_backend(pid, 3000) FROM pg_stat_activity"
        " WHERE datname = 'tenure' AND pid <> pg_backend_pid()"
    )
    assert copy.try_accept(story.t2, story.t2_effect).status_code >= 500

    # The original has noticed nothing, and finishes.
    finish_everything(story)


@pytest.mark.slow
def test_a_database_that_is_set_back_holds_what_it_has_forgotten(
    story: Story, folders: tuple[Path, Path], running: ExitStack
) -> None:
    first = story.first
    first.shell(
        "from coordinator.actors import system; from coordinator.services.epochs import bump_epoch;"
        " bump_epoch(queue='lane', expected_epoch=1, reason='a bad release', actor=system('t150'))"
    )
    t2 = first.claim("T2")
    finish_everything(Story(**{**vars(story), "t2": t2}))
    first.up.stop()

    # 4. In place: set back to t=100.
    second_server.restore(folders[0], story.dump)
    back = first.again(folders[0])
    running.callback(back.up.stop)
    assert "manage.py after_restore" in back.up.told()
    assert back.try_claim().json()["outcome"] == "INTAKE_STOPPED"
    assert back.try_commit(story.t4).json()["outcome"] == "FENCED"
    looked = back.after_restore("--json")
    assert looked.returncode != 0, "it has changed nothing"
    assert json_of(looked)["epochs"] == {"lane": 3}, "epoch 2 is on file outside the restored data"

    # 5. A person confirms the identity; only what waits for them goes on, when they say so.
    said = ("--confirm", "tenure", "--reason", "the disk of I1 was lost", "--json")
    done = back.after_restore(*said)
    assert done.returncode == 0, done.stderr
    assert json_of(done)["epochs"] == {"lane": 3}
    assert json_of(done)["held_tasks"] == 3
    assert back.after_restore(*said).returncode == 0, "once more does nothing"
    assert back.try_commit(story.t4).json()["outcome"] == "FENCED"
    assert httpx.get(f"{back.up.url}/readyz").status_code == 200
    back.send("/queues/lane/intake", {"intake": "OPEN", "reason": "dealt with"}, by="olga")
    names = ("T1", "T2", "T3")
    states = {name: back.task(story.tasks[name])["state"] for name in names}
    assert states == dict.fromkeys(names, "AWAITING_RECONCILIATION")
    assert {back.effect(story.tasks[name])["state"] for name in ("T2", "T3")} == {"UNKNOWN"}
    (void,) = back.send("/approvals?state=VOID", by="olga")["results"]
    assert void["effect_id"] == story.t3_effect["effect_id"]
    assert [back.claim("T4")["node_id"], back.try_claim().json()["claims"]] == ["T4", []]

    # T1: its effect can't be seen here, and the outside has it: a person cancels. T2 and T3 have happened.
    cancel = {"reason": "the outside's own log has it"}
    back.send(f"/tasks/{story.tasks['T1']}/cancel", cancel, by="olga")
    for name, effect in (("T2", story.t2_effect), ("T3", story.t3_effect)):
        _settle_and_release(back, story.tasks[name], effect)
        again = back.claim(name)
        assert back.perform(again, effect, story.outside) == 409
        assert back.try_commit(again).status_code == 200
    for effect in (story.t2_effect, story.t3_effect):
        assert arrivals(story.outside, effect) == 1
    assert len(story.outside.world.messages) == 3


def _settle_and_release(site: Site, task_id: str, effect: Any) -> None:
    version = site.task(task_id)["state_version"]
    release = {"expected_state_version": version, "reason": "nothing else went out, says its log"}
    path = f"/tasks/{task_id}/restore-hold/release"
    assert site.ask(path, release, by="olga").json()["outcome"] == "RECONCILE_FIRST"
    found = {
        "finding": "HAPPENED",
        "dispatches": len(site.effect(task_id)["dispatches"]),
        "evidence": {"method": "query"},
        "receipt": "r",
    }
    site.send(f"/effects/{effect['effect_id']}/reconcile", found, by="olga")
    assert site.task(task_id)["state"] == "AWAITING_RECONCILIATION"
    assert site.send(path, release, by="olga")["outcome"] == "RELEASED"
