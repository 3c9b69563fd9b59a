"""The columns of the list of tasks stand in the address and nowhere else."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.utils import translation

from console.columns import DEFAULT_COLUMNS, Column, read_columns
from console.filters import wanted_tasks
from tests.console.scene import Scene


def heads(client: Client, address: str) -> list[str]:
    page = client.get(address).content.decode()
    return re.findall(r"<th(?: class=\"num\")?>([^<]+)</th>", page)


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Words outside a request are those of the last one; a page in Chinese may have been it."""
    with translation.override("en"):
        yield


def test_an_address_that_chooses_none_has_those_of_the_design() -> None:
    assert read_columns("") == (DEFAULT_COLUMNS, "")
    assert [str(column) for column in DEFAULT_COLUMNS] == [
        "node",
        "state",
        "generation",
        "attempts",
        "lease",
        "owner",
        "took",
        "cost",
    ]


def test_chosen_columns_keep_their_places_and_the_way_to_the_task() -> None:
    assert read_columns("owner, STATE") == ((Column.NODE, Column.STATE, Column.OWNER), "")


def test_a_column_that_there_is_not_is_told_and_the_filter_stands() -> None:
    wanted = wanted_tasks({"cols": "state,colour", "queue": "review"})
    assert "There is no column “colour”." in wanted.faults["cols"]
    assert wanted.columns == DEFAULT_COLUMNS
    assert wanted.is_understood


@pytest.mark.django_db(transaction=True)
def test_the_list_has_the_columns_of_its_address_and_carries_them_on(
    signed_in: Client, scene: Scene
) -> None:
    assert heads(signed_in, "/tasks") == [
        "Task",
        "State",
        "Gen.",
        "Attempts",
        "Lease left",
        "Owner",
        "Ready to commit",
        "Cost",
    ]
    address = "/tasks?state=COMMITTED&cols=epoch,queue"
    assert heads(signed_in, address) == ["Task", "Queue", "Epoch"]
    page = signed_in.get(address).content.decode()
    assert "?state=FAILED&amp;cols=epoch%2Cqueue" in page
    assert '<input type="hidden" name="cols" value="epoch,queue">' in page
    by_form = "/tasks?state=COMMITTED&cols=queue&cols=epoch"
    assert heads(signed_in, by_form) == ["Task", "Queue", "Epoch"]


@pytest.mark.django_db(transaction=True)
def test_a_row_tells_what_its_attempts_took_and_cost(signed_in: Client, scene: Scene) -> None:
    page = signed_in.get("/tasks?state=FAILED&queue=review").content.decode()
    assert "$0.0552" in page  # three attempts of 0.0184
    committed = signed_in.get("/tasks?state=COMMITTED&queue=review&cols=took").content.decode()
    assert re.search(r'data-label="took">[0-9.]+ ?(ms|s|min|h)', committed)
