"""What the bench puts into a database by SQL is what the service would have left there."""

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from bench import finished, seeds
from coordinator.models import Attempt, CanonicalCommit, Run, Task
from coordinator.services.audit_rules import WALKS
from tests import world


class Place:
    """The database of the test."""

    @contextmanager
    def connect(self) -> Iterator[Any]:
        told = connection.get_connection_params()
        names = ("dbname", "user", "host", "port", "password")
        wanted = {name: told[name] for name in names if told.get(name)}
        with psycopg.connect(**wanted, autocommit=True) as opened:
            opened.execute("SELECT set_config('tenure.point', 'bench', false)")
            yield opened


@pytest.mark.django_db(transaction=True)
def test_finished_tasks_break_no_invariant_but_that_they_have_no_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finished, "RUN", 20)
    world.queue(name="bench")
    finished.make_finished(Place(), 50)  # type: ignore[arg-type]
    assert [run.node_count for run in Run.objects.order_by("id")] == [20, 20, 10]
    assert Task.objects.count() == Attempt.objects.count() == CanonicalCommit.objects.count() == 50
    assert finished.count_in(Place(), state="COMMITTED") == 50  # type: ignore[arg-type]
    keys = [str(key) for key in Task.objects.values_list("task_id", flat=True)]
    broken = set()
    with connection.cursor() as cursor:
        for invariant in WALKS[0].invariants:
            cursor.execute(invariant.sql, (keys,))
            broken |= {invariant.name} if cursor.fetchall() else set()
        cursor.execute(
            "SELECT count(*) FROM coordinator_task t JOIN coordinator_run r ON r.id = t.run_id"
            " JOIN coordinator_attempt a ON a.attempt_id = t.attempt_id AND a.task_id = t.task_id"
            " JOIN coordinator_canonicalcommit c ON c.result_commit_id = t.result_commit_id"
            " AND c.task_id = t.task_id AND c.attempt_id = a.attempt_id"
        )
        assert cursor.fetchone() == (50,)
    assert broken == {"each state version of a task is told"}


def test_a_folder_without_a_seeded_server_is_not_reused(tmp_path: Path) -> None:
    parser = ArgumentParser()
    seeds.add_arguments(parser, finished=5, waiting=7)
    with pytest.raises(SystemExit, match="seed it with --keep first"):
        seeds.chosen(parser.parse_args(["--reuse", str(tmp_path)]))
    kept = seeds.chosen(parser.parse_args(["--keep", str(tmp_path), "--finished", "3"]))
    assert (kept.finished, kept.open, kept.reused) == (3, 7, False)
    (tmp_path / "token").write_text("t")
    assert seeds.chosen(parser.parse_args(["--reuse", str(tmp_path)])).reused
