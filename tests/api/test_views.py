"""Saved views over HTTP: kept, counted, renamed and deleted by the same service as the console's."""

from typing import Any

import pytest

from coordinator.models import Event, SavedView
from tests.history import nothing_moves

from .callers import Api, node


def save(api: Api, name: str = "Ready ones", query: str = "state=READY&queue=q") -> dict[str, Any]:
    reply = api.viewer.post("/views", {"name": name, "query": query})
    assert reply.status == 201, reply
    body: dict[str, Any] = reply.body
    return body


def listed(api: Api, query: str = "") -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = api.operator.get(f"/views{query}").body["results"]
    return results


def test_a_view_is_kept_for_everybody_with_what_it_finds(api: Api) -> None:
    api.submit(node("a"), node("b"), node("c", "a"))
    made = save(api, query="?q=state:ready+age:<1d&queue=q&cols=state,owner")
    assert made["query"] == "queue=q&q=state%3Aready+age%3A%3C1d&cols=state%2Cowner"
    save(api, "All", "queue=q2")
    assert [(one["name"], one["count"]) for one in listed(api)] == [
        ("All", None),
        ("Ready ones", None),
    ]
    counted = listed(api, "?counts=true")
    assert [(one["count"], one["at_least"]) for one in counted] == [(0, False), (2, False)]
    told = Event.objects.get(kind="VIEW_SAVED", data__name="Ready ones")
    assert told.actor.startswith("operator:")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("state=nonsense", "no such state"),
        ("q=attempts:3", "attempts:>3"),
        ("run=7", "Not a run"),
        ("colour=red", "no such filter"),
        ("cols=state", "asks for nothing"),
        ("?", "asks for nothing"),
    ],
)
def test_what_is_not_understood_is_not_kept(api: Api, query: str, word: str) -> None:
    with nothing_moves():
        reply = api.viewer.post("/views", {"name": "x", "query": query})
    assert (reply.status, reply.pointers) == (422, {"/query"})
    assert word in str(reply.body["errors"])
    assert not SavedView.objects.exists()


def test_a_name_that_is_taken_is_told(api: Api) -> None:
    save(api)
    reply = api.operator.post("/views", {"name": "READY ONES", "query": "queue=q"})
    assert (reply.status, reply.pointers) == (422, {"/name"})


def test_its_maker_and_administrators_change_it_as_they_saw_it(api: Api) -> None:
    path = f"/views/{save(api)['view_id']}"
    seen = {"name": "Others", "expected_name": "Ready ones"}
    with nothing_moves():
        assert api.operator.post(f"{path}/rename", seen).status == 403
        assert api.operator.post(f"{path}/delete", {"expected_name": "Ready ones"}).status == 403
    stale = api.viewer.post(f"{path}/rename", seen | {"expected_name": "Old"})
    assert (stale.status, stale.outcome) == (409, "STATE_VERSION_MISMATCH")
    assert api.viewer.post(f"{path}/rename", seen).body["name"] == "Others"
    assert api.admin.post(f"{path}/delete", {"expected_name": "Ready ones"}).status == 409
    gone = api.admin.post(f"{path}/delete", {"expected_name": "Others"})
    assert (gone.status, gone.body["outcome"]) == (200, "DELETED")
    assert api.admin.post(f"{path}/delete", {"expected_name": "Others"}).status == 404
    assert listed(api) == []


def test_a_view_that_is_not_understood_any_more_is_listed_and_not_counted(api: Api) -> None:
    made = save(api)
    SavedView.objects.filter(pk=made["view_id"]).update(query="colour=red")
    (one,) = listed(api, "?counts=true")
    assert (one["query"], one["count"]) == ("colour=red", None)
