"""One installation on several hosts: PostgreSQL on one, a web server on each of two, workers elsewhere."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import psycopg

from coordinator.site.cluster import ROLE
from coordinator.site.fleet import Fleet, Surroundings
from coordinator.site.places import DATABASE
from coordinator.site.postgres import Postgres
from tests.history import broken_rules
from tests.hosts.network import NETWORK, Hosts
from tests.hosts.programs import Program
from tests.plugin import FAST
from tests.site.launching import CHECKOUT, environment

#: `work` and `away` have workers of the fleet, and nothing of ours.
NAMES: Final = ("db", "web1", "web2", "work", "away")
WEB: Final = ("web1", "web2")
#: A name that leads to both web servers, as a DNS name with two addresses does.
EITHER: Final = "tenure.test"
PORT: Final = 8000
PASSWORD: Final = "database-password"
#: As docs/operations.md advises.
LINE: Final = "connect_timeout=5&keepalives_idle=30&tcp_user_timeout=10000"
POOL: Final = "fleet"
#: A queue for each story.
QUEUES: Final = ("run-redis", "run-rabbitmq", "hint", "epoch", "cut")

_FIRST_STEPS: Final = f"""
from django.core.management import call_command
from coordinator.actors import system
from coordinator.services.queues import create_pool, create_queue
call_command("migrate", verbosity=0)
create_pool(name="{POOL}", actor=system("test"))
for name in {QUEUES}:
    create_queue(name=name, active_pool="{POOL}", actor=system("test"))
call_command("create_operator", "olga", "--role", "admin", "--token", "--json")
call_command("create_credential", "w", "--pool", "{POOL}", "--queue", *{QUEUES}, "--scope", "work", "submit", "--json")
"""


@dataclass
class Installation:
    """Hosts with programs on them, as their clients see it. A call comes from the host `work` and says over which."""

    hosts: Hosts
    folder: Path
    database: Postgres
    direct: "psycopg.Connection[Any]"
    tokens: dict[str, str] = field(default_factory=dict)

    def environment(self, host: str, **extra: str) -> dict[str, str]:
        """What each host must be given: all of them the same but for a state folder of its own."""
        names = [*WEB, EITHER, *(self.hosts.address(name) for name in WEB)]
        return environment(
            DJANGO_SETTINGS_MODULE="coordinator.site.settings",
            DATABASE_URL=f"postgresql://{ROLE}:{PASSWORD}@{self.hosts.address('db')}:5432/{DATABASE}?{LINE}",
            SECRET_KEY="the-same-on-every-host-of-an-installation",
            ALLOWED_HOSTS=",".join(names),
            TENURE_STATE=str(self.folder / host),
            TENURE_IDENTITY_FILE=str(self.folder / "shared" / "identity.json"),
            TENURE_BLOB_DIR=str(self.folder / "shared" / "blobs"),
            TENURE_PROCESS_NAME=f"tenure-{host}",
            TENURE_LOG_LEVEL="WARNING",
            PYTHONUNBUFFERED="1",
            **extra,
        )

    def web(self, host: str) -> Program:
        command = [*self._fleet(host).web().command]
        command[command.index("--workers") + 1] = "1"  # two of them are two hosts already
        return Program(
            self.hosts, host, *command,
            log=self.folder / f"{host}.log", environment=self.environment(host), port=PORT,
        )  # fmt: skip

    @contextmanager
    def jobs(self, *hosts: str, broker_url: str) -> Iterator[None]:
        """A Celery worker and a beat on each of the hosts."""
        with ExitStack() as stack:
            for host in hosts:
                fleet, around = (
                    self._fleet(host),
                    self.environment(host, CELERY_BROKER_URL=broker_url),
                )
                for plan in (fleet.worker(), fleet.beat()):
                    log = self.folder / f"{plan.name}-{host}.log"
                    program = Program(self.hosts, host, *plan.command, log=log, environment=around)
                    stack.enter_context(program)
            yield

    def worker(self, queue: str, owner: str, *, over: str) -> Program:
        """A worker of the SDK on the host `work`, with no more than a URL and a token."""
        around = environment(TENURE_URL=self.url(over), TENURE_TOKEN=self.tokens["worker"])
        command = (sys.executable, "-m", "tests.hosts.worker", queue, owner)
        log = self.folder / f"worker-{owner}.log"
        return Program(self.hosts, "work", *command, log=log, environment=around)

    def url(self, over: str) -> str:
        name = self.hosts.address(over) if over in WEB else over
        return f"http://{name}:{PORT}"

    def ask(
        self, over: str, path: str, body: Any = None, *, by: str = "worker", on: str = "work"
    ) -> httpx.Response:
        headers = {
            "Authorization": f"Bearer {self.tokens[by]}",
            "Idempotency-Key": uuid4().hex,
            "X-Claim-Contract": "claim.v1",
        }
        method = "GET" if body is None else "POST"
        with self.hosts.inside(on):
            url = f"{self.url(over)}/api/v1{path}"
            return httpx.request(method, url, json=body, headers=headers, timeout=60)

    def send(
        self, over: str, path: str, body: Any = None, *, by: str = "worker", on: str = "work"
    ) -> Any:
        reply = self.ask(over, path, body, by=by, on=on)
        assert reply.is_success, reply.text
        return reply.json()

    def submit(self, over: str, queue: str, kind: str) -> str:
        node = {"queue": queue, "node_id": kind, "kind": kind, "input": {}}
        return str(self.send(over, "/tasks", node)["task_id"])

    def claim(
        self, over: str, queue: str, kind: str, *, ttl_seconds: int = 300, on: str = "work"
    ) -> Any:
        epoch = self.send(over, f"/queues/{queue}")["scheduler_epoch"]
        body = {
            "scheduler_epoch": epoch,
            "owner": on,
            "ttl_seconds": ttl_seconds,
            "limit": 1,
            "kinds": [kind],
        }
        (claimed,) = self.send(over, f"/queues/{queue}/claims", body, on=on)["claims"]
        return claimed

    def commit(self, over: str, claimed: Any, *, on: str = "work") -> httpx.Response:
        body = {"fence": claimed["fence"], "input_digest": claimed["input_digest"], "result": on}
        path = f"/attempts/{claimed['fence']['attempt_id']}/commit"
        return self.ask(over, path, body, on=on)

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """Straight from the database, past the network."""
        return self.direct.execute(sql, parameters or None).fetchall()

    def committed_by(self, queue: str) -> dict[str, int]:
        """How many tasks each owner has committed; the jobs' own drills are left out."""
        sql = (
            "SELECT a.owner, count(*) FROM coordinator_canonicalcommit c"
            " JOIN coordinator_attempt a ON a.attempt_id = c.attempt_id"
            " JOIN coordinator_task t ON t.task_id = c.task_id JOIN coordinator_queue q ON q.id = t.queue_id"
            " WHERE q.name = %s AND t.kind IN ('work', 'away') GROUP BY 1"
        )
        return dict(self.rows(sql, queue))

    def broken_rules(self) -> dict[str, Any]:
        with self.direct.cursor() as cursor:
            return broken_rules(cursor)

    def first_steps(self) -> None:
        """Migrations, a queue for each story, an operator and a worker's credential: as any host may do it, once."""
        done = subprocess.run(
            self.hosts.command(
                "web1", sys.executable, "manage.py", "shell", "--no-imports", "-c", _FIRST_STEPS
            ),
            cwd=CHECKOUT,
            env=self.environment("web1", TENURE_DB_TIMEOUTS="off"),
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        person, credential = done.stdout.strip().splitlines()
        self.tokens = {
            "olga": json.loads(person)["token"],
            "worker": json.loads(credential)["token"],
        }

    def _fleet(self, host: str) -> Fleet:
        around = Surroundings(
            state=self.folder / host, host=self.hosts.address(host), port=PORT, url="", database_url="", secret_key="",
        )  # fmt: skip
        return Fleet(around)


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Laid out and started, up to both web servers being ready."""
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts(*NAMES))
        for name in (*WEB, "shared"):
            (folder / name).mkdir()
        database = stack.enter_context(_database(hosts, folder / "db"))
        direct = stack.enter_context(psycopg.connect(database.url, autocommit=True))
        site = Installation(hosts, folder, database, direct)
        hosts.know("work", {EITHER: [hosts.address(name) for name in WEB]})
        site.first_steps()
        web = [stack.enter_context(site.web(host)) for host in WEB]
        for program in web:
            program.until_ready()
        yield site


@contextmanager
def _database(hosts: Hosts, folder: Path) -> Iterator[Postgres]:
    """The embedded server, which the other hosts reach with a password and only with one."""
    server = Postgres(folder, settings=FAST | {"listen_addresses": hosts.address("db")})
    folder.mkdir()
    folder.chmod(0o755)
    with hosts.inside("db"):
        server.start()
    try:
        with (server.places.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {NETWORK} scram-sha-256\n")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE {ROLE} PASSWORD '{PASSWORD}'")
            connection.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        server.stop()
