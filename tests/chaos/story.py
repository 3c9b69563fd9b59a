"""One run: an installation, people, a nemesis; then calm, and the three checks."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg

from tests.chaos import figures
from tests.chaos.clients import Clients
from tests.chaos.nemesis import Nemesis
from tests.chaos.observations import read_all
from tests.chaos.outside import judge_outside
from tests.chaos.people import Crowd, Person
from tests.chaos.rig import Rig
from tests.history import broken_rules
from tests.site.waiting import until

#: After the storm everything that can go on must have gone on within this time, on a busy machine.
CALM_SECONDS = 150.0
#: A broken product may never come to rest, and need not.
CALM_SECONDS_WITH_A_BUG = 20.0

#: The storm begins once so many tasks are committed: on a busy machine it takes processes a while to start.
AT_WORK = 10

_STILL_OPEN = """
SELECT (SELECT count(*) FROM coordinator_task WHERE state IN ('READY', 'CLAIMED', 'AWAITING_RECONCILIATION'))
     + (SELECT count(*) FROM coordinator_task t WHERE t.state = 'BLOCKED' AND NOT EXISTS (
          SELECT FROM coordinator_dependency d JOIN coordinator_task p ON p.task_id = d.parent_id
          WHERE d.child_id = t.task_id AND p.state <> 'COMMITTED'))
"""


@dataclass
class Told:
    """What came of a run. `wrong` is by check; all of it empty where the run is in order."""

    seed: int
    wrong: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    befell: Counter[str] = field(default_factory=Counter)
    logs: str = ""

    @property
    def complaints(self) -> list[str]:
        return [f"[{check}] {each}" for check, found in self.wrong.items() for each in found]


def tell(*, seconds: float, seed: int, bug: str | None = None) -> Told:
    """Run it, and say what was found."""
    told = Told(seed)
    with Rig(seed, bug) as rig:
        nemesis = Nemesis(rig)
        with Crowd(rig) as crowd:
            until(lambda: _committed(rig) >= AT_WORK, "the fleet to be at work")
            nemesis.run(seconds)
        nemesis.mend()
        told.wrong["progress"] = _until_calm(
            rig, nemesis, CALM_SECONDS_WITH_A_BUG if bug else CALM_SECONDS
        )
        with Person(rig, "last reader") as reader:
            for task_id in crowd.tasks:
                reader.ask("GET", f"tasks/{task_id}")
        for part in rig.parts:
            part.kill()
        told.wrong["progress"] += [repr(error) for error in crowd.errors]
        _judge(rig, told)
        told.deeds = nemesis.done
        for proxy in rig.proxies.values():
            told.befell += proxy.befell
        told.logs = rig.logs()
    return told


def _committed(rig: Rig) -> int:
    [(count,)] = rig.rows("SELECT count(*) FROM coordinator_canonicalcommit")
    return int(count)


def _until_calm(rig: Rig, nemesis: Nemesis, seconds: float) -> list[str]:
    """Until nothing moves any more and nothing is on its way."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        nemesis.keep_running()
        [(still,)] = rig.rows(_STILL_OPEN)
        if still == 0 and all(proxy.is_still for proxy in rig.proxies.values()):
            return []
        time.sleep(0.3)
    rows = rig.rows(
        "SELECT t.state, t.kind, e.downstream, e.state, count(*) FROM coordinator_task t"
        " LEFT JOIN coordinator_effectslot e ON e.task_id = t.task_id"
        " WHERE t.state IN ('READY', 'CLAIMED', 'AWAITING_RECONCILIATION') GROUP BY 1, 2, 3, 4"
    )
    return [f"after {seconds:.0f} s of calm there is still: {rows}"]


def _judge(rig: Rig, told: Told) -> None:
    with psycopg.connect(rig.postgres.url) as connection, connection.cursor() as cursor:
        told.wrong["events"] = [f"{rule}: {rows}" for rule, rows in broken_rules(cursor).items()]
    seen = read_all(rig.seen)
    told.wrong["clients"] = Clients.of(seen).judge()
    told.wrong["outside"] = judge_outside(rig)
    told.counts = figures.count(rig, seen)
