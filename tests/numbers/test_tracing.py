"""Traces: a worker's spans and the coordinator's are one, and tell nothing that is somebody's own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from coordinator import tracing
from coordinator.rounds import name_point
from coordinator.services.commit_writes import _COMMIT_TASKS
from coordinator.site.tracing import start_tracing
from tests import world
from tests.numbers.otlp import Receiver, Span
from tests.sdk.conftest import Site
from tests.sdk.served import Served

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    made = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield made
    made.stop()


@pytest.fixture
def site(receiver: Receiver, transactional_db: None, tmp_path: Path) -> Iterator[Site]:
    server = Served(tmp_path / "web.log")
    server.start()
    made = Site(server.url, "traced", "")
    world.queue(name="traced")
    made.token = made.token_for("work", "submit")
    yield made
    server.stop()


def work(site: Site) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.numbers.traced_worker",
        site.url,
        site.token,
        site.queue,
    ]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2], env=os.environ, timeout=120)


COMMITS = "POST api/v1/queues/<str:queue>/commits"
CLAIMS = "POST api/v1/queues/<str:queue>/claims"
STAGE = "POST api/v1/attempts/<str:attempt_id>/stage"


def test_a_workers_spans_and_the_coordinators_are_one_trace(site: Site, receiver: Receiver) -> None:
    (task_id,) = site.submit()
    work(site)
    receiver.wait_for(
        "claim", "handle work", "commit", CLAIMS, STAGE, COMMITS, "commits.commit", "sql round"
    )
    by_id = {span.span_id: span for span in receiver.spans}

    def ancestors(span: Span) -> list[str]:
        names = []
        while span.parent_id:
            span = by_id[span.parent_id]
            names.append(span.name)
        return names

    (handled,) = receiver.named("handle work")
    assert handled.service == "a-worker"
    assert handled.told["tenure.task_id"] == task_id
    assert ancestors(handled) == ["claim"], (
        "the handler's span belongs to the claim that granted it"
    )
    (staged,) = receiver.named(STAGE)
    assert staged.service == "tenure-web"
    assert ancestors(staged) == ["POST", "handle work", "claim"], (
        "what the handler calls belongs to it"
    )
    (committed,) = receiver.named("commits.commit")
    assert ancestors(committed)[:3] == [COMMITS, "POST", "commit"]
    assert committed.trace_id == handled.trace_id
    rounds = [span for span in receiver.named("sql round") if span.parent_id == committed.span_id]
    assert rounds
    assert "UPDATE task" in rounds[-1].told["tenure.statements"]
    assert all(span.told["db.system.name"] == "postgresql" for span in rounds)


def test_a_span_tells_no_token_input_or_result(site: Site, receiver: Receiver) -> None:
    with site.client() as client:
        client.submit_task(queue=site.queue, kind="work", input={"password": "open-sesame"})
    work(site)
    receiver.wait_for("commit", COMMITS)
    everything = b"".join(receiver.bodies)
    for secret in (b"sesame", site.token.encode(), b"password"):
        assert secret not in everything


def test_off_it_costs_one_comparison_and_makes_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert not start_tracing("tests")
    assert not tracing.is_on()
    with tracing.span("anything") as span:
        assert span is None


def test_it_says_what_to_install_where_it_is_configured_and_can_t(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ImproperlyConfigured, match=r"tenure\[otel\]"):
        start_tracing("tests")


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (_COMMIT_TASKS, "UPDATE task"),
        ("SELECT 1 FROM coordinator_event WHERE id = %s", "SELECT event"),
        ("INSERT INTO coordinator_attempt (x) SELECT 1 FROM y", "INSERT attempt"),
        (name_point("commit").sql, "set_config"),
        ("SELECT clock_timestamp()", "clock_timestamp"),
        ("COMMIT", "COMMIT"),
    ],
)
def test_a_statement_is_named_by_what_it_does(sql: str, name: str) -> None:
    assert tracing.statement_name(sql) == name
