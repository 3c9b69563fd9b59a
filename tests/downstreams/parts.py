"""One row of the table for each kind of downstream: the adapter, a real part behind a relay, and the part's own log."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import psycopg
from moto.server import ThreadedMotoServer

from tenure.digests import effect_id, payload_digest
from tenure.downstreams import (
    S3,
    Adapter,
    Call,
    ChatPost,
    EtagResource,
    GitRemote,
    Guarantee,
    HttpKey,
    McpTool,
    Reservation,
    Smtp,
    Sql,
)
from tenure.downstreams.sql import TABLE
from tests.downstreams.git_server import GitServer, git
from tests.downstreams.mail import Mailbox
from tests.downstreams.relay import Relay
from tests.downstreams.service import Service
from tests.downstreams.tools import Tools

BOUND_TO = "outside"


@dataclass
class Part:
    """A downstream that runs. A test asks its log what was really done, and never the adapter."""

    adapter: Adapter
    relay: Relay
    payload: Any
    condition: Any = None
    #: What a second arrival of the very same call does.
    acts_again: bool = False
    #: Long enough to begin a call on a busy machine, short enough to wait for.
    hold_seconds: float = 2.0
    #: Whether the relay can play a call's bytes again; where it can't, the adapter sends twice.
    replays_bytes: bool = True
    count: Any = None
    #: Make it say no, and take that back.
    reject: Any = None
    allow: Any = None
    #: A payload and a condition for one more effect, as the part stands now.
    fresh: Any = None
    log: dict[str, Any] = field(default_factory=dict)

    def call(self, *, seconds: float = 60.0, payload: Any = None, condition: Any = None) -> Call:
        """A call of a new effect, as an acceptance would permit it."""
        payload = self.payload if payload is None else payload
        condition = self.condition if condition is None else condition
        task = str(uuid.uuid4())
        name = effect_id(task_id=task, node_id="n", slot="s")
        return Call(
            effect_id=name,
            payload=payload,
            payload_digest=payload_digest(
                downstream=BOUND_TO, payload=payload, condition=condition
            ),
            condition=condition,
            dispatch_id=str(uuid.uuid4()),
            idempotency_key=name,
            fencing_token=f"1.{task}.1.1",
            deadline=time.monotonic() + seconds,
            deadline_at=datetime.now(UTC) + timedelta(seconds=seconds),
        )


def again(call: Call, *, seconds: float = 60.0) -> Call:
    """The next dispatch of the same effect."""
    return replace(
        call,
        dispatch_id=str(uuid.uuid4()),
        fencing_token=call.fencing_token[:-1] + "2",
        deadline=time.monotonic() + seconds,
        deadline_at=datetime.now(UTC) + timedelta(seconds=seconds),
    )


@contextmanager
def smtp() -> Iterator[Part]:
    with Mailbox() as box, Relay(box.address, trigger=b"\r\n.\r\n") as relay:
        payload = {
            "from": "fleet@example.org",
            "to": ["someone@example.org"],
            "subject": "Käse",
            "text": ".a dot at the start\nand an end",
        }
        yield Part(
            adapter=Smtp("127.0.0.1", relay.port),
            relay=relay,
            payload=payload,
            acts_again=True,
            replays_bytes=False,
            count=lambda call: box.count(call.effect_id),
            reject=lambda: setattr(box, "reject", "554 not this one"),
            allow=lambda: setattr(box, "reject", ""),
            fresh=lambda: (payload, None),
            log={"box": box},
        )


@contextmanager
def git_remote() -> Iterator[Part]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(GitServer(folder))
        bare = server.make("repo.git")
        start = _first_commit(bare)
        relay = stack.enter_context(
            Relay(server.address, trigger=b"POST /repo.git/git-receive-pack")
        )

        def count(call: Call) -> int:
            words = ["log", "main", "--format=%H", f"--grep=Tenure-Effect: {call.effect_id}"]
            return len(git("-C", str(bare), *words).splitlines())

        def reject() -> None:
            hook = bare / "hooks" / "pre-receive"
            hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
            hook.chmod(0o755)

        def fresh() -> Any:
            files = {f"report/{uuid.uuid4().hex}.md": {"text": "# Report\n"}}
            return {**payload, "files": files}, {"old": git("-C", str(bare), "rev-parse", "main")}

        payload = {
            "ref": "refs/heads/main",
            "message": "Add the report",
            "author": {"name": "Fleet", "email": "fleet@example.org"},
            "date": "2026-11-30T09:00:00Z",
            "files": {"report/a b.md": {"text": "# Report\n"}, "old.txt": None},
        }
        yield Part(
            adapter=GitRemote(f"{relay.url}/repo.git", folder=folder / "ours.git"),
            relay=relay,
            payload=payload,
            condition={"old": start},
            hold_seconds=6.0,
            count=count,
            reject=reject,
            allow=(bare / "hooks" / "pre-receive").unlink,
            fresh=fresh,
            log={"bare": bare},
        )


def _first_commit(bare: Path) -> str:
    tree = git("-C", str(bare), "hash-object", "-t", "tree", "-w", "/dev/null")
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    first = git("-C", str(bare), *who, "commit-tree", tree, "-m", "Begin")
    git("-C", str(bare), "update-ref", "refs/heads/main", first)
    git("-C", str(bare), "symbolic-ref", "HEAD", "refs/heads/main")
    return first


@contextmanager
def s3() -> Iterator[Part]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = {
            "region_name": "us-east-1",
            "aws_access_key_id": "x",
            "aws_secret_access_key": "x",
        }
        direct = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **options)
        # One memory serves all the servers of this process.
        bucket = f"reports-{uuid.uuid4().hex}"
        direct.create_bucket(Bucket=bucket)
        direct.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        # The content begins the call: boto3 sends its head before, and waits to be told to go on.
        with Relay((host, port), trigger=b"# Report") as relay:

            def count(call: Call) -> int:
                versions = direct.list_object_versions(Bucket=bucket).get("Versions", [])
                heads = [
                    direct.head_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
                    for one in versions
                ]
                return sum(
                    1 for head in heads if head["Metadata"].get("tenure-effect") == call.effect_id
                )

            adapter = S3(bucket, endpoint_url=relay.url, **options)
            payload = {"key": "a/report.md", "text": "# Report", "content_type": "text/markdown"}
            condition = {"if_none_match": "*"}

            def use(name: str) -> None:
                adapter._bucket = name

            yield Part(
                adapter=adapter,
                relay=relay,
                payload=payload,
                condition=condition,
                hold_seconds=4.0,
                count=count,
                reject=lambda: use("no-such-bucket"),
                allow=lambda: use(bucket),
                fresh=lambda: ({**payload, "key": f"a/{uuid.uuid4().hex}.md"}, condition),
                log={"direct": direct},
            )
    finally:
        server.stop()


@contextmanager
def http_key(*, dedupe: bool = True) -> Iterator[Part]:
    with Service() as service, Relay(service.address, trigger=b"POST /payments") as relay:
        service.world.settings.dedupe = dedupe
        adapter = HttpKey(f"{relay.url}/payments", look_up_url=f"{relay.url}/payments/{{key}}")
        yield _of_service(service, relay, adapter, payload={"amount": 20}, acts_again=not dedupe)


@contextmanager
def etag() -> Iterator[Part]:
    with Service() as service, Relay(service.address, trigger=b"PUT /documents") as relay:
        service.world.documents["a"] = ({"title": "before"}, '"v0"')
        yield _of_service(
            service,
            relay,
            EtagResource(relay.url),
            payload={"path": "/documents/a", "body": {"title": "after"}},
            condition={"if_match": '"v0"'},
            fresh=lambda: (
                {"path": "/documents/a", "body": {"title": uuid.uuid4().hex}},
                {"if_match": service.world.documents["a"][1]},
            ),
        )


@contextmanager
def reservation() -> Iterator[Part]:
    with Service() as service, Relay(service.address, trigger=b"/capture HTTP") as relay:
        adapter = Reservation(f"{relay.url}/reservations")
        yield _of_service(service, relay, adapter, payload={"amount": 20})


@contextmanager
def chat() -> Iterator[Part]:
    with Service() as service, Relay(service.address, trigger=b"POST /messages") as relay:
        adapter = ChatPost(f"{relay.url}/messages", look_up_url=f"{relay.url}/messages?tag={{key}}")
        payload = {"channel": "general", "text": "hello"}
        yield _of_service(service, relay, adapter, payload=payload, acts_again=True)


def _of_service(
    service: Service, relay: Relay, adapter: Adapter, *, payload: Any, **facts: Any
) -> Part:
    facts.setdefault("fresh", lambda: (payload, None))
    return Part(
        adapter=adapter,
        relay=relay,
        payload=payload,
        count=lambda call: service.world.count(call.effect_id),
        reject=lambda: setattr(service.world.settings, "reject", 422),
        allow=lambda: setattr(service.world.settings, "reject", 0),
        log={"service": service, "world": service.world},
        **facts,
    )


@contextmanager
def sql(database: dict[str, Any]) -> Iterator[Part]:
    """On a database of its own in the tests' server, through TCP."""
    name = f"tenure_sql_{uuid.uuid4().hex[:8]}"
    admin = psycopg.connect(**database, autocommit=True)
    admin.execute(f'CREATE DATABASE "{name}"')
    own = {**database, "dbname": name}
    direct = psycopg.connect(**own, autocommit=True)
    direct.execute("CREATE TABLE payments (name text, amount int CHECK (amount > 0))")
    direct.execute(TABLE)

    def apply(cursor: psycopg.Cursor[Any], payload: Any) -> Any:
        cursor.execute("INSERT INTO payments VALUES (%s, %s)", (payload["name"], payload["amount"]))
        return {"paid": payload["amount"]}

    def count(effect: Any) -> int:
        payload = effect.payload  # of a call, or as the ledger stores it
        name = (json.loads(payload) if isinstance(payload, str) else payload)["name"]
        row = direct.execute("SELECT count(*) FROM payments WHERE name = %s", (name,)).fetchone()
        assert row is not None
        return int(row[0])

    try:
        with Relay(_postgres_address(database), trigger=b"COMMIT") as relay:
            user = quote(str(database["user"]))
            through = f"postgresql://{user}@127.0.0.1:{relay.port}/{name}?sslmode=disable"
            if database.get("password"):
                through += f"&password={quote(str(database['password']))}"
            part = Part(
                adapter=Sql(through, apply),
                relay=relay,
                payload={"name": "x", "amount": 20},
                replays_bytes=False,
                count=count,
                log={"direct": direct},
            )
            part.reject = lambda: part.payload.update(amount=-1)
            part.fresh = lambda: ({"name": uuid.uuid4().hex, "amount": 20}, None)
            yield part
    finally:
        direct.close()
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        admin.close()


def _postgres_address(database: dict[str, Any]) -> Any:
    host, port = str(database["host"]), int(database.get("port") or 5432)
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


@contextmanager
def mcp_tool(*, asks: bool = True) -> Iterator[Part]:
    with Tools() as tools, Relay(tools.address, trigger=b'"name":"pay"') as relay:
        adapter = McpTool(
            f"{relay.url}/mcp",
            guarantee=Guarantee.NONE,
            look_up_tool="look" if asks else None,
            headers={"Host": f"127.0.0.1:{tools.address[1]}"},
        )
        part = Part(
            adapter=adapter,
            relay=relay,
            payload={"tool": "pay", "arguments": {"amount": 20}},
            acts_again=True,
            hold_seconds=6.0,
            count=lambda call: tools.paid.count(call.effect_id),
            log={"tools": tools},
        )
        part.reject = lambda: part.payload.update(arguments={"amount": "much"})
        part.fresh = lambda: ({"tool": "pay", "arguments": {"amount": 20}}, None)
        yield part
