"""The tables in the admin: who may open them, that nobody writes there, and the deeds that services do."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from coordinator.admin.tables import has_a_page
from coordinator.models import Event, Incident, Queue, Task
from coordinator.services.cancels import cancel_task
from coordinator.services.credentials import create_operator_token
from tests import world
from tests.console.conftest import Open, Watched
from tests.console.looking import WIDTHS, too_wide
from tests.console.scene import PASSWORD, Scene, person
from tests.history import nothing_moves

pytestmark = pytest.mark.django_db(transaction=True)

REASON = "the release of this morning was bad"
OURS: list[Any] = [
    model for model in apps.get_app_config("coordinator").get_models() if has_a_page(model)
]


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def boss(worlds: None) -> User:
    return person("boss", "admin")


@pytest.fixture
def on_call(worlds: None) -> User:
    return person("olga", "operator")


def address(model: Any, *rest: str) -> str:
    return "/".join(["/admin", "coordinator", model._meta.model_name, *rest, ""])


# --- who ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_viewers_and_approvers_may_not_open_the_tables(role: str, transactional_db: None) -> None:
    client = signed_in(person("vera", role))
    for path in ("/admin/", address(Task), address(Queue), "/admin/auth/user/"):
        reply = client.get(path, follow=True)
        assert reply.status_code == 403, path


def test_nobody_signs_in_at_another_door(transactional_db: None) -> None:
    reply = Client().get("/admin/")
    assert reply.status_code == 302
    reply = Client().get(reply["Location"])
    assert reply["Location"].startswith("/sign-in?next=")
    reply = Client().post("/admin/login/", {"username": "boss", "password": PASSWORD})
    assert reply["Location"].startswith("/sign-in")


def test_is_staff_opens_nothing_by_itself(transactional_db: None) -> None:
    user = person("stan", "viewer")
    User.objects.filter(pk=user.pk).update(is_staff=True)
    assert signed_in(user).get("/admin/", follow=True).status_code == 403


def test_an_operator_sees_the_tables_and_no_people(on_call: User) -> None:
    client = signed_in(on_call)
    assert client.get("/admin/").status_code == 200
    assert client.get(address(Task)).status_code == 200
    assert client.get("/admin/auth/user/").status_code == 403
    assert client.get("/admin/auth/group/").status_code == 403


# --- the tables --------------------------------------------------------------------------------------


def test_every_table_of_ours_has_a_page() -> None:
    assert {model for model in OURS if not admin.site.is_registered(model)} == set()


@pytest.mark.slow
def test_each_table_is_shown_and_written_by_nobody(
    scene: Scene, on_call: User, boss: User, subtests: pytest.Subtests
) -> None:
    for model in OURS:
        row = model.objects.order_by("pk").first()
        with subtests.test(model.__name__), nothing_moves():
            for user in (on_call, boss):
                _looked_at(signed_in(user), model, row)


def _looked_at(client: Client, model: Any, row: Any) -> None:
    assert client.get(address(model)).status_code == 200
    assert client.get(address(model), {"q": "nothing' of it"}).status_code == 200
    assert client.get(address(model, "add")).status_code == 403
    assert client.post(address(model, "add"), {}).status_code == 403
    if row is None:
        return
    pk = str(row.pk)
    assert client.get(address(model, pk, "change")).status_code == 200
    assert client.post(address(model, pk, "change"), {"state": "X"}).status_code == 403
    assert client.get(address(model, pk, "delete")).status_code == 403
    assert client.post(address(model, pk, "delete"), {"post": "yes"}).status_code == 403
    body = {"action": "delete_selected", "_selected_action": pk, "post": "yes"}
    client.post(address(model), body)
    assert model.objects.filter(pk=row.pk).exists()


def test_a_row_is_found_by_its_key_and_never_by_a_scan(scene: Scene, on_call: User) -> None:
    client = signed_in(on_call)
    task = Task.objects.get(task_id=scene.held)
    for word in (str(task.task_id), str(task.attempt_id), str(task.run.run_id)):
        page = client.get(address(Task), {"q": word}).content.decode()
        assert str(task.task_id) in page, word
    assert "0 " in client.get(address(Task), {"q": "review"}).content.decode()
    with CaptureQueriesContext(
        connection,
    ) as seen:
        client.get(address(Task), {"q": str(task.task_id)})
    assert not [each["sql"] for each in seen if "LIKE" in each["sql"].upper()]


def test_a_list_costs_a_bounded_number_of_queries_and_is_not_counted_to_its_end(
    scene: Scene, on_call: User
) -> None:
    client = signed_in(on_call)
    with CaptureQueriesContext(connection) as seen:
        client.get(address(Task))
    assert len(seen) <= 12
    assert not [each["sql"] for each in seen if "COUNT(" in each["sql"].upper()]


def test_secrets_are_on_no_page_and_payloads_only_for_who_may_see_them(
    scene: Scene, boss: User
) -> None:
    task = Task.objects.get(task_id=scene.held)
    path = address(Task, str(task.pk), "change")
    assert 'field-input"' in signed_in(boss).get(path).content.decode()
    Group.objects.create(name="on call, blind").permissions.set(
        list(Group.objects.get(name="operator").permissions.exclude(codename="view_payload"))
    )
    blind = person("bea", "on call, blind")
    page = signed_in(blind).get(path).content.decode()
    assert "field-node_id" in page
    assert 'field-input"' not in page
    for model, secret in (("credential", "token_sha256"), ("operatortoken", "token_sha256")):
        table = apps.get_model("coordinator", model)
        row = table.objects.first()
        if row is not None:
            page = signed_in(boss).get(address(table, str(row.pk), "change")).content.decode()
            assert f"field-{secret}" not in page


# --- deeds -------------------------------------------------------------------------------------------


def do(client: Client, model: Any, action: str, *rows: Any, reason: str | None = REASON) -> Any:
    body = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    if reason is not None:
        body |= {"apply": "yes", "reason": reason}
    return client.post(address(model), body, follow=True)


def test_a_deed_asks_for_a_reason_before_anything_happens(on_call: User) -> None:
    queue = world.queue()
    client = signed_in(on_call)
    with nothing_moves():
        page = do(client, Queue, "stop_intake", queue, reason=None).content.decode()
        assert "Nothing new is claimed in these queues" in page
        page = do(client, Queue, "stop_intake", queue, reason="  no ").content.decode()
        assert "errorlist" in page


def test_intake_is_stopped_and_opened_by_the_service(on_call: User) -> None:
    queue = world.queue()
    client = signed_in(on_call)
    for action, intake in (("stop_intake", "STOPPED"), ("open_intake", "OPEN")):
        do(client, Queue, action, queue)
        queue.refresh_from_db()
        assert queue.intake == intake
    told = Event.objects.get(kind="INTAKE_STOPPED")
    assert (told.actor, told.data["reason"]) == ("operator:olga", REASON)
    assert told.data["address"] == "127.0.0.1"


def test_tasks_are_cancelled_each_with_its_own_answer(on_call: User) -> None:
    world.queue()
    by = world.worker()
    run = world.submit(world.node("a"), world.node("b"), world.node("c"))
    world.finish(world.task_id(run, "c"), by=by)
    rows = [world.current(run, name) for name in "abc"]
    page = do(signed_in(on_call), Task, "cancel_tasks", *rows).content.decode()
    assert "Done: 2." in page
    assert "c r1" in page
    states = {name: world.current(run, name).state for name in "abc"}
    assert states == {"a": "CANCELLED", "b": "CANCELLED", "c": "COMMITTED"}
    assert set(Event.objects.filter(kind="CANCELLED").values_list("actor", flat=True)) == {
        "operator:olga"
    }
    cancel_task(task_id=rows[0].task_id, reason="r", actor=world.operator())


def test_one_incident_is_opened_over_the_chosen_queues(on_call: User) -> None:
    chosen = [world.queue(name="q"), world.queue(name="r")]
    world.queue(name="s")
    do(signed_in(on_call), Queue, "open_incident", *chosen)
    incident = Incident.objects.get()
    assert (incident.opened_by, incident.reason) == ("operator:olga", REASON)
    assert set(incident.lanes.values_list("queue__name", flat=True)) == {"q", "r"}
    assert Queue.objects.get(name="s").intake == "OPEN"
    page = do(signed_in(on_call), Queue, "open_incident", chosen[0]).content.decode()
    assert "has an open incident already" in page


def test_too_many_at_once_is_told(on_call: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.admin.deeds.MAX_AT_ONCE", 1)
    rows = [world.queue(name="q"), world.queue(name="r")]
    with nothing_moves():
        page = do(signed_in(on_call), Queue, "stop_intake", *rows).content.decode()
    assert "Choose at most 1 rows." in page


def test_a_deed_needs_the_permission_of_its_service(transactional_db: None) -> None:
    Group.objects.create(name="registrar").permissions.set(
        list(Group.objects.get(name="admin").permissions.filter(codename="administer"))
    )
    client = signed_in(person("rob", "registrar"))
    queue = world.queue()
    run = world.submit()
    with nothing_moves():
        do(client, Queue, "stop_intake", queue)
        do(client, Queue, "open_incident", queue)
        do(client, Task, "cancel_tasks", world.current(run, "a"))
    assert not Incident.objects.exists()


# --- people ------------------------------------------------------------------------------------------


def form_of(user: User, **changes: Any) -> dict[str, Any]:
    groups = [group.pk for group in user.groups.all()]
    given = {
        "username": user.username,
        "first_name": "",
        "last_name": "",
        "email": "",
        "groups": groups,
    }
    return {**given, "is_active": "on", **changes}


def test_administrators_manage_people_and_each_change_is_an_event(boss: User) -> None:
    client = signed_in(boss)
    vera = person("vera", "viewer")
    path = f"/admin/auth/user/{vera.pk}/change/"
    body = form_of(vera, email="v@example.org", groups=[Group.objects.get(name="operator").pk])
    reply = client.post(path, body, follow=True)
    assert reply.status_code == 200
    vera.refresh_from_db()
    assert vera.email == "v@example.org"
    assert [group.name for group in vera.groups.all()] == ["operator"]
    told = Event.objects.get(kind="PERSON_CHANGED")
    assert (told.actor, told.data["person"]) == ("operator:boss", "vera")
    assert "Email address" in told.data["change"]
    assert "v@example.org" not in str(told.data)


def test_the_last_administrator_stays_one(boss: User) -> None:
    User.objects.filter(is_superuser=True).delete()
    client = signed_in(boss)
    path = f"/admin/auth/user/{boss.pk}/change/"
    body = form_of(boss)
    del body["is_active"]
    for wrong in (body, form_of(boss, groups=[])):
        page = client.post(path, wrong).content.decode()
        assert "This is the last person who administers" in page
    boss.refresh_from_db()
    assert boss.is_active
    assert boss.groups.count() == 1
    assert not Event.objects.filter(kind="PERSON_CHANGED").exists()


def test_setting_a_password_ends_sessions_and_tokens_and_deactivating_ends_them_for_good(
    boss: User,
) -> None:
    client, vera = signed_in(boss), person("vera", "viewer")
    reader = signed_in(vera)
    first = create_operator_token(user=vera, name="calendar")[0]
    new = {"password1": "an-entirely-other-one", "password2": "an-entirely-other-one"}
    password = f"/admin/auth/user/{vera.pk}/password/"
    client.post(password, {**new, "password2": "a typing mistake"})
    first.refresh_from_db()
    assert first.revoked_at is None
    client.post(password, {**new, "usable_password": "true"})
    first.refresh_from_db()
    assert first.revoked_by == "operator:boss"
    vera.refresh_from_db()
    assert vera.check_password("an-entirely-other-one")
    assert reader.get("/people").status_code == 302
    assert Event.objects.filter(kind="PERSON_CHANGED", data__change="password").count() == 1
    second = create_operator_token(user=vera, name="mail")[0]
    page, gone = f"/admin/auth/user/{vera.pk}/change/", form_of(vera)
    del gone["is_active"]
    client.post(page, form_of(vera, email="v@example.org"))
    second.refresh_from_db()
    assert second.revoked_at is None
    client.post(page, gone)
    client.post(page, form_of(vera))
    second.refresh_from_db()
    assert second.revoked_by == "operator:boss"
    told = Event.objects.filter(kind="PERSONAL_TOKEN_REVOKED").order_by("id")
    assert [(each.data["name"], each.data["reason"]) for each in told] == [
        ("calendar", "The password was set anew."),
        ("mail", "The account was deactivated."),
    ]


def test_nobody_is_deleted_and_a_role_keeps_its_name(boss: User) -> None:
    client = signed_in(boss)
    assert client.post(f"/admin/auth/user/{boss.pk}/delete/", {"post": "yes"}).status_code == 403
    group = Group.objects.get(name="viewer")
    assert client.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"}).status_code == 403
    client.post(f"/admin/auth/group/{group.pk}/change/", {"name": "x", "permissions": []})
    group.refresh_from_db()
    assert group.name == "viewer"


# --- in a browser ------------------------------------------------------------------------------------


def faults_of(window: Watched, path: str) -> list[str]:
    """Both themes and three widths. What axe itself injects is no fault of the page's: it is asked last."""
    page, faults = window.page, []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            faults += [f"at {width}: {name}" for name in too_wide(page)]
        faults += [*window.faults, *window.violations()]
        faults += window.axe()
        window.faults.clear()
    return [f"{path}: {fault}" for fault in faults]


@pytest.mark.browser
def test_the_pages_are_in_order(opened: Open, scene: Scene, boss: User) -> None:
    window = opened(user=boss)
    pages = [
        "/admin/",
        address(Task),
        address(Task, str(scene.held), "change"),
        address(Queue),
        "/admin/auth/user/",
        f"/admin/auth/user/{boss.pk}/change/",
        "/admin/auth/group/",
    ]
    faults = [fault for page in pages for fault in faults_of(window, page)]
    assert not faults, "\n".join(faults)


@pytest.mark.browser
def test_the_theme_of_the_console_holds_here_too(
    opened: Open, boss: User, live_server: Any
) -> None:
    window = opened(user=boss)
    seen = []
    for theme in ("light", "dark"):
        cookie: Any = {"name": "tenure_theme", "value": theme, "url": live_server.url}
        window.context.add_cookies([cookie])
        window.page.goto("/admin/")
        seen.append(window.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen == ["rgb(255, 255, 255)", "rgb(15, 20, 25)"]


@pytest.mark.browser
def test_a_deed_is_done_in_the_browser(opened: Open, scene: Scene, on_call: User) -> None:
    window = opened(user=on_call)
    page = window.page
    page.goto(address(Queue))
    page.check("#result_list tr:has-text('review') input[type=checkbox]")
    page.select_option("select[name=action]", "stop_intake")
    page.click("button[name=index]")
    page.fill("#id_reason", REASON)
    assert [*window.faults, *window.violations()] == []
    page.click("button[name=apply]")
    assert "Done: 1." in page.inner_text("ul.messagelist")
    assert [*window.faults, *window.violations()] == []
    assert Event.objects.filter(kind="INTAKE_STOPPED", actor="operator:olga").exists()
