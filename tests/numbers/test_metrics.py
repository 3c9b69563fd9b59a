"""/metrics: the same figures from every replica, for whoever may see them."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from coordinator.models import Queue
from coordinator.services.roll_ups import roll_up
from coordinator.tallies import BUCKETS, Name
from tests import world
from tests.api.callers import person, worker
from tests.numbers import load
from tests.numbers.recount import recount

pytestmark = pytest.mark.django_db(transaction=True)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


def scrape(**headers: str) -> str:
    sent = {"Authorization": f"Bearer {person('viewer').token}", **headers}
    response = Client().get("/metrics", headers=sent)
    assert response.status_code == 200, response.content
    return str(response.content.decode())


def samples(text: str) -> Samples:
    """By Prometheus' own parser: each sample once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(of: Samples, name: str, **labels: str) -> float:
    return of[name, tuple(sorted(labels.items()))]


def test_the_figures_are_those_that_the_tables_give() -> None:
    load.everything()
    told, counted = samples(scrape()), recount()
    names = {0: ""} | dict(Queue.objects.values_list("id", "name"))
    for (name, queue_id, label), (count, total) in counted.items():
        queue = names[queue_id]
        match name:
            case Name.EVENTS:
                assert value(told, "tenure_events_total", queue=queue, kind=label) == count
            case Name.REFUSALS:
                point, outcome, reason = [*label.split(), ""][:3]
                refusals = value(
                    told, "tenure_refusals_total", queue=queue, point=point, outcome=outcome, reason=reason
                )  # fmt: skip
                assert refusals == count
            case Name.RENEWALS:
                assert value(told, "tenure_renewals_total", queue=queue, result="renewed") == count
            case Name.USED | Name.ABANDONED:
                end = "committed" if name == Name.USED else "abandoned"
                measured = count if label == "attempts" else float(total)
                metric = (
                    "tenure_attempts_total"
                    if label == "attempts"
                    else f"tenure_attempt_{label}_total"
                )
                assert value(told, metric, queue=queue, end=end) == pytest.approx(measured)
    assert_histograms(told, counted)


def assert_histograms(told: Samples, counted: Any) -> None:
    metrics = {
        Name.RECLAIM_SECONDS: "tenure_reclaim_latency_seconds",
        Name.COMMIT_SECONDS: "tenure_ready_to_commit_seconds",
        Name.TASK_ATTEMPTS: "tenure_task_attempts",
    }
    for name, metric in metrics.items():
        rows = {label: row for (n, _, label), row in counted.items() if n == name}
        assert rows
        count = sum(row[0] for row in rows.values())
        total = sum(row[1] for row in rows.values())
        assert value(told, f"{metric}_count", queue="q") == count
        assert value(told, f"{metric}_sum", queue="q") == pytest.approx(float(total))
        for bound in BUCKETS[name]:
            below = sum(row[0] for label, row in rows.items() if float(label) <= bound)
            assert value(told, f"{metric}_bucket", queue="q", le=repr(float(bound))) == below


def test_rates_are_made_of_what_is_counted() -> None:
    load.everything()
    told = samples(scrape())
    assert value(told, "tenure_claims_total", queue="q", result="lost") == 1
    granted = value(told, "tenure_events_total", queue="q", kind="CLAIMED")
    assert value(told, "tenure_claims_total", queue="q", result="granted") == granted
    assert value(told, "tenure_renewals_total", queue="q", result="refused") == 3
    fenced = value(told, "tenure_fenced_commits_total", queue="q", reason="STALE_GENERATION")
    assert fenced == 3


def test_a_queue_is_told_with_its_epoch_intake_and_stage() -> None:
    told = samples(scrape())
    assert value(told, "tenure_queue_epoch", queue="q") == 1
    assert value(told, "tenure_queue_intake_open", queue="q") == 1
    assert value(told, "tenure_queue_intake_share", queue="q") == 0
    assert value(told, "tenure_queue_stage", queue="q", stage="CONDITIONAL_WRITES") == 1
    assert value(told, "tenure_queue_stage", queue="q", stage="SHADOW") == 0


def test_what_waits_is_counted_as_it_stands() -> None:
    by = world.worker()
    load.effects(by)
    world.submit(world.node("x"), world.node("y"))
    world.claim(by=by, limit=1)
    told = samples(scrape())
    assert value(told, "tenure_approvals_waiting", queue="q") == 1
    assert value(told, "tenure_approval_next_expiry_seconds", queue="q") > 0
    assert value(told, "tenure_ready_tasks", queue="q") == 1
    assert value(told, "tenure_live_leases", queue="q") == 1
    assert value(told, "tenure_unknown_effects", queue="q") == 0


def test_coverage_is_told_by_acceptance_point() -> None:
    load.everything()
    told = samples(scrape())
    for point in ("claim", "renew", "commit", "accept", "memory"):
        key = ("tenure_coverage_ratio", (("point", point),))
        assert told.get(key, 1) == 1, point
    assert value(told, "tenure_coverage_ratio", point="commit") == 1
    assert value(told, "tenure_coverage_whole") == 1
    assert value(told, "tenure_coverage_refused_writes") == 0


_SCRAPE = """
import os, django
django.setup()
from django.test import Client
print(Client().get("/metrics", headers={"Authorization": "Bearer " + os.environ["TOKEN"]}).content.decode())
"""


def other_process(token: str) -> Samples:
    """A web process of its own, with nothing but the database in common."""
    from django.db import connection

    settings = connection.settings_dict
    environment = os.environ | {
        "TOKEN": token,
        "DJANGO_SETTINGS_MODULE": "coordinator.site.settings",
        "DATABASE_URL": os.environ["DATABASE_URL"].rsplit("/", 1)[0] + "/" + str(settings["NAME"]),
        "ALLOWED_HOSTS": "testserver",
    }
    done = subprocess.run(
        [sys.executable, "-c", _SCRAPE], capture_output=True, text=True, env=environment, check=True
    )
    return samples(done.stdout)


def test_two_processes_answer_the_same_and_a_new_one_has_lost_nothing() -> None:
    load.everything()
    token = person("viewer").token
    assert token is not None
    first = samples(scrape())
    second, third = other_process(token), other_process(token)

    def counters(of: Samples) -> Samples:
        return {
            key: n
            for key, n in of.items()
            if key[0].endswith(("_total", "_bucket", "_count", "_sum"))
        }

    assert counters(first) == counters(second) == counters(third)
    assert len(counters(first)) > 50


def test_a_scrape_counts_by_itself_where_the_background_job_does_not_run() -> None:
    world.submit()
    assert value(samples(scrape()), "tenure_events_total", queue="q", kind="SUBMITTED") == 1


def test_the_text_is_openmetrics_for_who_asks_for_it() -> None:
    roll_up()
    text = scrape(Accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


def test_who_may_not_view_gets_no_figures() -> None:
    client = Client()
    assert client.get("/metrics").status_code == 401
    assert worker("w", scopes=("work",)).get("/metrics").status == 403
    assert client.post("/metrics").status_code in (401, 405)


@pytest.fixture
def open_to_this_machine(settings: LazySettings) -> Client:
    settings.METRICS_OPEN = "loopback"
    return Client()


def test_this_machine_needs_no_token_where_it_was_opened_to_it(
    open_to_this_machine: Client,
) -> None:
    assert open_to_this_machine.get("/metrics").status_code == 200
    assert open_to_this_machine.get("/metrics", REMOTE_ADDR="10.0.0.7").status_code == 401
    forwarded = open_to_this_machine.get("/metrics", headers={"X-Forwarded-For": "10.0.0.7"})
    assert forwarded.status_code == 401, "a proxy on this machine is not this machine's scraper"


def test_many_queues_do_not_make_a_scrape_endless() -> None:
    from coordinator.selectors import gauges

    pool = world.pool()
    Queue.objects.bulk_create(
        Queue(name=f"n{i:04}", active_pool=pool) for i in range(gauges.MAX_QUEUES + 20)
    )
    told = samples(scrape())
    queues = {dict(labels)["queue"] for name, labels in told if name == "tenure_queue_epoch"}
    assert len(queues) == gauges.MAX_QUEUES
