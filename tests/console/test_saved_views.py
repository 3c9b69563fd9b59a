"""Saved views in the console: kept from a filter, shared, counted apart from the list."""

import re
from typing import Any

import pytest
from django.test import Client

from coordinator.models import Event, SavedView
from tests.console.conftest import Open
from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_filter_is_kept_found_again_and_deleted(signed_in: Client, scene: Scene) -> None:
    address = "/tasks?queue=review&q=attempts%3A%3E2&cols=state,owner"
    listed = signed_in.get(address).content.decode()
    link = re.search(r'href="(/tasks/views/new[^"]+)"', listed)
    assert link is not None
    new = link[1].replace("&amp;", "&")
    assert signed_in.post(new, {"name": ""}).status_code == 422
    taken = signed_in.post(new, {"name": "failed reviews"})
    assert taken.status_code == 422
    assert "A view has this name already" in taken.content.decode()
    assert signed_in.post(new, {"name": "Tried often"}).status_code == 302
    view = SavedView.objects.get(name="Tried often")
    assert view.query == "queue=review&q=attempts%3A%3E2&cols=state%2Cowner"
    everybody = signed_in.get("/tasks/facets").content.decode()
    assert "Tried often" in everybody
    shown = re.search(r'href="(/tasks\?queue=review[^"]+cols=state%2Cowner)"', everybody)
    assert shown is not None
    kept = signed_in.get(shown[1].replace("&amp;", "&")).content.decode()
    assert str(scene.failed) in kept
    here = f"/tasks/views/{view.view_id}"
    stale = signed_in.post(here, {"name": "Often", "shown_name": "Something else"})
    assert stale.status_code == 409
    assert signed_in.post(here, {"name": "Often", "shown_name": "Tried often"}).status_code == 302
    assert signed_in.post(f"{here}/delete", {"shown_name": "Tried often"}).status_code == 409
    assert signed_in.post(f"{here}/delete", {"shown_name": "Often"}).status_code == 302
    assert signed_in.get(here).status_code == 404
    assert signed_in.get(f"{here}/delete").status_code == 404
    assert Event.objects.filter(kind="VIEW_DELETED", actor="operator:olga").exists()


def test_a_view_of_another_is_seen_and_not_changed_but_by_administrators(
    client: Client, signed_in: Client, scene: Scene, admin: Any
) -> None:
    here = f"/tasks/views/{scene.view}"
    page = signed_in.get("/tasks/views").content.decode()
    assert "Failed reviews" in page
    assert "made this view: they and administrators may change it." in page
    assert f'href="{here}"' not in page
    assert "disabled" in signed_in.get(here).content.decode()
    form = {"name": "Mine", "shown_name": "Failed reviews"}
    for path in (here, f"{here}/delete"):
        assert signed_in.post(path, form).status_code == 403
    assert SavedView.objects.get(pk=scene.view).name == "Failed reviews"
    refused = Event.objects.filter(kind="REFUSED", data__point__in=["rename_view", "delete_view"])
    assert refused.count() == 2
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    assert client.post(here, form).status_code == 302
    assert SavedView.objects.get(pk=scene.view).name == "Mine"


def test_counts_are_read_apart_from_the_list(signed_in: Client, scene: Scene) -> None:
    listed = signed_in.get("/tasks?queue=review").content.decode()
    assert 'hx-get="/tasks/facets?queue=review" hx-trigger="load"' in listed
    assert "Failed reviews" not in listed
    assert re.search(r'queue=nightly"[^>]*>nightly\s*</a>', listed)
    facets = signed_in.get("/tasks/facets?queue=review").content.decode()
    assert "<html" not in facets
    assert re.search(r'Failed reviews <span class="n">1</span>', facets)
    assert re.search(r'aria-current="true">review <span class="n">\d+</span>', facets)
    assert re.search(r'nightly <span class="n">1</span>', facets)
    assert re.search(r'href="/tasks\?queue=review&amp;kind=analyse">analyse <span', facets)


@pytest.mark.parametrize("query", ["", "q=stat:x", "state=nonsense"])
def test_nothing_and_nonsense_are_not_kept(signed_in: Client, scene: Scene, query: str) -> None:
    answer = signed_in.post(f"/tasks/views/new?{query}", {"name": "Nothing"})
    assert answer.status_code == 409
    assert not SavedView.objects.filter(name="Nothing").exists()
    assert signed_in.get(f"/tasks/facets?{query}").status_code == 200


def test_a_name_that_others_wrote_is_text(signed_in: Client, scene: Scene) -> None:
    name = "<script>x</script>\u202e"
    signed_in.post("/tasks/views/new?queue=review", {"name": name})
    view = SavedView.objects.get(query="queue=review")
    for path in ("/tasks/facets", "/tasks/views", f"/tasks/views/{view.view_id}"):
        page = signed_in.get(path).content.decode()
        assert "<script>x" not in page
        assert "U+202E" in page
    renamed = {"name": "Plain", "shown_name": name}
    assert signed_in.post(f"/tasks/views/{view.view_id}", renamed).status_code == 302


@pytest.mark.browser
def test_the_list_brings_its_counts_after_itself_and_the_columns_are_chosen(
    opened: Open, scene: Scene, operator: Any
) -> None:
    window = opened(user=operator)
    page = window.page
    page.goto("/tasks?state=FAILED")
    page.wait_for_selector("#facets .facet .n")
    assert page.locator("#facets .facet", has_text="Failed reviews").count() == 1
    page.click(".chooser summary")
    page.uncheck('.chooser input[value="owner"]')
    page.check('.chooser input[value="epoch"]')
    page.click(".chooser button")
    page.wait_for_url("**cols=**")
    assert "Epoch" in page.inner_text("thead")
    assert "Owner" not in page.inner_text("thead")
    address = page.url
    rows = page.locator("tbody [data-row]").all_inner_texts()
    other = opened(user=operator).page
    other.goto(address)
    assert other.locator("tbody [data-row]").all_inner_texts() == rows
    assert "Epoch" in other.inner_text("thead")
    assert not window.faults
    assert not window.violations()
    other.route("**/tasks/facets**", lambda route: route.fulfill(status=500, body="broken"))
    with other.expect_response("**/tasks/facets**"):
        other.reload()
    other.wait_for_timeout(60)  # a swap would happen in a task of its own
    assert "broken" not in other.inner_text("#facets")
    assert other.locator("#facets .facet", has_text="nightly").count() == 1
