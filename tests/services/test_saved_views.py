"""Saved views: everybody's to see, their maker's to change, each change an event."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from coordinator.models import Event, SavedView
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import saved_views as reading
from coordinator.selectors.saved_views import ViewRecord, list_views
from coordinator.selectors.task_filters import TaskFilter
from coordinator.services.saved_views import ViewDeleted, delete_view, rename_view, save_view
from coordinator.states import TaskState
from tests import world

pytestmark = pytest.mark.django_db(transaction=True)
OLGA = replace(world.operator(name="olga"), id=7, address="10.0.0.1")
BOB = replace(world.operator(name="bob"), id=8)


def kept(name: str = "Late", query: str = "state=READY", *, by: Any = OLGA) -> ViewRecord:
    answer = save_view(name=name, query=query, actor=by)
    assert isinstance(answer, ViewRecord), answer
    return answer


def rename(view: ViewRecord, name: str, *, by: Any = OLGA, **more: Any) -> Any:
    asked: dict[str, Any] = {"expected_name": view.name, "administers": False} | more
    return rename_view(view_id=view.view_id, name=name, actor=by, **asked)


def delete(view: ViewRecord, *, by: Any = OLGA, **more: Any) -> Any:
    asked: dict[str, Any] = {"expected_name": view.name, "administers": False} | more
    return delete_view(view_id=view.view_id, actor=by, **asked)


def test_a_view_is_kept_renamed_and_deleted_each_with_its_event() -> None:
    view = kept(" Late ")
    assert (view.name, view.query, view.made_by_name) == ("Late", "state=READY", "olga")
    assert rename(view, "Too late").name == "Too late"
    assert [each.name for each in list_views()] == ["Too late"]
    assert delete(replace(view, name="Too late")) == ViewDeleted(view.view_id)
    assert list_views() == []
    events = Event.objects.filter(kind__startswith="VIEW_").order_by("id")
    assert [(row.kind, row.actor, row.data["name"]) for row in events] == [
        ("VIEW_SAVED", "operator:olga", "Late"),
        ("VIEW_RENAMED", "operator:olga", "Too late"),
        ("VIEW_DELETED", "operator:olga", "Too late"),
    ]
    assert events[1].data["before"] == {"name": "Late"}
    assert {row.data["address"] for row in events} == {"10.0.0.1"}


def test_only_its_maker_and_administrators_change_a_view() -> None:
    view = kept()
    for refusal in (rename(view, "Mine", by=BOB), delete(view, by=BOB)):
        assert isinstance(refusal, Refusal)
        assert refusal.outcome is Outcome.FORBIDDEN
        assert "olga made this view" in refusal.detail
    assert SavedView.objects.get().name == "Late"
    assert rename(view, "Ours", by=BOB, administers=True).name == "Ours"
    assert isinstance(delete(view, by=BOB, administers=True, expected_name="Ours"), ViewDeleted)


def test_a_change_is_bound_to_the_name_that_was_seen() -> None:
    view = kept()
    rename(view, "Later")
    for refusal in (rename(view, "Latest"), delete(view)):
        assert refusal.outcome is Outcome.STATE_VERSION_MISMATCH
    assert SavedView.objects.get().name == "Later"
    assert rename(replace(view, view_id=UUID(int=1)), "x").outcome is Outcome.NOT_FOUND
    assert delete(replace(view, view_id=UUID(int=1))).outcome is Outcome.NOT_FOUND


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "a\x00b", "LATE"])
def test_a_name_that_is_empty_too_long_or_taken_is_refused(name: str) -> None:
    view, other = kept(), kept("Other")
    for refusal in (save_view(name=name, query="q=x", actor=OLGA), rename(other, name)):
        assert isinstance(refusal, Refusal)
        assert refusal.outcome is Outcome.INVALID
        assert refusal.errors[0].pointer == "/name"
    assert SavedView.objects.count() == 2
    assert rename(view, "late").name == "late"  # its own name, otherwise spelt


def test_there_is_a_most_of_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.services.saved_views.MAX_VIEWS", 1)
    kept()
    refusal = save_view(name="One more", query="q=x", actor=OLGA)
    assert isinstance(refusal, Refusal)
    assert "delete one first" in refusal.errors[0].detail


def test_the_database_refuses_two_of_a_name_and_one_without_bounds() -> None:
    kept()
    for constraint, change in (
        ("view_name_once", {"name": "LATE"}),
        ("view_is_bounded", {"name": ""}),
        ("view_is_bounded", {"query": "x" * 2_001}),
    ):
        row = {"view_id": UUID(int=1), "name": "n", "query": "q", "made_by": 1, "made_by_name": "x"}
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            SavedView.objects.create(**row | change)


def test_facets_count_what_a_filter_finds_in_each_queue_and_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world.queue(name="a")
    world.queue(name="b")
    world.submit(*(world.node(f"n{n}", kind="scan") for n in range(3)), queue_name="a")
    world.submit(world.node("x", kind="scan"), world.node("y", kind="merge"), queue_name="b")
    every, queues = TaskFilter(state=TaskState.READY), ["a", "b", "c"]
    found = reading.read_facets(every, queues)
    assert (found.queues, found.kinds) == ({"a": 3, "b": 2}, {"scan": 4, "merge": 1})
    found = reading.read_facets(TaskFilter(kind="merge", queue="a"), queues)
    assert (found.queues, found.kinds) == ({"b": 1}, {"scan": 3})
    assert reading.read_facets(every, []).queues == {}
    both = {"one": every, "two": TaskFilter(kind="scan", queue="a")}
    assert reading.count_filters(both) == {"one": 5, "two": 3}
    assert reading.count_filters({}) == {}
    monkeypatch.setattr("coordinator.selectors.task_filters.STRETCH", 2)
    assert reading.read_facets(every, queues).kinds == {"merge": 1, "scan": 1}
    assert reading.count_filters({"one": TaskFilter(kind="scan")}) == {"one": 1}
