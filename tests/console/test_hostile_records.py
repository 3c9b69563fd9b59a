"""C18 for what is kept: incidents, shadow, bulk, views, audit, people, credentials and downstreams are text as well."""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from coordinator.actors import Operator
from coordinator.models import Credential, Queue, ShadowRound
from coordinator.selectors.task_filters import TaskFilter
from coordinator.services import canaries
from coordinator.services.audit_seals import seal_events
from coordinator.services.bulk_steps import run_bulk_step
from coordinator.services.bulks import Reviewed, Verb, review_bulk, start_bulk
from coordinator.services.credentials import create_operator_token
from coordinator.services.downstreams import register_downstream
from coordinator.services.epochs import set_intake
from coordinator.services.incident_candidates import decide_candidates
from coordinator.services.saved_views import save_view
from coordinator.services.shadow_explanations import explain_round
from coordinator.states import CandidateRuling, Guarantee, Intake, RolloutStage
from tests import world
from tests.console.conftest import Open
from tests.console.looking import too_wide
from tests.console.scene import person
from tests.console.test_hostile_text import ALL, HIDDEN, IMAGE
from tests.incidents import rollback
from tests.incidents.rollback import took
from tests.shadow.feeds import feeder, settle, tell
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)

MARKDOWN = "[click](javascript:window.pwned=5) ![x](http://elsewhere.example/x.png) <http://elsewhere.example>"
WORD = "W" * 10_000
#: As much of each kind as a reason may have.
WHY = f"{ALL} {MARKDOWN} {HIDDEN}\u2066\u202d\u2069 {WORD}"[:2_000]
LINE = f"{ALL}{HIDDEN}"[:150]
MALLORY = replace(rollback.person("mallory"), name=IMAGE[:60], request_id=f"{IMAGE} {HIDDEN}"[:60])


def operator(base: Operator) -> Operator:
    return replace(base, name=f"{base.name}{IMAGE}"[:60])


@pytest.fixture
def addresses(transactional_db: None) -> dict[str, str]:
    return restored(compose)


def compose() -> dict[str, str]:
    """A world of records in which every text is hostile; the pages that show them."""
    queue = LINE
    world.queue(name=queue)
    return {
        **incidents(queue),
        **shadow(),
        **tasks_of_many(queue),
        **people(),
        **outside(queue),
        **audit(queue),
    }


def incidents(queue: str) -> dict[str, str]:
    """One incident taken to its end, with hostile words at every step of it, and a canary."""
    blue = world.worker(name=LINE, queues=(queue,))
    world.worker(name=f"g {LINE}", pool_name=f"green {IMAGE}", queues=(queue,))
    run = world.submit(
        world.node(f"n {ALL[:150]}", kind=f"k {ALL[:100]}", input={ALL: [WORD, MARKDOWN, HIDDEN]}),
        queue_name=queue,
        name=f"{ALL[:100]}{HIDDEN}",
    )
    held = world.claim_one(
        by=blue, of=run.tasks[0].task_id, queue_name=queue, owner=f"{ALL[:150]}{HIDDEN}"
    )
    world.stage(held, by=blue, result={ALL: [WORD, MARKDOWN]})
    found = rollback.opened(queues=(queue,), reason=WHY, actor=MALLORY)
    took(rollback.bump(found, actor=operator(rollback.OTTO), reason=WHY))
    world.try_commit(held, by=blue)
    rollback.run_out(found)
    decide_candidates(
        incident_id=found, decision=CandidateRuling.KEEP, reason=WHY, actor=operator(rollback.OTTO)
    )
    took(rollback.switch(found, f"green {IMAGE}", reason=WHY))
    took(rollback.let_in(found, 10, reason=WHY, actor=MALLORY))
    told = {f"step {number}": f"/incidents/{found}/step/{number}" for number in range(1, 7)}
    over = rollback.opened(queues=(second_queue(),), reason=WHY, actor=MALLORY)
    took(rollback.abort(over, reason=WHY, actor=MALLORY))
    alone = rollback.opened(queues=(second_queue("alone"),), reason=WHY, actor=MALLORY)
    took(rollback.bump(alone, actor=MALLORY, reason=WHY))
    return told | {
        "incidents": "/incidents",
        "report": f"/incidents/{over}/step/7",
        "alone": f"/incidents/{alone}/step/3",
        "gate": f"/incidents/{alone}/step/4",
        "new": f"/incidents/new?queue={quote(queue)}",
        "needs": "/",
    }


def second_queue(name: str = "second") -> str:
    if not Queue.objects.filter(name=f"{name} {IMAGE}").exists():
        world.queue(name=f"{name} {IMAGE}")
    return f"{name} {IMAGE}"


def shadow() -> dict[str, str]:
    queue = f"s {LINE}"
    world.queue(name=queue, rollout_stage=RolloutStage.SHADOW, promotion_rounds=1)
    by = feeder(queue)
    for number, key in enumerate((f"{ALL[:120]}{HIDDEN}", MARKDOWN[:150])):
        tell(
            "A claims 0", "B claims 9", "A commits 12 r",
            by=by, key=key, queue=queue, source=f"{number}{IMAGE}"[:60],
        )  # fmt: skip
    settle()
    found = ShadowRound.objects.exclude(verdict="AGREE").exclude(verdict=None).first()
    assert found is not None
    explain_round(round_id=found.round_id, reason=WHY, owner=LINE[:100], actor=MALLORY)
    name = quote(queue, safe="")
    return {
        "shadows": "/shadow",
        "shadow": f"/shadow/{name}",
        "rounds": f"/shadow/{name}/rounds",
        "round": f"/shadow/rounds/{found.round_id}",
        "promote": f"/shadow/{name}/promote",
        "demote": f"/shadow/{name}/demote",
    }


def tasks_of_many(queue: str) -> dict[str, str]:
    world.submit(world.node("free", input=WORD), queue_name=queue, name=LINE)
    asked = f"?q={quote(WHY)}"
    frozen = review_bulk(
        verb=Verb.CANCEL, wanted=TaskFilter(queue=queue), asked=asked, actor=MALLORY
    )
    assert isinstance(frozen, Reviewed)
    waits = review_bulk(
        verb=Verb.CANCEL, wanted=TaskFilter(queue=queue), asked=asked, actor=MALLORY
    )
    assert isinstance(waits, Reviewed)
    start_bulk(bulk_id=frozen.bulk_id, reason=WHY, actor=MALLORY)
    while run_bulk_step():
        pass
    save_view(name=f"{ALL[:40]}{HIDDEN}", query=f"owner:{IMAGE}", actor=MALLORY)
    return {
        "bulks": "/tasks/bulk",
        "bulk": f"/tasks/bulk/{frozen.bulk_id}",
        "bulk review": f"/tasks/bulk/{waits.bulk_id}",
        "views": "/tasks/views",
    }


def people() -> dict[str, str]:
    user = person("victim", "viewer")
    create_operator_token(user=user, name=LINE)
    User.objects.filter(pk=user.pk).update(username=f"{IMAGE}{HIDDEN}"[:150])
    return {
        "people": "/people",
        "person": f"/people/{user.pk}",
        "role": f"/people/{user.pk}/role",
    }


def outside(queue: str) -> dict[str, str]:
    name = f"d {LINE}"
    register_downstream(
        name=name,
        kind=IMAGE[:60],
        guarantee=Guarantee.QUERY_ONLY,
        serial_scope=LINE,
        probe=f"{MARKDOWN} {HIDDEN} {WORD}"[:1_900],
        actor=MALLORY,
    )
    credential = Credential.objects.filter(name=LINE).get()
    at = f"/credentials/{credential.credential_id}"
    odd = quote(name, safe="")
    return {
        "downstreams": "/downstreams",
        "downstream": f"/downstreams/{odd}",
        "change": f"/downstreams/{odd}/change",
        "credentials": "/credentials",
        "credential": at,
        "revoke": f"{at}/revoke",
        "rotate": f"{at}/rotate",
        "new credential": f"/credentials/new?queue={quote(queue)}",
        "pools": "/pools",
        "workers": "/workers",
    }


def audit(queue: str) -> dict[str, str]:
    set_intake(queue=second_queue(), intake=Intake.STOPPED, reason=WHY, actor=MALLORY)
    canaries.watch_canaries(actor=MALLORY)
    seal_events()
    return {
        "audit": "/audit",
        "audit echo": f"/audit?actor={IMAGE}&object={IMAGE}&since={IMAGE}&kind={IMAGE}",
        "audit queue": f"/audit?queue={quote(queue)}",
        "chain": "/audit/chain?first=1",
        "chain echo": f"/audit/chain?first={IMAGE}&anchor={quote(HIDDEN)}",
        "integrity": "/audit/integrity",
    }


def mallory() -> Any:
    return person("mallory", "admin")


def test_hostile_text_stands_literally_in_every_record(
    client: Client, addresses: dict[str, str]
) -> None:
    client.force_login(mallory(), backend="django.contrib.auth.backends.ModelBackend")
    for name, address in addresses.items():
        answer = client.get(address)
        page = answer.content.decode()
        assert answer.status_code in (200, 422), (name, answer.status_code)
        assert "<img" not in page, name
        assert "<b>bold" not in page, name
        assert not re.search(r"<script>|<script [^>]*>[^<]", page), name
        assert not re.search(r"<[^>]* onmouseover=", re.sub(r'"[^"]*"', '""', page)), name
        led = re.findall(r'(?:href|src|action)="\s*([^"]*)"', page)
        assert not [to for to in led if to.lower().startswith(("javascript", "http:"))], name
        # What is edited has to stay what it is: a field that drew it would change it when it is sent.
        shown = re.sub(r"<textarea.*?</textarea>|value=\"[^\"]*\"", "", page, flags=re.DOTALL)
        hidden = re.search(".{0,80}[\u202e\u200b\u0007\u2066\u202d]", shown)
        assert not hidden, (name, hidden)
        assert "development-only" not in page, name


def test_a_report_to_take_along_makes_no_link_and_no_picture(
    client: Client, addresses: dict[str, str]
) -> None:
    client.force_login(mallory(), backend="django.contrib.auth.backends.ModelBackend")
    at = addresses["step 1"].rpartition("/step/")[0]
    text = client.get(f"{at}/report.md").content.decode()
    assert "![" not in text
    assert not re.search(r"(?<!\\)[<\[]", text.replace("| |", ""))
    assert "http://elsewhere" not in text
    assert not {"\u202e", "\u200b", "\u0007", "\u2066"} & set(text)
    assert "⟨U+202E⟩" in text


@pytest.mark.browser
@pytest.mark.slow
def test_nothing_of_the_records_runs_or_widens_the_page(
    opened: Open, addresses: dict[str, str]
) -> None:
    window = opened(user=mallory())
    page = window.page
    page.on("dialog", lambda dialog: window.faults.append(f"dialog: {dialog.message}"))
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2].split(":")[0]))
    faults = []
    for name, address in addresses.items():
        page.goto(address)
        assert page.evaluate("window.pwned") is None, name
        assert page.locator("img, main script, [onmouseover]").count() == 0, name
        assert not [*window.violations(), *window.faults], (name, window.faults)
        for width in (320, 1440):
            page.set_viewport_size({"width": width, "height": 700})
            faults += [f"{name} at {width}: {wide}" for wide in too_wide(page)]
    assert not faults, "\n".join(faults)
    assert len(hosts) == 1, hosts
