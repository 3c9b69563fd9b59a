"""Every form of the console that changes something, by the table of routes (console design, 3.3).

Sent twice it is one act with one receipt. Where its subject has changed since the person looked, they are shown what
has changed, and nothing is done. A route that takes a POST and has neither a case nor a reason here fails.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import resolve, reverse

from console.urls import urlpatterns
from coordinator.models import EffectSlot, Event
from coordinator.services.reconciliation import Finding, Method, Verdict, reconcile_effect
from coordinator.site.adapters import registered_adapters
from tests import restoring, world
from tests.console import siege
from tests.console.desk import ADAPTERS
from tests.console.filling import Form, filled, forms_of
from tests.console.scene import person
from tests.effects import ledger
from tests.hostile.ground import DOORS, Ground, compose_ground, enter
from tests.hostile.test_pages import TABLES
from tests.incidents import rollback
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)

WHY: Final = "It has to be done today, and I am the one who is here."
FIRST: Final = "Somebody else was quicker and had a reason."
Parts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A form of the page `page` (by default its own): what is typed into it, and by which button it is sent.

    `before` prepares what the form is about, and says where it is. `meanwhile` is what another person sends between,
    or the same one in another window (`themselves`).
    """

    route: str
    page: str = ""
    typed: dict[str, Any] = field(default_factory=dict)
    button: str = ""
    before: Callable[[Ground, User], Parts] = lambda _ground, _user: {}
    meanwhile: "Case | None" = None
    themselves: bool = False

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.route, self.button, *map(str, self.typed.values()))))[
            :70
        ]


# --- what some forms are about ---------------------------------------------------------------------


def own_token(_ground: Ground, user: User) -> Parts:
    return {"user_id": user.pk}


def own_review(_ground: Ground, user: User) -> Parts:
    """A set that this person has reviewed."""
    client = enter(Client(), user)
    sent = {"verb": "cancel", "all": "1", "f-queue": "review", "f-state": "READY"}
    answer: Any = client.post("/tasks/bulk/review", sent)
    return dict(resolve(answer["Location"]).kwargs)


def own_job(ground: Ground, user: User) -> Parts:
    found = own_review(ground, user)
    client, here = enter(Client(), user), f"/tasks/bulk/{found['bulk_id']}"
    assert client.post(here, filled(client, here, reason=WHY)).status_code == 302
    return found


def held_by_restore(_ground: Ground, _user: User) -> Parts:
    run = world.submit(world.node("wire", slots={"send": "acme-pay"}), queue_name="payments")
    restoring.copy_the_database()
    restoring.restored(reason="the disk was lost")
    return {"task_id": world.task_id(run, "wire")}


def nothing_asked(ground: Ground, user: User) -> Parts:
    """Nobody has asked for the promotion that the gate is open for."""
    address = reverse("console:promotion-withdraw", args=[ground.parts["request_id"]])
    sent = {"action_key": str(uuid4()), "reason": WHY}
    assert enter(Client(), user).post(address, sent).status_code == 302
    return {"name": "letterbox"}


def looked_up(ground: Ground, user: User) -> Parts:
    enter(Client(), user).post(f"/effects/{ground.parts['effect_id']}/ask", {})
    return {}


def never_sealed(_ground: Ground, user: User) -> Parts:
    """An effect whose absence nothing can seal, looked for by hand."""
    effect_id = EffectSlot.objects.get(downstream="fax").effect_id
    enter(Client(), user).post(f"/effects/{effect_id}/ask", {"by": "hand"})
    return {"effect_id": effect_id}


def at_step(number: int) -> Callable[[Ground, User], Parts]:
    """The incident's step `number` is at hand."""

    def reach(ground: Ground, _user: User) -> Parts:
        incident_id = ground.parts["incident_id"]
        if number > 3:
            rollback.took(rollback.bump(incident_id))
        if number > 4:
            siege.let_leases_run_out(incident_id)
            verdict = Verdict(Finding.HAPPENED, 1, Method.OPERATOR, {"reason": WHY}, receipt="7")
            sent = EffectSlot.objects.get(downstream="ledger", state="UNKNOWN").effect_id
            reconcile_effect(effect_id=sent, verdict=verdict, actor=ledger.person("ben"))
            rollback.decide(incident_id)
            world.worker(name="orders-teal", pool_name="teal", queues=(siege.QUEUE,))
        if number > 5:
            rollback.took(rollback.switch(incident_id))
        return {"number": number}

    return reach


# --- the table -----------------------------------------------------------------------------------

SETTLED: Final = Case("effect-settle", "effect", {"receipt": "page 9 of 9"})
RENAMED: Final = Case("task-view", typed={"name": "Renamed by Bea"})
REJECTED: Final = Case("approval", typed={"seen_end": "on"}, button="reject")
STEP_3: Final = Case("incident-step", typed={"phrase": siege.QUEUE}, before=at_step(3))
ABORTED: Final = Case("incident-abort")
#: Bound to what was seen: a change in between is told, and nothing is done.
BOUND: Final = [
    Case("task-view", typed={"name": "Ready, renamed"}, meanwhile=RENAMED),
    Case("task-view-delete", meanwhile=RENAMED),
    Case("task-cancel", meanwhile=Case("task-revise", typed={"input": "{}"})),
    Case("task-reopen", meanwhile=Case("task-reopen")),
    Case("task-revise", typed={"input": "{}"}, meanwhile=Case("task-cancel")),
    Case("task-release", before=held_by_restore, meanwhile=Case("task-cancel")),
    Case("queue-intake", meanwhile=Case("queue-intake")),
    Case("credential-rotate", meanwhile=Case("credential-revoke")),
    Case("credential-rotate", typed={"overlap_hours": "1"}, meanwhile=Case("credential-rotate")),
    Case("credential-revoke", meanwhile=Case("credential-revoke")),
    Case("credential-revoke", meanwhile=Case("credential-rotate")),
    Case("person-token-revoke", meanwhile=Case("person-token-revoke")),
    Case("run-cancel", meanwhile=Case("run-cancel")),
    Case("run-cancel", meanwhile=Case("task-cancel")),
    Case("run-cancel", meanwhile=Case("task-revise", typed={"input": "{}"})),
    Case("run-cancel", meanwhile=Case("task-reopen")),
    Case("task-bulk", before=own_review, meanwhile=Case("task-bulk", themselves=True)),
    Case("task-bulk-stop", before=own_job, meanwhile=Case("task-bulk-stop")),
    Case(
        "promotion",
        typed={"confirm": "letterbox IDEMPOTENT_READS"},
        meanwhile=Case("promotion-withdraw", "promotion"),
    ),
    Case(
        "promotion-withdraw",
        "promotion",
        meanwhile=Case("promotion", typed={"confirm": "letterbox IDEMPOTENT_READS"}),
    ),
    Case(
        "shadow-promote",
        typed={"confirm": "letterbox IDEMPOTENT_READS"},
        before=nothing_asked,
        meanwhile=Case("shadow-promote", typed={"confirm": "letterbox IDEMPOTENT_READS"}),
    ),
    Case("shadow-demote", meanwhile=Case("shadow-demote", typed={"to_stage": "SHADOW"})),
    Case(
        "downstream-change",
        typed={"probe": "Ask in room 215."},
        meanwhile=Case("downstream-change", typed={"probe": "Ask in room 216."}),
    ),
    Case(
        "person-role",
        typed={"role": "viewer"},
        meanwhile=Case("person-role", typed={"role": "operator"}),
    ),
    Case("person-code", meanwhile=Case("person-role", typed={"role": "operator"})),
    *(
        Case("approval", typed={"seen_end": "on", "phrase": ""}, button=word, meanwhile=REJECTED)
        for word in ("approve", "changes", "reject")
    ),
    Case(
        "approval-pass",
        "approval",
        {"to": "anna-lena"},
        meanwhile=Case("approval-pass", "approval", {"to": "adele"}),
    ),
    Case("effect-settle", "effect", {"receipt": "page 3 of 3"}, meanwhile=SETTLED),
    Case("effect-settle", "effect", {"note": "Asked them.", "minutes": "60"}, meanwhile=SETTLED),
    Case("effect-settle", "effect", {"phrase": ""}, before=looked_up, meanwhile=SETTLED),
    Case(
        "effect-settle",
        "effect",
        {"statement": "Its disk is on my desk, unplugged.", "phrase": ""},
        before=never_sealed,
        meanwhile=SETTLED,
    ),
    Case("incident-abort", meanwhile=STEP_3),
    Case("incident-step", typed={"phrase": siege.QUEUE}, before=at_step(3), meanwhile=ABORTED),
    Case(
        "incident-step",
        typed={"decision": "DISCARD"},
        before=at_step(4),
        meanwhile=Case("incident-step", typed={"decision": "KEEP"}),
    ),
    Case(
        "incident-step",
        typed={"to_pool": "green", "phrase": "switch to green"},
        before=at_step(5),
        meanwhile=Case("incident-step", typed={"to_pool": "teal", "phrase": "switch to teal"}),
    ),
    Case(
        "incident-step",
        typed={"percent": "10"},
        before=at_step(6),
        meanwhile=Case("incident-step", typed={"percent": "20"}),
    ),
]
#: Bound to nothing that could change, each for its reason.
FREE: Final = {
    "it makes something new": [
        Case("bulk-review", "tasks", {"all": "1"}, "cancel"),
        Case("task-view-new", typed={"name": "Ready ones"}),
        Case("credential-new", typed={"name": "build host 7", "queues": ["review"]}),
        Case("person-new", typed={"name": "newt", "role": "viewer"}),
        Case("downstream-new", typed={"name": "parcels", "kind": "courier"}),
        Case("person-token-new", typed={"name": "calendar"}, before=own_token),
        Case("incident-new", typed={"queues": ["nightly"]}),
        Case("audit-run"),
        Case("effect-ask", "effect"),
        Case("effect-ask", "effect", {"by": "hand"}),
        Case("approval-present", "approval"),
    ],
    "the newest word counts, and all are kept": [Case("shadow-round")],
}
EVERY: Final = [*BOUND, *(case for cases in FREE.values() for case in cases)]
#: Forms that decide nothing, and where it is tried what they do.
NO_ACT: Final = {
    **dict.fromkeys(("profile", "theme"), "cookies of this browser: test_without_scripts"),
    **dict.fromkeys(DOORS, "test_sign_in"),
    "password": "of a password no receipt is kept, nor a digest: test_ways_in",
    **dict.fromkeys(
        ("task-reveal", "approval-reveal", "effect-reveal", "run-reveal", "event-reveal"),
        "each look is on record: test_reveals",
    ),
    "downstream-ask": "each look-up is on record: test_downstreams",
    "task-bulk-undo": "without a form, and undone once: test_bulks",
}
#: Answered by a page that shows a token once, and by the same page without it to a repeat.
SHOWN_ONCE: Final = frozenset(
    {"credential-new", "credential-rotate", "person-token-new", "person-new", "person-code"}
)


@pytest.fixture(autouse=True)
def adapters(settings: LazySettings) -> Iterator[None]:
    settings.ADAPTERS = "tests.console.desk:ADAPTERS"
    registered_adapters.cache_clear()
    for each in ADAPTERS.values():
        each.held, each.is_up = {}, True
    yield
    registered_adapters.cache_clear()


# --- sending one -----------------------------------------------------------------------------------


def sheet(
    client: Client, case: Case, ground: Ground, parts: Parts, why: str = WHY
) -> tuple[Form, dict[str, Any]]:
    """The form as the page has it, and what is sent with it."""
    route = case.page or case.route
    known = ground.parts | ground.of.get(route, {}) | parts
    wanted = resolve_parts(route)
    address = reverse(f"console:{route}", kwargs={name: known[name] for name in wanted})
    address += "?state=READY" if route == "task-view-new" else ""
    answer: Any = client.get(address)
    assert answer.status_code == 200, (case.name, address, answer.status_code)
    for form in forms_of(answer.content.decode(), address):
        fits = resolve(urlsplit(form.action).path).url_name == case.route
        if fits and set(case.typed) <= {*form.open, *form.fields}:
            typed = {"reason": why} | case.typed
            if typed.get("phrase") == "":
                typed["phrase"] = form.phrase
            button = next(
                each for each in form.buttons if not case.button or each[1] == case.button
            )
            return form, form.sent(typed, button)
    raise AssertionError(f"{case.name}: no such form at {address}")


def resolve_parts(route: str) -> list[str]:
    """The names of what stands in the route's address."""
    (found,) = [each for each in urlpatterns if each.name == route]
    return list(found.pattern.converters)


def receipts(client: Client) -> list[str]:
    """What waits to be told on the person's next page."""
    page: Any = client.get("/shortcuts")
    return [str(message) for message in page.context["messages"]]


def fresh() -> tuple[Ground, User, User]:
    """The world, with two people who may do everything."""
    ground = restored(compose_ground)
    return ground, person("adele", "admin"), person("bea", "admin")


def facts(*, but: str = "", apart: str = "") -> tuple[str, int]:
    """All that a form may change, a table `apart`, and how much has been told, `but` for events of this kind."""
    return world.fingerprint(*(table for table in TABLES if table != apart)), Event.objects.exclude(
        kind=but
    ).count()


# --- the checks ------------------------------------------------------------------------------------


def test_every_route_that_takes_a_post_is_in_the_table(transactional_db: None) -> None:
    ground, user, _ = fresh()
    taken = set()
    for name, address in Ground(ground.parts, ground.of).addresses():
        answer = enter(Client(), user).post(address, {})
        if answer.status_code != 405:
            taken.add(name)
    assert taken == {case.route for case in EVERY} | set(NO_ACT)
    assert not {case.route for case in EVERY} & set(NO_ACT)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_a_form_that_is_sent_twice_is_one_act_with_one_receipt(
    transactional_db: None, case: Case
) -> None:
    ground, user, _ = fresh()
    client = enter(Client(), user)
    form, sent = sheet(client, case, ground, case.before(ground, user))
    assert sent["action_key"], "the form has no key of its own"
    before = facts()
    first = client.post(form.action, sent)
    assert first.status_code == (200 if case.route in SHOWN_ONCE else 302)
    heard, after = receipts(client), facts()
    assert after != before
    again = client.post(form.action, sent)
    assert (again.status_code, again.get("Location")) == (
        first.status_code,
        first.get("Location"),
    )
    assert receipts(client) == heard
    assert facts() == after


@pytest.mark.parametrize("case", BOUND, ids=lambda case: case.name)
def test_a_change_in_between_is_told_with_its_difference_and_nothing_is_done(
    transactional_db: None, case: Case
) -> None:
    ground, user, other = fresh()
    assert case.meanwhile is not None
    client, theirs = (
        enter(Client(), user),
        enter(Client(), user if case.meanwhile.themselves else other),
    )
    parts = case.before(ground, user)
    form, sent = sheet(client, case, ground, parts)
    between = case.meanwhile.before(ground, other) | parts
    there, said = sheet(theirs, case.meanwhile, ground, between, FIRST)
    answer = theirs.post(there.action, said)
    assert answer.status_code in (200, 302), (case.meanwhile.name, answer.status_code)
    # What is said of an effect after its end is kept as evidence (contract 8.4); the effect stays as it is.
    apart = "evidence" if case.route == "effect-settle" else ""
    before = facts(but="REFUSED", apart=apart)
    late = client.post(form.action, sent)
    page = late.content.decode()
    assert late.status_code == 409, late.status_code
    assert facts(but="REFUSED", apart=apart) == before
    assert 'id="changes"' in page, "no word of what changed"
    changed = re.findall(
        r'<tr class="at"><td class="name">([^<]*)</td><td>(.*?)</td><td>(.*?)</td>', page
    )
    assert changed, "no difference between then and now"
    assert all(then and now and then != now for _name, then, now in changed), changed
    assert WHY not in page, "the decision is kept"
    assert 'id="decision"' not in page
