"""The commands of the processes that `up` starts, and the environment that they share."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from coordinator.site.children import Plan
from coordinator.site.web import threads_environment, web_options

CELERY_THREADS = 4
CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every process must agree on."""

    state: Path
    host: str
    port: int
    url: str
    database_url: str
    secret_key: str
    checkout: Path = CHECKOUT

    @property
    def production(self) -> bool:
        return os.environ.get("TENURE_ENV") == "production"

    def environment(self, process: str, **extra: str) -> dict[str, str]:
        ours = {
            "DJANGO_SETTINGS_MODULE": "coordinator.site.settings",
            "TENURE_STATE": str(self.state),
            "DATABASE_URL": self.database_url,
            "TENURE_PROCESS_NAME": f"tenure-{process}",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(self.checkout), os.environ.get("PYTHONPATH")])
            ),
            "PYTHONUNBUFFERED": "1",
        }
        if not self.production:
            ours["SECRET_KEY"] = self.secret_key
            ours["ALLOWED_HOSTS"] = (
                os.environ.get("ALLOWED_HOSTS")
                or f"localhost,.localhost,127.0.0.1,[::1],{self.host}"
            )
            # Cookies know no ports: two of us on one machine must not sign each other's people out.
            ours["TENURE_COOKIE_SUFFIX"] = os.environ.get("TENURE_COOKIE_SUFFIX") or f"_{self.port}"
            ours["TENURE_LOG_LEVEL"] = os.environ.get("TENURE_LOG_LEVEL") or "WARNING"
        return {**os.environ, **ours, **extra}


@dataclass(frozen=True, slots=True)
class Fleet:
    surroundings: Surroundings

    def web(self) -> Plan:
        around = self.surroundings
        return self._plan(
            "web",
            "granian",
            *("--respawn-failed-workers", "--respawn-interval", "0.5"),
            *web_options(host=around.host, port=around.port),
            grace_seconds=8.0,
        )

    def worker(self) -> Plan:
        return self._plan(
            "worker",
            "celery", "-A", "coordinator.site.celery", "worker", "--pool", "threads",
            "--concurrency", str(CELERY_THREADS), "--without-gossip", "--without-mingle", "--without-heartbeat",
            "--loglevel", "WARNING",
            grace_seconds=10.0,
        )  # fmt: skip

    def beat(self) -> Plan:
        schedule = self.surroundings.state / "beat"
        schedule.mkdir(parents=True, exist_ok=True)
        return self._plan(
            "beat",
            "celery", "-A", "coordinator.site.celery", "--quiet", "beat", "--schedule", str(schedule / "schedule"),
            "--pidfile", "", "--loglevel", "WARNING",
            grace_seconds=5.0,
        )  # fmt: skip

    def demo(self, *, token: str) -> Plan:
        around = self.surroundings
        folder = os.environ.get("TENURE_DEMO_FOLDER") or str(around.checkout)
        kept_out = {
            "DATABASE_URL",
            "SECRET_KEY",
            "CELERY_BROKER_URL",
        }  # a worker knows a URL and a token, no more
        environment = {
            name: value
            for name, value in around.environment("fleet").items()
            if name not in kept_out and name != "DJANGO_SETTINGS_MODULE"
        }
        environment |= {
            "TENURE_URL": around.url,
            "TENURE_TOKEN": token,
            "TENURE_DEMO_FOLDER": folder,
        }
        command = (sys.executable, "-m", "examples.review_fleet", "--practice")
        return Plan(
            name="example fleet",
            command=command,
            environment=environment,
            folder=around.checkout,
            log=None,
            grace_seconds=12.0,
            needed=False,
        )

    def _plan(self, name: str, module: str, *arguments: str, grace_seconds: float) -> Plan:
        around = self.surroundings
        return Plan(
            name=name,
            command=(sys.executable, "-m", module, *arguments),
            environment=threads_environment() | around.environment(name),
            folder=around.checkout,
            log=None if around.production else around.state / "logs" / f"{name}.log",
            grace_seconds=grace_seconds,
        )
