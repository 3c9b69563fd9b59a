"""Whole installations for C23: started as a person starts them, dumped and restored with PostgreSQL's own programs."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from coordinator.site.binaries import find_binaries
from coordinator.site.places import DATABASE, PORT
from coordinator.site.postgres import Postgres
from tests.crash.running import told
from tests.downstreams.service import Service
from tests.site.launching import Up, manage

QUEUE, POOL = "lane", "fleet"
DEADLINE_SECONDS = 2


def run(program: str, *words: str) -> None:
    """One of PostgreSQL's own programs."""
    subprocess.run([str(find_binaries() / program), *words], check=True, capture_output=True, text=True)  # fmt: skip


def dump(server: Up, file: Path) -> None:
    """What a person's script writes down, while everything runs."""
    run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={address(server.state)}")


def restore(state: Path, file: Path) -> None:
    """Into the server of a state folder, in place of what is there; nobody else runs on it."""
    with Postgres(state) as server:
        where = (f"--host={server.places.run}", f"--port={PORT}", "--username=tenure")
        run("dropdb", *where, "--maintenance-db=postgres", DATABASE)
        run("createdb", *where, "--maintenance-db=postgres", DATABASE)
        run("pg_restore", "--no-owner", f"--dbname={server.url}", str(file))


def address(state: Path) -> str:
    return (state / "database_url").read_text().strip()


@dataclass
class Site:
    """One installation, as its clients see it. Tokens are the same in a copy."""

    up: Up
    tokens: dict[str, str] = field(default_factory=dict)

    @classmethod
    def new(cls, state: Path, *, database_url: str = "") -> "Site":
        """On its own server, or on the one of `database_url`."""
        site = cls(Up(state, DATABASE_URL=database_url).until_running())
        where = {"TENURE_STATE": str(state)}
        person = manage("create_operator", "olga", "--role", "admin", "--token", "--json", **where)
        site.tokens["olga"] = told(person)["token"]
        site.send("/pools", {"name": POOL}, by="olga")
        site.send("/queues", {"name": QUEUE, "active_pool": POOL, "max_attempts": 50}, by="olga")
        for name, guarantee in (("pay", "CONDITIONAL_WRITE"), ("mail", "NONE")):
            there = {"name": name, "kind": "http", "guarantee": guarantee, "settle_seconds": 0}
            site.send(
                "/downstreams", {**there, "call_timeout_seconds": DEADLINE_SECONDS}, by="olga"
            )
        scopes = ("--scope", "work", "--scope", "submit", "--scope", "gate")
        bound = ("--pool", POOL, "--queue", QUEUE, *scopes)
        made = manage("create_credential", "w", *bound, "--json", **where)
        site.tokens["worker"] = told(made)["token"]
        return site

    def again(self, state: Path) -> "Site":
        """The same clients against what runs, or starts to run, on a state folder."""
        return Site(Up(state).until_running(), self.tokens)

    def ask(self, path: str, body: Any = None, *, by: str = "worker") -> httpx.Response:
        headers = {
            "Authorization": f"Bearer {self.tokens[by]}",
            "Idempotency-Key": uuid4().hex,
            "X-Claim-Contract": "claim.v1",
        }
        method = "GET" if body is None else "POST"
        url = f"{self.up.url}/api/v1{path}"
        return httpx.request(method, url, json=body, headers=headers, timeout=30)

    def send(self, path: str, body: Any = None, *, by: str = "worker") -> Any:
        reply = self.ask(path, body, by=by)
        assert reply.is_success, reply.text
        return reply.json()

    def submit(self, name: str, **fields: Any) -> str:
        node = {"queue": QUEUE, "node_id": name, "kind": name, "input": {"name": name}, **fields}
        return str(self.send("/tasks", node)["task_id"])

    def task(self, task_id: str) -> Any:
        return self.send(f"/tasks/{task_id}", by="olga")

    def effect(self, task_id: str) -> Any:
        (effect,) = self.send(f"/tasks/{task_id}/effects", by="olga")["results"]
        return effect

    def epoch(self) -> int:
        return int(self.send(f"/queues/{QUEUE}")["scheduler_epoch"])

    def try_claim(self, kind: str | None = None, *, ttl_seconds: int = 60) -> httpx.Response:
        body = {
            "scheduler_epoch": self.epoch(),
            "owner": "w",
            "ttl_seconds": ttl_seconds,
            "limit": 1,
        }
        return self.ask(f"/queues/{QUEUE}/claims", body | ({"kinds": [kind]} if kind else {}))

    def claim(self, kind: str, *, ttl_seconds: int = 60) -> Any:
        reply = self.try_claim(kind, ttl_seconds=ttl_seconds)
        assert reply.status_code == 200, reply.text
        (claimed,) = reply.json()["claims"]
        return claimed

    def prepare(self, claimed: Any, downstream: str) -> Any:
        body = {"slot": "out", "downstream": downstream, "payload": {"to": claimed["node_id"]}}
        path = f"/attempts/{claimed['fence']['attempt_id']}/effects"
        return self.send(path, {"fence": claimed["fence"], **body})["effect"]

    def try_accept(self, claimed: Any, effect: Any) -> httpx.Response:
        body = {"fence": claimed["fence"], "payload_digest": effect["payload_digest"]}
        return self.ask(f"/effects/{effect['effect_id']}/accept", body)

    def perform(self, claimed: Any, effect: Any, outside: Service) -> int:
        """What a worker does: it sends only with a 200, and reports. The status of the acceptance."""
        accepted = self.try_accept(claimed, effect)
        if accepted.status_code == 200:
            deliver(outside, effect)
            body = {"fence": claimed["fence"], "dispatch_id": accepted.json()["dispatch_id"]}
            report = {**body, "outcome": "COMMITTED", "receipt": "r"}
            self.send(f"/effects/{effect['effect_id']}/report", report)
        return accepted.status_code

    def try_commit(self, claimed: Any) -> httpx.Response:
        body = {"fence": claimed["fence"], "input_digest": claimed["input_digest"], "result": 1}
        return self.ask(f"/attempts/{claimed['fence']['attempt_id']}/commit", body)

    def approve(self) -> None:
        (asked,) = self.send("/approvals?state=PENDING", by="olga")["results"]
        body = {"payload_digest": asked["payload_digest"]}
        self.send(f"/approvals/{asked['approval_id']}/approve", body, by="olga")

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(address(self.up.state), autocommit=True) as connection:
            found = connection.execute(sql, parameters)
            return found.fetchall() if found.description else []

    def shell(self, program: str) -> None:
        done = manage("shell", "-c", program, TENURE_STATE=str(self.up.state))
        assert done.returncode == 0, done.stderr

    def after_restore(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return manage("after_restore", *words, TENURE_STATE=str(self.up.state))

    def page(self, path: str, *, password: str) -> str:
        """A page of the console, as `admin` sees it."""
        with httpx.Client(base_url=self.up.url, follow_redirects=True, timeout=30) as browser:
            form = browser.get("/sign-in").text
            found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
            assert found is not None, form
            answers = {"csrfmiddlewaretoken": found[1], "username": "admin", "password": password}
            browser.post("/sign-in", data=answers, headers={"Referer": f"{self.up.url}/sign-in"})
            reply = browser.get(path)
        assert reply.status_code == 200, reply.text
        return reply.text


def deliver(outside: Service, effect: Any) -> None:
    """The call itself; each arrival acts."""
    httpx.post(
        f"{outside.url}/messages", json={"client_tag": effect["effect_id"]}
    ).raise_for_status()


def arrivals(outside: Service, effect: Any) -> int:
    """XP, by the outside's own log."""
    with outside.world.lock:
        return sum(one["client_tag"] == effect["effect_id"] for one in outside.world.messages)


def json_of(done: "subprocess.CompletedProcess[str]") -> Any:
    return json.loads(done.stdout)
