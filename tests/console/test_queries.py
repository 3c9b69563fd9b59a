"""The query above the list of tasks: words with a known name narrow it, the rest is a node's name."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from console.filters import wanted_tasks
from console.queries import read_query
from coordinator.selectors.console_tasks import list_tasks
from tests.console.scene import Scene


def test_words_with_a_known_name_narrow_and_the_rest_is_text() -> None:
    said = read_query('state:ready agent:"agent 7" attempts:>3 age:>15m age:<2d pub lish')
    assert said.fields == {"state": "READY", "owner": "agent 7"}
    assert said.attempts_over == 3
    assert (said.older_than, said.younger_than) == (timedelta(minutes=15), timedelta(days=2))
    assert said.text == "pub lish"
    assert said.faults == {}


@pytest.mark.parametrize("text", ["a:b", "http://x", "step: one", "UPPER:x", ""])
def test_a_name_that_is_not_known_is_text(text: str) -> None:
    said = read_query(text)
    assert said.text == " ".join(text.split())
    assert not said.fields
    assert not said.faults


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("attempts:3", "attempts"),
        ("attempts:>x", "attempts"),
        ("age:15", "age"),
        ("age:>1y", "age"),
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
