"""One launch of everything on one machine: database, migrations, web, Celery worker and beat, the example fleet.

The launcher itself never opens a database connection: what must be written before the first request is written by
`coordinator.site.prepare`, a process of its own. Everything started here is stopped here, PostgreSQL last.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from coordinator.site.children import Child, how_it_ended
from coordinator.site.claimed import STRAGGLER_SECONDS, StateFolder, UpError, require_free_port
from coordinator.site.cluster import PostgresError
from coordinator.site.fleet import Fleet, Surroundings
from coordinator.site.postgres import Postgres

READY_SECONDS = 60.0
WATCH_SECONDS = 0.2
DATABASE_RESTARTS = 5
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
RESTART_PAUSE_SECONDS = 0.2  # for each start so far

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    state: Path
    host: str
    port: int
    demo: bool

    @property
    def url(self) -> str:
        shown = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104 - compared, not bound
        return f"http://[{shown}]:{self.port}" if ":" in shown else f"http://{shown}:{self.port}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` has made or found: how to sign in, and the example fleet's token."""

    sign_in: str
    fleet_token: str
    held: str = ""  # why intake is held: the database may not be the one that it says it is


class Launch:
    """Runs until a signal arrives or something can't be kept alive. Use from the main thread only."""

    def __init__(self, options: Options, *, say: Say) -> None:
        self.options = options
        self.say = say
        self.state = StateFolder(options.state)
        self.database: Postgres | None = None
        self.children: list[Child] = []
        self.stops_asked = 0
        self._database_deaths = 0

    def run(self) -> None:
        """Start everything, watch it, stop it. Raises UpError with one sentence when it can't go on."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self.state.take()
        try:
            self._start_all()
            self._watch()
        except PostgresError as error:
            raise UpError(str(error)) from error
        except Interrupted:
            pass
        finally:
            self._stop_all()
            self.state.release()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stops_asked += 1
        if self.stops_asked == 1:
            self.say("\nStopping. (Once more to hurry.)")

    def _start_all(self) -> None:
        patience = STRAGGLER_SECONDS if self.state.after_a_crash else 0.0
        require_free_port(self.options.host, self.options.port, patience_seconds=patience)
        surroundings = self._surroundings(self._start_database())
        self._check_stop()
        prepared = self._prepare(surroundings)
        fleet = Fleet(surroundings)
        for plan in (fleet.web(), fleet.worker(), fleet.beat()):
            self._check_stop()
            self._start_child(Child(plan))
        self._wait_for_web()
        self.say(f"Tenure is running at {self.options.url} - {prepared.sign_in} (Ctrl-C stops it)")
        if prepared.held:
            self.say(prepared.held)
        if self.options.host not in LOOPBACK and not os.environ.get("ALLOWED_HOSTS"):
            self.say("Others reach it only by the names in ALLOWED_HOSTS, which is not set.")
        if self.options.demo:
            self._start_child(Child(fleet.demo(token=prepared.fleet_token)))

    def _start_child(self, child: Child) -> None:
        self.children.append(child)
        child.start()

    def _start_database(self) -> str:
        given = os.environ.get("DATABASE_URL", "").strip()
        if given:
            return given
        self.database = Postgres(self.options.state).start()
        if self.options.state not in self.database.places.home.parents:
            self.say(
                f"The database is in {self.database.places.home}: its account cannot enter the state folder."
            )
        return self.database.url

    def _surroundings(self, database_url: str) -> Surroundings:
        return Surroundings(
            state=self.options.state,
            host=self.options.host,
            port=self.options.port,
            url=self.options.url,
            database_url=database_url,
            secret_key=os.environ.get("SECRET_KEY") or self.state.secret("secret_key"),
        )

    def _prepare(self, surroundings: Surroundings) -> Prepared:
        """Migrate, and make the first operator and the fleet's credential, in a process that we wait for."""
        command = [
            sys.executable,
            "-m",
            "coordinator.site.prepare",
            *(["--demo"] if self.options.demo else []),
        ]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=surroundings.checkout,
            env=surroundings.environment("prepare", TENURE_DB_TIMEOUTS="off"),
            start_new_session=True,
        )
        self._check_stop()
        if done.returncode:
            raise UpError(_reason(done.stderr))
        answer = json.loads(done.stdout.splitlines()[-1])
        return Prepared(
            sign_in=answer["sign_in"],
            fleet_token=answer.get("fleet_token", ""),
            held=answer["held"],
        )

    def _wait_for_web(self) -> None:
        web = self.children[0]
        deadline = time.monotonic() + READY_SECONDS
        while not _answers(self.options.url):
            self._check_stop()
            if web.has_exited():
                raise UpError(
                    f"The web server does not start ({how_it_ended(web.sweep())}).\n{web.last_words()}"
                )
            if time.monotonic() > deadline:
                raise UpError(
                    f"The web server does not answer at {self.options.url}. See {web.plan.log or 'above'}."
                )
            time.sleep(WATCH_SECONDS)

    def _watch(self) -> None:
        while not self.stops_asked:
            if self.database is not None and self.database.died():
                self._revive_database(self.database)
            for child in list(self.children):
                if child.has_exited():
                    self._revive(child)
            time.sleep(WATCH_SECONDS)

    def _revive_database(self, database: Postgres) -> None:
        self._database_deaths += 1
        if self._database_deaths > DATABASE_RESTARTS:
            raise UpError(f"PostgreSQL keeps dying; see {database.places.log}.")
        self.say("PostgreSQL died; starting it again.")
        database.restart()

    def _revive(self, child: Child) -> None:
        ended = how_it_ended(child.sweep())
        if self.stops_asked:
            return
        if not child.plan.needed and child.process is not None and child.process.returncode == 0:
            self.children.remove(child)  # it has done its work
            return
        words = child.last_words()
        if child.may_restart():
            last = words.splitlines()[-1].strip() if words else "no message"
            self.say(f"The {child.plan.name} process died ({ended}: {last}); starting it again.")
            time.sleep(RESTART_PAUSE_SECONDS * len(child.starts))
            child.start()
            return
        message = f"The {child.plan.name} process keeps dying ({ended}).\n{words}".rstrip()
        if child.plan.needed:
            raise UpError(message)
        self.say(f"{message}\nGoing on without it.")
        self.children.remove(child)

    def _stop_all(self) -> None:
        """The fleet first, while there is still a server to hand its leases back to; PostgreSQL last.

        A second signal cuts the waiting short.
        """
        fleet = [child for child in self.children if not child.plan.needed]
        servers = [child for child in reversed(self.children) if child.plan.needed]
        for group in (fleet, servers):
            for child in group:
                child.ask_to_stop()
            for child in group:
                child.stop(hurry=lambda: self.stops_asked > 1)
        if self.database is not None:
            self.database.stop()
        if self.stops_asked:
            self.say("Stopped.")

    def _check_stop(self) -> None:
        if self.stops_asked:
            raise Interrupted


class Interrupted(Exception):
    """A signal came while we were still starting."""


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/healthz", timeout=2).close()  # noqa: S310 - our own http address
    except urllib.error.HTTPError:
        return True  # it speaks HTTP: it is up
    except OSError:
        return False
    return True


def _reason(stderr: str) -> str:
    """The message of `prepare`: one line when it foresaw the trouble, else the end of its traceback."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if told:
        return told[-1]
    return "The database could not be prepared: " + (lines[-1] if lines else "no message")
