"""The query above the list of tasks: words with a known name narrow it, the rest is a node's name."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from console.filters import wanted_tasks
from coordinator.models import BulkJob
from coordinator.selectors.console_tasks import list_tasks
from coordinator.task_queries import MAX_EPOCH, read_query
from tests.console.scene import Scene


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Words outside a request are those of the last one; a page in Chinese may have been it."""
    with translation.override("en"):
        yield


def test_words_with_a_known_name_narrow_and_the_rest_is_text() -> None:
    said = read_query('state:ready agent:"agent 7" attempts:>3 age:>15m age:<2d pub lish')
    assert said.fields == {"state": "READY", "owner": "agent 7"}
    assert said.attempts_over == 3
    assert (said.older_than, said.younger_than) == (timedelta(minutes=15), timedelta(days=2))
    assert said.text == "pub lish"
    assert said.faults == {}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("step: one", "step: one"),
        ("f.py:12", "f.py:12"),
        ('"a:b" c', "a:b c"),
        ("a  b", "a b"),
        ("", ""),
    ],
)
def test_what_names_no_word_is_text_and_quotes_make_text_of_anything(text: str, means: str) -> None:
    said = read_query(text)
    assert said.text == means
    assert not said.fields
    assert not said.faults


@pytest.mark.parametrize(
    ("text", "name", "mend"),
    [
        ("stat:ready", "stat", 'put it in quotes: "stat:ready"'),
        ("http://x", "http", "Words: state: age: agent: attempts: node: epoch:"),
        ("UPPER:x", "upper", "There is no such word."),
        ("state:", "state", "right after the colon"),
        ("epoch:", "epoch", "right after the colon"),
    ],
)
def test_a_word_that_there_is_not_is_told_by_its_name_with_the_mend(
    text: str, name: str, mend: str
) -> None:
    faults = read_query(text).faults
    assert set(faults) == {name}
    assert mend in faults[name]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("epoch:7", (7, 7)),
        ("Epoch:<7", (1, 6)),
        ("epoch:>7", (8, MAX_EPOCH)),
        ("epoch:0", (0, 0)),
    ],
)
def test_an_epoch_is_one_or_a_side_of_one(text: str, meant: tuple[int, int]) -> None:
    assert read_query(text).epochs == meant


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("attempts:3", "attempts"),
        ("attempts:>x", "attempts"),
        ("age:15", "age"),
        ("age:>1y", "age"),
        ("epoch:x", "epoch"),
        ("epoch:>9999999999999999999", "epoch"),
    ],
)
def test_a_word_that_makes_no_sense_is_told_by_its_name(text: str, name: str) -> None:
    assert set(read_query(text).faults) == {name}


def test_the_forms_own_word_wins() -> None:
    wanted = wanted_tasks({"q": "state:ready queue:a", "queue": "b"})
    assert wanted.tasks.queue == "b"
    assert wanted.tasks.state == "READY"
    assert set(wanted_tasks({"q": "state:nonsense"}).faults) == {"state"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("state:failed", 1),
        ("attempts:>2", 1),
        ("attempts:>2 state:committed", 0),
        ("kind:merge", 1),
        ("age:>1h", 0),
        ("age:<1h kind:merge", 1),
        ("node:publish", 1),
        ("agent:agent-3@build-02", 1),
        ("epoch:2", 1),
        ("epoch:>1 queue:nightly", 1),
        ("epoch:<2 queue:nightly", 0),
    ],
)
def test_a_query_finds_what_it_says(scene: Scene, text: str, found: int) -> None:
    page: Any = list_tasks(wanted_tasks({"q": text}).tasks)
    assert len(page.rows) == found


@pytest.mark.django_db(transaction=True)
def test_a_faulty_query_is_told_and_kept(signed_in: Client, scene: Scene) -> None:
    page = signed_in.get("/tasks?q=age:old").content.decode()
    assert "Write it as age:&gt;15m" in page
    assert 'value="age:old"' in page


@pytest.mark.django_db(transaction=True)
def test_a_filter_that_is_not_understood_lists_exports_and_reviews_nothing(
    signed_in: Client, scene: Scene
) -> None:
    """More than was meant would be worse than none: the rest of the filter is wider than what was typed."""
    page = signed_in.get("/tasks?q=stat:failed&queue=review").content.decode()
    assert "Nothing is listed until the query is mended" in page
    assert "data-row>" not in page
    assert 'name="all"' not in page
    assert signed_in.get("/tasks/export.csv?q=stat:failed").status_code == 404
    jobs = BulkJob.objects.count()
    answer = signed_in.post(
        "/tasks/bulk/review", {"verb": "cancel", "all": "1", "f-q": "stat:failed"}
    )
    assert answer.status_code == 409
    assert BulkJob.objects.count() == jobs
