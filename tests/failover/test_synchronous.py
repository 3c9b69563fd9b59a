"""A synchronous standby takes over from a primary that was killed under load: nothing acknowledged is lost."""

from contextlib import ExitStack

import pytest

from tests.cases.second_server import arrivals
from tests.downstreams.service import Service
from tests.failover import fallen
from tests.failover.clerks import Clerks
from tests.failover.pair import Pair
from tests.site.conftest import state_folder
from tests.site.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("failover")]

PLAIN, PAYING = 30, 20
#: Killed when so many commits were acknowledged: in the middle.
KILLED_AT = 10


def test_no_acknowledged_commit_is_lost_and_nothing_is_done_twice() -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(state_folder())
        pair = stack.enter_context(Pair(folder, synchronous=True))
        outside = stack.enter_context(Service())
        site = stack.enter_context(fallen.installed(folder, pair))
        fallen.submit(site, pay=PAYING, work=PLAIN)
        early = site.claim("work", ttl_seconds=300)
        clerks = Clerks(site, outside).put_to_work(stack)
        known = clerks.acknowledged
        until(lambda: len(known.commits) >= KILLED_AT, "the load to be under way")

        fallen.fall(site, pair)
        until(lambda: bool(known.told), "a clerk to be told that nobody answers")
        before = (dict(known.commits), set(known.reported))
        assert len(before[0]) < PLAIN + PAYING - 1, "everything was over before the fall"
        assert before[1], "no effect was acknowledged before the fall"

        done = fallen.take_over(site)
        assert done["epochs"] == {"lane": 2}
        found = fallen.commits(site)
        assert found.items() >= before[0].items(), "an acknowledged commit is lost"
        settled = "SELECT effect_id FROM coordinator_effectslot WHERE state = 'COMMITTED'"
        assert before[1] <= {effect_id for (effect_id,) in site.rows(settled)}
        late = site.try_commit(early)
        assert (late.status_code, late.json()["outcome"]) == (409, "FENCED")

        for task_id in fallen.held_tasks(site):
            fallen.settle_and_release(site, outside, task_id)
        fallen.open_intake(site)
        until(lambda: fallen.unfinished(site) == 0, "the work to go on to its end")
        clerks.stop()

        found = fallen.commits(site)
        assert found.items() >= known.commits.items()
        assert len(found) == PLAIN + PAYING
        assert not fallen.broken_history(pair)
        sent = [arrivals(outside, {"effect_id": effect_id}) for effect_id in known.sent]
        assert sent == [1] * PAYING
        assert len(outside.world.messages) == PAYING
