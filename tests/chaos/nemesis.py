"""What is broken on purpose, when: drawn from a seed. Runs in the main thread, since it starts processes."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter

import psycopg

from tests.chaos.parts import Part
from tests.chaos.rig import Rig

MOST_FROZEN = 3
#: What happens how often, of a hundred.
DEEDS = {
    "freeze a worker": 46,
    "kill a worker": 12,
    "freeze a web server": 8,
    "kill a web server": 6,
    "kill a service": 8,
    "kill the jobs": 4,
    "end database sessions": 10,
    "bump the epoch": 8,
}


class Nemesis:
    """`run` breaks things for so many seconds; `mend` lets everything be whole again."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._random = random.Random(f"{rig.seed} nemesis")
        self._thaws: list[tuple[float, Part]] = []
        self._starts: list[tuple[float, Part]] = []
        self.done: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        began = time.monotonic()
        restarts = [began + seconds * 0.55]
        if seconds > 240:
            restarts = [began + at for at in range(90, int(seconds), 120)]
        next_deed = began + 3
        while (now := time.monotonic()) < began + seconds:
            self._keep_up(now)
            if restarts and now >= restarts[0]:
                restarts.pop(0)
                self._restart_postgres()
            elif now >= next_deed:
                next_deed = now + self._random.uniform(0.5, 1.6)
                (deed,) = self._random.choices(list(DEEDS), weights=list(DEEDS.values()))
                self._do(deed, now)
            time.sleep(0.05)

    def mend(self) -> None:
        """Nothing is frozen or dead, and the networks are calm but for what they still hold."""
        from tests.chaos.proxy import CALM

        for proxy in self._rig.proxies.values():
            proxy.weather = CALM
        self._keep_up(float("inf"))
        for part in self._rig.parts:
            if not part.runs:
                part.start()

    def keep_running(self) -> None:
        """Start what has died by itself, as a supervisor would."""
        self._keep_up(time.monotonic())

    def _keep_up(self, now: float) -> None:
        for due in [each for each in self._thaws if each[0] <= now]:
            self._thaws.remove(due)
            due[1].thaw()
        for due in [each for each in self._starts if each[0] <= now]:
            self._starts.remove(due)
            due[1].start()
        waiting = [part for _, part in self._starts]
        for part in self._rig.parts:
            if not part.runs and part not in waiting:
                self.done[f"{part.name.split('-')[0]} died by itself"] += 1
                self._starts.append((now + 0.5, part))

    def _do(self, deed: str, now: float) -> None:
        match deed:
            case "freeze a worker":
                self._freeze(self._rig.workers, now, 6.5, 12.0)
            case "freeze a web server":
                self._freeze(self._rig.webs, now, 0.5, 2.5)
            case "kill a worker":
                self._kill(self._rig.workers, now)
            case "kill a web server":
                self._kill(self._rig.webs, now)
            case "kill a service":
                self._kill(self._rig.services, now)
            case "kill the jobs":
                self._kill([self._rig.jobs], now)
            case "bump the epoch":
                self._rig.jobs.say("bump")
            case "end database sessions":
                self._end_sessions()
        self.done[deed] += 1

    def _freeze(self, parts: list[Part], now: float, least: float, most: float) -> None:
        frozen = [part for part in parts if part.is_frozen]
        able = [part for part in parts if part.runs and not part.is_frozen]
        if not able or len(frozen) >= min(MOST_FROZEN, len(parts) - 1):
            return
        part = self._random.choice(able)
        part.freeze()
        self._thaws.append((now + self._random.uniform(least, most), part))

    def _kill(self, parts: list[Part], now: float) -> None:
        able = [part for part in parts if part.runs and not part.is_frozen]
        if able:
            part = self._random.choice(able)
            part.kill()
            part.deaths += 1
            self._starts.append((now + self._random.uniform(0.1, 1.0), part))

    def _end_sessions(self) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            self._rig.rows(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                " ORDER BY state = 'active' DESC, random() LIMIT 4) chosen"
            )

    def _restart_postgres(self) -> None:
        """At once, without a farewell: what was not in its log is gone."""
        process = self._rig.postgres.process
        assert process is not None
        process.send_signal(signal.SIGQUIT)
        process.wait(60)
        self._rig.postgres.restart()
        self.done["restart PostgreSQL"] += 1
