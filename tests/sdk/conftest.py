"""A coordinator that is really there, and a queue of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User

from coordinator.services.credentials import (
    Issued,
    create_operator_token,
    issue_credential,
)
from coordinator.tasks import sweep
from tenure import Client, RetryPolicy, Worker
from tenure.worker import SHORTEST_TTL_SECONDS
from tests import world
from tests.history import history_holds
from tests.sdk.served import Served

__all__ = ["history_holds"]

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def served(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("served") / "web.log")
    server.start()
    yield server
    server.stop()


@dataclass
class Site:
    """A queue of a real coordinator, and a token for it."""

    url: str
    queue: str
    token: str

    def client(self, *, url: str | None = None, token: str | None = None, **options: Any) -> Client:
        return Client(url or self.url, token or self.token, **options)

    def worker(self, *, url: str | None = None, token: str | None = None, **options: Any) -> Worker:
        return Worker(
            url or self.url, token or self.token, self.queue, **{"ttl_seconds": 60, **options}
        )

    def lively_worker(self, **options: Any) -> Worker:
        """Renews every two seconds, but leases of a minute: a machine that stands still for a while loses none."""
        worker = self.worker(**options)
        worker._ttl_seconds = SHORTEST_TTL_SECONDS
        return worker

    def submit(self, count: int = 1, **node: Any) -> list[str]:
        """Single tasks, in order."""
        with self.client() as client:
            tasks = [
                client.submit_task(
                    queue=self.queue,
                    kind="work",
                    input={"number": number},
                    priority=-number,
                    **node,
                )
                for number in range(count)
            ]
        return [task.task_id for task in tasks]

    def token_for(self, *scopes: str, pool: str = "blue") -> str:
        world.pool(name=pool)
        issued = issue_credential(
            name=f"fleet-{next(_NUMBERS)}",
            pool=pool,
            queues=[self.queue],
            scopes=scopes,
            actor=world.operator(),
        )
        assert isinstance(issued, Issued)
        assert issued.token is not None
        return issued.token

    def operator_token(self, role: str = "admin") -> str:
        """A personal token of a new person."""
        user = User.objects.create_user(f"person-{next(_NUMBERS)}")
        user.groups.add(Group.objects.get(name=role))
        return create_operator_token(user=user, name="tests")[1]

    def lapse(self, task_id: str) -> None:
        """Let the lease of a task have run out, and the sweep have seen it."""
        world.lapse(UUID(task_id))
        sweep()


@pytest.fixture
def site(served: Served, transactional_db: None) -> Site:
    made = Site(served.url, f"lane-{next(_NUMBERS)}", "")
    world.queue(name=made.queue, retry_backoff_seconds=0)
    made.token = made.token_for("work", "submit")
    return made


#: Pauses of a test's own client.
QUICK = RetryPolicy(tries=5, first_pause_seconds=0.01, longest_pause_seconds=0.02)
