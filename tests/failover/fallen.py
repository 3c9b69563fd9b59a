"""A story's installation on a pair of servers, what a person does after the fall, and what its tables say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.cases.second_server import QUEUE, Site, arrivals, json_of
from tests.downstreams.service import Service
from tests.failover.pair import Pair
from tests.history import broken_rules
from tests.site.waiting import until

SAID = ("--confirm", "tenure", "--reason", "the primary's machine is gone", "--json")
#: The background processes are at work too, with a fence drill an hour.
OURS = "t.kind IN ('work', 'pay', 'taken', 'unseen')"
_DRILLS = f"(SELECT task_id FROM coordinator_task t WHERE NOT {OURS})"
_OF_DRILLS = f"(SELECT attempt_id FROM coordinator_attempt WHERE task_id IN {_DRILLS})"
#: What no refused call may move, and which rows of it aren't the story's.
STANDING = {
    "queue": "FALSE",
    **dict.fromkeys(("task", "attempt", "canonicalcommit", "effectslot"), f"task_id IN {_DRILLS}"),
    **dict.fromkeys(("stagedresult", "dispatch"), f"attempt_id IN {_OF_DRILLS}"),
}


class Patient(Site):
    """A client that does as it is told: what nobody could answer just now it sends again.

    The web server's pool still has connections to the dead primary, and learns of each by using it.
    """

    def ask(self, path: str, body: Any = None, *, by: str = "worker") -> httpx.Response:
        replies = [super().ask(path, body, by=by)]

        def is_answered() -> bool:
            told = replies[-1]
            if told.status_code == 503 and told.json().get("retry") == "same":
                replies.append(Site.ask(self, path, body, by=by))
                return False
            return True

        until(is_answered, "somebody to answer")
        return replies[-1]


@contextmanager
def installed(folder: Path, pair: Pair) -> Iterator[Patient]:
    """`up` against the pair's address; its commands find it in the state folder."""
    state = folder / "var"
    state.mkdir()
    (state / "database_url").write_text(pair.url + "\n")
    made = Site.new(state, database_url=pair.url)
    site = Patient(made.up, made.tokens)
    try:
        yield site
    finally:
        site.up.stop()


def submit(site: Site, **kinds: int) -> dict[str, str]:
    """One run of so many tasks of each kind, those that pay with their effect declared; their ids by node."""
    nodes = [
        {"node_id": f"{kind}-{n}", "kind": kind, "input": {"n": n}}
        | ({"slots": {"out": "pay"}} if kind == "pay" else {})
        for kind, count in kinds.items()
        for n in range(count)
    ]
    run = site.send("/runs", {"queue": QUEUE, "name": "load", "nodes": nodes})
    rows = site.rows(
        "SELECT t.node_id, t.task_id::text FROM coordinator_task t JOIN coordinator_run r ON r.id = t.run_id"
        " WHERE r.run_id = %s",
        run["run_id"],
    )
    return dict(rows)


def is_ready(site: Site) -> bool:
    return httpx.get(f"{site.up.url}/readyz", timeout=30).status_code == 200


def fall(site: Site, pair: Pair) -> None:
    """The primary dies, the standby follows, and clients reach it: nothing is granted before a person has looked."""
    pair.kill_primary()
    assert not is_ready(site)
    pair.promote()
    until(lambda: _is_held(site), "the web server to see who answers now")
    assert not is_ready(site)


def _is_held(site: Site) -> bool:
    reply = site.ask(f"/queues/{QUEUE}/intake", {"intake": "OPEN", "reason": "to go on"}, by="olga")
    assert not reply.is_success, "nobody opens the intake of a promoted standby unasked"
    return reply.status_code == 503 and "after_restore" in reply.text


def take_over(site: Site) -> Any:
    """`manage.py after_restore`, and the intake is opened again; what the command did."""
    done = site.after_restore(*SAID)
    assert done.returncode == 0, done.stderr
    until(lambda: is_ready(site), "the server to be ready")
    return json_of(done)


def open_intake(site: Site) -> None:
    site.send(f"/queues/{QUEUE}/intake", {"intake": "OPEN", "reason": "dealt with"}, by="olga")


def held_tasks(site: Site) -> list[str]:
    rows = site.rows(
        "SELECT h.task_id::text FROM coordinator_restorehold h JOIN coordinator_task t ON t.task_id = h.task_id"
        f" WHERE h.released_at IS NULL AND {OURS} ORDER BY 1"
    )
    return [task_id for (task_id,) in rows]


def settle_and_release(site: Site, outside: Service, task_id: str) -> None:
    """What a person does with a task that is held: each effect by the outside's own log, then the hold."""
    for effect in site.send(f"/tasks/{task_id}/effects", by="olga")["results"]:
        if effect["state"] == "UNKNOWN":
            stamped = site.send(f"/effects/{effect['effect_id']}/lookups", {}, by="olga")
            happened = arrivals(outside, effect) > 0
            found = {
                "finding": "HAPPENED" if happened else "NOT_HAPPENED",
                "dispatches": len(effect["dispatches"]),
                "lookup_id": stamped["lookup_id"],
                "evidence": {"method": "query"},
                **({"receipt": "r"} if happened else {}),
            }
            site.send(f"/effects/{effect['effect_id']}/reconcile", found, by="olga")
    version = site.task(task_id)["state_version"]
    body = {"expected_state_version": version, "reason": "the outside's own log was read"}
    released = site.send(f"/tasks/{task_id}/restore-hold/release", body, by="olga")
    assert released["outcome"] == "RELEASED"


def commits(site: Site) -> dict[str, str]:
    """By task its canonical commit."""
    return dict(
        site.rows(
            "SELECT c.task_id::text, c.result_commit_id::text FROM coordinator_canonicalcommit c"
            f" JOIN coordinator_task t ON t.task_id = c.task_id WHERE {OURS}"
        )
    )


def unfinished(site: Site) -> int:
    ((count,),) = site.rows(
        f"SELECT count(*) FROM coordinator_task t WHERE {OURS} AND t.state NOT IN ('COMMITTED', 'CANCELLED')"
    )
    return int(count)


def standing(site: Site) -> dict[str, Any]:
    """Every row that a refusal must leave alone."""
    return {
        table: site.rows(
            f"SELECT to_jsonb(t)::text FROM coordinator_{table} t WHERE NOT ({others}) ORDER BY 1"
        )
        for table, others in STANDING.items()
    }


def broken_history(pair: Pair) -> dict[str, Any]:
    with psycopg.connect(pair.url) as connection, connection.cursor() as cursor:
        return broken_rules(cursor)
