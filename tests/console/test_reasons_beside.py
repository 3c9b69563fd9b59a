"""What somebody can't do stands there, locked, with the reason beside it (console design, 3.10 and check F)."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.bulk_words import why_never, why_untouched
from coordinator.models import Credential, EffectSlot
from coordinator.services.bulks import ALLOWS, Verb
from coordinator.services.credentials import revoke_credential
from coordinator.states import TaskState
from tests import world
from tests.console.desk import Desk
from tests.console.filling import filled
from tests.console.scene import Scene, any_time, person
from tests.console.test_approvals import client_of, word
from tests.hostile.ground import Ground, compose_ground, enter
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)

_LOCKED: Final = re.compile(
    r"<(button|input|textarea|select)\b[^>]*\sdisabled\b[^>]*>|aria-disabled=\"true\""
)
_FORM: Final = re.compile(r"<form\b.*?</form>", re.DOTALL)
_ROW: Final = re.compile(r"<tr[ >].*?</tr>", re.DOTALL)
#: The padlock, and the words that follow it.
_PADLOCK: Final = "M7 11V7a5 5 0 0 1 10 0v4"
_LOCK: Final = re.compile(_PADLOCK + r'"\s*/>\s*</svg>\s*(?:</?[a-z][^>]*>\s*)*([^<]{8,})')
_WHY_LOCKED: Final = re.compile(r'why-locked">([^<]{8,})')


def text_of(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def rows_of(page: str) -> list[str]:
    return [
        row
        for table in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
        for row in _ROW.findall(table)
    ]


def test_each_act_and_state_that_do_not_fit_have_a_reason() -> None:
    for state in TaskState:
        for verb in Verb:
            if state not in ALLOWS[verb] or verb is Verb.WAKE:
                assert len(why_untouched(verb, state)) > 10, (verb, state)
        assert bool(why_never(state)) is (state in (TaskState.COMMITTED, TaskState.SUPERSEDED))


@pytest.mark.parametrize("verb", Verb)
def test_a_review_says_beside_each_task_why_it_is_left_alone(scene: Scene, verb: Verb) -> None:
    olga = client_of("olga", "operator")
    everything = {"verb": verb, "all": "1", "f-queue": "review"}
    here = olga.post("/tasks/bulk/review", everything)["Location"]
    page = olga.get(here).content.decode()
    (barred,) = re.findall(r"Can't be acted on</h2>.*?</section>", page, re.DOTALL)
    rows = rows_of(barred)
    assert len(rows) > 5
    why = ""
    for row in rows:
        state = text_of(re.findall(r'<td class="chips"[^>]*>(.*?)</td>', row, re.DOTALL)[0])
        (why,) = re.findall(r'<td class="wide">(.*?)</td>', row, re.DOTALL)
        assert text_of(why).replace("&#x27;", "'") == why_untouched(verb, state)
    if verb is Verb.CANCEL:  # and once it is done, too
        olga.post(here, filled(olga, here, reason="They are not needed any more."))
        assert text_of(why) in text_of(olga.get(here).content.decode())


def test_a_row_of_the_list_can_be_selected_or_says_why_not(scene: Scene) -> None:
    page = client_of("olga", "operator").get("/tasks").content.decode()
    rows, states = rows_of(page), set()
    for row in rows:
        state = text_of(re.findall(r'<td class="chips">(.*?)</td>', row, re.DOTALL)[0])
        (pick,) = re.findall(r'<td class="pick">(.*?)</td>', row, re.DOTALL)
        assert ("data-select" in pick) is not bool(why_never(state)), state
        assert text_of(pick) == why_never(state)
        states.add(state)
    assert {"COMMITTED", "READY", "CLAIMED"} <= states


def test_who_may_not_act_reads_the_reason_in_each_row(scene: Scene) -> None:
    page = client_of("viktor", "viewer").get("/tasks").content.decode()
    rows = rows_of(page)
    assert len(rows) > 10
    assert not re.search(r"data-select[ >]", page)
    assert all("You may not cancel, revise and reopen tasks." in row for row in rows)


def test_a_request_says_why_it_is_not_ones_turn(desk: Desk) -> None:
    olga, anna = client_of("olga", "admin"), client_of("anna")
    anna.post(f"/approvals/{desk.transfer}", word(desk.transfer))
    told = {
        olga: (desk.newsletter, "You submitted this run; somebody else must decide."),
        anna: (desk.transfer, "You have decided; another person&#x27;s word is wanted."),
    }
    for client, (approval_id, why) in told.items():
        page = client.get("/approvals?turn=others").content.decode()
        (row,) = [each for each in rows_of(page) if f"/approvals/{approval_id}" in each]
        assert why in row
    assert _PADLOCK not in "".join(rows_of(anna.get("/approvals").content.decode()))


def test_who_may_not_decide_reads_it_in_each_row(desk: Desk) -> None:
    viewer = client_of("viktor", "viewer")
    for address, why in (
        ("/approvals", "You may not approve or reject payloads."),
        ("/effects/unknown", "You may not settle effects whose outcome nobody knows."),
    ):
        rows = rows_of(viewer.get(address).content.decode())
        assert len(rows) >= 4
        assert all(why in row for row in rows), address
    assert EffectSlot.objects.filter(state="UNKNOWN").exists()


def test_a_token_that_is_over_says_by_whom_or_that_its_time_is_over(scene: Scene) -> None:
    ada = client_of("ada", "admin")
    world.worker(name="old fleet")
    lapsed = world.worker(name="lapsed fleet")
    row = Credential.objects.get(name="old fleet")
    revoke_credential(
        credential_id=row.credential_id, actor=world.operator(), reason="It was lost."
    )
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_credential SET expires_at = clock_timestamp() WHERE id = %s",
            [lapsed.id],
        )
    rows = rows_of(ada.get("/credentials?revoked=1").content.decode())
    told = {name: next(text_of(row) for row in rows if name in row) for name in ("old", "lapsed")}
    assert "revoked by operator:alice" in told["old"]
    assert "its time is over" in told["lapsed"]
    assert sum(_PADLOCK in row for row in rows) == 2


# --- every page ------------------------------------------------------------------------------------


def locked_without_reason(page: str) -> Iterator[str]:
    """Controls that are locked and have no reason that can be read near them: in the form, or in its section."""
    main = page[page.index("<main") : page.index("</main>")]
    for form in _FORM.finditer(main):
        buttons = re.findall(r"<button\b(?![^>]*unseen)[^>]*>", form[0])
        begins = max(
            main.rfind("<section", 0, form.start()), main.rfind("</section>", 0, form.start()), 0
        )
        ends = max(form.end(), main.find("</section>", form.end()))
        if any(map(_LOCKED.search, buttons)) and not _LOCK.search(main[begins:ends]):
            yield form[0][:200]
    rest = _FORM.sub("", main)
    for found in re.finditer(r'aria-disabled="true"', rest):
        if not _WHY_LOCKED.search(rest[found.start() : found.start() + 1_500]):
            yield rest[found.start() : found.start() + 200]


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_no_control_of_any_page_is_locked_without_a_word(transactional_db: None, role: str) -> None:
    ground: Ground = restored(compose_ground)
    user: User = person("robin", role)
    client: Client = enter(Client(), user)
    faults, locked = [], 0
    for name, address in ground.addresses():
        answer: Any = client.get(address)
        if answer.status_code != 200 or b"<main" not in getattr(answer, "content", b""):
            continue
        page = answer.content.decode()
        locked += len(_LOCKED.findall(page))
        faults += [f"{name}: {each}" for each in locked_without_reason(page)]
    assert faults == []
    assert locked > (3 if role == "admin" else 10)
