"""The installation: PostgreSQL, two web servers, jobs, four outside services, six workers, proxies between."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psycopg

from coordinator.site.postgres import Postgres
from coordinator.site.web import web_options
from tests.chaos.downstream import KINDS
from tests.chaos.observations import Recorder
from tests.chaos.parts import Part
from tests.chaos.proxy import Proxy, Weather
from tests.sdk.served import ROOT, free_port
from tests.site.launching import environment
from tests.site.waiting import until

QUEUE = "chaos"
WORKERS = 6
#: How wrong each worker's clock is, in seconds.
SKEWS = (0, 3_600, -3_600, 0, 3_600, 0)
#: Durable against the death of any process, which is what happens here; not against the machine's.
POSTGRES = {"fsync": "off", "max_connections": "120", "shared_buffers": "64MB"}

ON_THE_WAY_IN = Weather(
    lose_request=0.02, lose_answer=0.03, delay=0.05, reset=0.02, late=0.03, replays_a_second=1.5
)
ON_THE_WAY_OUT = Weather(
    lose_request=0.05,
    lose_answer=0.12,
    delay=0.05,
    reset=0.03,
    late=0.10,
    double=0.08,
    replays_a_second=0.5,
)
#: What acts again on every arrival is promised nothing about a network that doubles calls (contract 8).
ON_THE_WAY_TO_LATE = Weather(lose_request=0.05, lose_answer=0.12, delay=0.05, reset=0.03, late=0.14)


#: Where a bug has to show within seconds.
HARSH = Weather(lose_answer=0.25, late=0.2, late_seconds=(0.5, 4.0), double=0.3)
HARSH_TO_LATE = Weather(lose_answer=0.25, late=0.4, late_seconds=(0.5, 4.0))


@dataclass
class Rig:
    """Started and stopped as a whole; everything in it may be broken meanwhile."""

    seed: int
    bug: str | None = None
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="tenure-chaos-")))
    webs: list[Part] = field(default_factory=list)
    workers: list[Part] = field(default_factory=list)
    services: list[Part] = field(default_factory=list)
    proxies: dict[str, Proxy] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    ports: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder.chmod(0o755)  # the server's account must get in when we are root
        self.seen.mkdir()
        self._stack = ExitStack()
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        if error is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def seen(self) -> Path:
        """Where everybody's observations are."""
        return self.folder / "seen"

    @property
    def parts(self) -> list[Part]:
        return [*self.webs, self.jobs, *self.services, *self.workers]

    # -- starting ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.postgres = Postgres(self.folder / "state", settings=POSTGRES)
        self._stack.callback(self.postgres.stop)
        self.postgres.start()
        self._base = environment(
            DATABASE_URL=self.postgres.url,
            TENURE_STATE=str(self.folder / "state"),
            TENURE_LOG_LEVEL="ERROR",
            TENURE_DB_POOL_MAX="16",
            TENURE_DB_POOL_TIMEOUT_SECONDS="3",
        )
        if self.bug:
            self._base["CHAOS_BUG"] = self.bug
        made = subprocess.run(
            [sys.executable, "-m", "tests.chaos.making", QUEUE],
            cwd=ROOT,
            env=self._base,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        self.tokens = json.loads(made.stdout)
        self._start_webs()
        self._start_services()
        self.jobs = self._part("jobs", "tests.chaos.jobs", QUEUE, str(self.seen), **self._outside)
        self.jobs.environment = {
            **self.jobs.environment,
            "TENURE_ADAPTERS": "tests.chaos.adapters:adapters",
        }
        self.jobs.start()
        for number in range(WORKERS):
            self._start_worker(number)

    def _part(self, name: str, module: str, *arguments: str, **extra: str) -> Part:
        log = self.folder / f"{name}.log"
        part = Part.of_module(
            name, module, *arguments, environment={**self._base, **extra}, log=log
        )
        self._stack.callback(part.kill)
        return part

    def _start_webs(self) -> None:
        for number in range(2):
            port = free_port()
            self.ports.append(port)
            options = web_options(
                host="127.0.0.1",
                port=port,
                processes=1,
                threads=24,
                application="tests.chaos.web:application",
            )
            part = self._part(f"web-{number}", "granian", *options)
            self.webs.append(part)
            part.start()
        for port in self.ports:
            until(lambda port=port: _answers(port), "a web server")  # type: ignore[misc]

    def _start_services(self) -> None:
        inward = self._proxy("gate", self.ports, ON_THE_WAY_IN)
        for kind in KINDS:
            port = free_port()
            part = self._part(
                kind,
                "tests.chaos.downstream",
                kind,
                str(port),
                str(self.folder / f"{kind}.performed"),
                TENURE_URL=inward.url,
                TENURE_TOKEN=self.tokens["gate"],
            )
            part.start()
            self.services.append(part)
            self._proxy(kind, [port], self._outward(kind))

    def _outward(self, kind: str) -> Weather:
        if self.bug:
            return HARSH_TO_LATE if kind == "late" else HARSH
        return ON_THE_WAY_TO_LATE if kind == "late" else ON_THE_WAY_OUT

    @property
    def _outside(self) -> dict[str, str]:
        return {
            "CHAOS_DOWNSTREAMS": json.dumps({kind: self.proxies[kind].url for kind in KINDS}),
        }

    def _start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        proxy = self._proxy(name, self.ports, ON_THE_WAY_IN)
        part = self._part(
            name,
            "tests.chaos.worker",
            name,
            QUEUE,
            str(self.seen),
            str(SKEWS[number]),
            TENURE_URL=proxy.url,
            TENURE_TOKEN=self.tokens["work"],
            **self._outside,
        )
        part.start()
        self.workers.append(part)

    def _proxy(self, name: str, targets: list[int], weather: Weather) -> Proxy:
        """What a proxy delivers to the coordinator by itself is an observation, too."""
        recorder = None
        if weather is ON_THE_WAY_IN:
            recorder = Recorder(self.seen, f"proxy-{name}")
            self._stack.callback(recorder.close)
        seed = random.Random(f"{self.seed} {name}").randrange(2**32)
        proxy = Proxy(targets, weather=weather, seed=seed, recorder=recorder)
        self.proxies[name] = self._stack.enter_context(proxy)
        return proxy

    def _stop(self) -> None:
        self._stack.close()

    # -- looking ----------------------------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """As the database says; waits out its restarts."""
        deadline = time.monotonic() + 60
        while True:
            try:
                with psycopg.connect(self.postgres.url, autocommit=True) as connection:
                    return connection.execute(sql, parameters).fetchall()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def performed(self, kind: str) -> list[dict[str, Any]]:
        """A service's own log."""
        log = self.folder / f"{kind}.performed"
        return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]

    def logs(self) -> str:
        """The ends of the processes' logs, for whoever has to find out."""
        parts = [part for part in self.parts if part.log.exists()]
        return "\n".join(f"== {part.name}\n{part.log.read_text()[-1500:]}" for part in parts)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/readyz", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
