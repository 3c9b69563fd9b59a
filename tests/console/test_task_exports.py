"""The list of tasks as a file: what is filtered, in bounded batches, harmless to spreadsheets."""

import csv
import io
import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from coordinator.selectors import task_exports, task_walks
from tests import world
from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def download(client: Client, address: str) -> str:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()


def test_a_file_has_the_tasks_of_its_filter_and_no_others(signed_in: Client, scene: Scene) -> None:
    lines = download(signed_in, f"/tasks/export.ndjson?run={scene.review.run_id}&q=state:failed")
    (row,) = [json.loads(line) for line in lines.splitlines()]
    assert row["task_id"] == str(scene.failed)
    assert (row["state"], row["spent_attempts"], row["cost_usd"]) == ("FAILED", 3, "0.055200")
    table = list(csv.DictReader(io.StringIO(download(signed_in, "/tasks/export.csv?state=FAILED"))))
    assert str(scene.failed) in {line["task_id"] for line in table}
    assert {line["state"] for line in table} == {"FAILED"}
    everything = download(signed_in, "/tasks/export.ndjson").splitlines()
    ids = [json.loads(line)["task_id"] for line in everything]
    assert ids == sorted(ids, reverse=True)


def test_names_that_a_spreadsheet_would_run_are_harmless(signed_in: Client) -> None:
    world.queue(name="review")
    hostile = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"]
    world.submit(*(world.node(name) for name in hostile), queue_name="review")
    table = list(csv.DictReader(io.StringIO(download(signed_in, "/tasks/export.csv"))))
    cells = [line["node_id"] for line in table]
    assert len(cells) == len(hostile)
    assert all(cell.startswith("'") for cell in cells)


def test_a_file_is_read_in_batches_and_says_where_it_ended(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queue(name="review")
    run = world.submit(*(world.node(f"n{number}") for number in range(7)), queue_name="review")
    monkeypatch.setattr(task_walks, "BATCH", 2)
    monkeypatch.setattr(task_exports, "MAX_EXPORTED", 5)
    lines = [json.loads(line) for line in download(signed_in, "/tasks/export.ndjson").splitlines()]
    assert len(lines) == 6
    rest = download(signed_in, f"/tasks/export.ndjson?before={lines[-1]['continue_before']}")
    told = [*lines[:5], *map(json.loads, rest.splitlines())]
    assert {row["task_id"] for row in told} == {str(task.task_id) for task in run.tasks}
    table = download(signed_in, "/tasks/export.csv")
    assert table.splitlines()[-1] == f"continue_before={lines[4]['task_id']}"


def test_a_rare_match_is_sifted_out_of_bounded_stretches(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queue(name="review")
    nodes = [
        world.node(f"n{number}", kind="rare" if number == 0 else "usual") for number in range(7)
    ]
    run = world.submit(*nodes, queue_name="review")
    monkeypatch.setattr("coordinator.selectors.task_filters.STRETCH", 2)
    monkeypatch.setattr(task_walks, "STRETCH", 2)
    (row,) = map(json.loads, download(signed_in, "/tasks/export.ndjson?kind=rare").splitlines())
    assert row["task_id"] == str(world.task_id(run, "n0"))
    monkeypatch.setattr(task_exports, "MAX_LOOKED_AT", 4)
    (cut,) = map(json.loads, download(signed_in, "/tasks/export.ndjson?kind=rare").splitlines())
    newest_first = sorted((task.task_id for task in run.tasks), reverse=True)
    assert UUID(cut["continue_before"]) == newest_first[3]


def test_another_form_or_a_person_without_the_list_gets_no_file(
    client: Client, signed_in: Client, scene: Scene
) -> None:
    assert signed_in.get("/tasks/export.xlsx").status_code == 404
    client.logout()
    assert client.get("/tasks/export.csv").status_code == 302
