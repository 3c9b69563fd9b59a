"""The rollout in the console: differences explained, a queue promoted through its gate, and taken back."""

import re
from typing import Any

import pytest
from django.test import Client

from coordinator.actors import system
from coordinator.models import Event, Queue, ShadowExplanation
from coordinator.services.drills import run_drill
from tests import world
from tests.console import rollout
from tests.console.conftest import Open
from tests.console.looking import look
from tests.console.scene import person
from tests.hostile.ground import asked_promotion
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = rollout.QUEUE
WHY = "Known since March; claim.v1 mends it."


@pytest.fixture
def shadowed(transactional_db: None) -> None:
    restored(rollout.shadowed)


@pytest.mark.usefixtures("shadowed")
class TestPages:
    def test_a_matrix_and_classes_lead_to_their_rounds(self, signed_in: Client) -> None:
        page = signed_in.get(f"/shadow/{QUEUE}").content.decode()
        assert f'href="/shadow/{QUEUE}/rounds?legacy=FIRST&amp;claim=FIRST">8</a>' in page
        assert f'href="/shadow/{QUEUE}/rounds?verdict=DOUBLE_CLAIM"' in page
        rounds = signed_in.get(f"/shadow/{QUEUE}/rounds?verdict=DOUBLE_CLAIM").content.decode()
        assert rounds.count("data-row") == 2
        assert "letter" not in rounds
        none = signed_in.get(f"/shadow/{QUEUE}/rounds?explained=yes").content.decode()
        assert "No round matches this filter." in none

    def test_a_closed_gate_says_what_is_missing_and_refuses(self, signed_in: Client) -> None:
        page = signed_in.get(f"/shadow/{QUEUE}").content.decode()
        assert "No unexplained mismatch" in page
        assert f'href="/shadow/{QUEUE}/promote"' not in page
        form = {
            "shown_stage": "SHADOW",
            "confirm": f"{QUEUE} IDEMPOTENT_READS",
            "reason": "All of it is green, I am told.",
        }
        answer = signed_in.post(f"/shadow/{QUEUE}/promote", form)
        assert answer.status_code == 409
        assert "GATE_CLOSED" in answer.content.decode()
        assert Queue.objects.get(name=QUEUE).rollout_stage == "SHADOW"

    def test_a_word_on_one_round_leaves_the_others(self, signed_in: Client) -> None:
        found = rollout.a_mismatch()
        here = f"/shadow/rounds/{found.round_id}"
        form = {"triage": "BUG", "reason": WHY, "days": "0", "owner": "mail team"}
        assert signed_in.post(here, form).status_code == 302
        page = signed_in.get(here).content.decode()
        assert WHY in page
        assert "mail team" in page
        left = signed_in.get(f"/shadow/{QUEUE}/rounds?explained=no").content.decode()
        assert left.count("data-row") == 1
        told = Event.objects.get(kind="SHADOW_EXPLAINED")
        assert told.actor == "operator:olga"

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"of_class": "on", "days": "0"}, "at most 30 days"),
            ({"link": "javascript:alert(1)"}, "begins with https:// or http://"),
            ({"reason": "short"}, "Say why in 10 characters or more."),
        ],
    )
    def test_a_word_that_makes_no_sense_is_told(
        self, signed_in: Client, change: dict[str, str], told: str
    ) -> None:
        here = f"/shadow/rounds/{rollout.a_mismatch().round_id}"
        form = {"triage": "NOISE", "reason": WHY, "days": "7"} | change
        answer = signed_in.post(here, form)
        assert answer.status_code == 422
        assert told in answer.content.decode()
        assert not ShadowExplanation.objects.exists()

    def test_names_in_a_mismatch_are_set_apart(self, signed_in: Client) -> None:
        found = rollout.a_mismatch()
        page = signed_in.get(f"/shadow/rounds/{found.round_id}").content.decode()
        table = page.split('aria-labelledby="apart"')[1].split("</section>", maxsplit=1)[0]
        assert "<code>B</code>" in table
        assert "`" not in table

    def test_a_viewer_looks_and_decides_nothing(self, client: Client, viewer: Any) -> None:
        client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
        here = f"/shadow/rounds/{rollout.a_mismatch().round_id}"
        before = world.fingerprint()
        for path in (here, f"/shadow/{QUEUE}/promote", f"/shadow/{QUEUE}/demote"):
            assert client.get(path).status_code == 200
            assert client.post(path, {"reason": WHY}).status_code == 403
        assert world.fingerprint() == before

    @pytest.mark.browser
    def test_the_pages_are_in_order(self, opened: Open) -> None:
        window = opened(user=person("olga", "operator"))
        here = f"/shadow/{QUEUE}"
        mismatch = f"/shadow/rounds/{rollout.a_mismatch().round_id}"
        pages = ("/shadow", here, f"{here}/rounds", f"{here}/promote", mismatch)
        faults = [fault for address in pages for fault in look(window, address)]
        assert not faults, "\n".join(faults)


def test_a_promotion_tells_instants_as_times(signed_in: Client) -> None:
    asked = asked_promotion()
    page = signed_in.get(f"/shadow/promotions/{asked.request_id}").content.decode()
    figures = page.split('aria-labelledby="figures"')[1].split("</section>", maxsplit=1)[0]
    assert figures.count("<time ") == 2
    assert not re.search(r">[^<]*\d{4}-\d\d-\d\dT", page)


@pytest.mark.browser
@pytest.mark.usefixtures("shadowed")
def test_a_queue_is_promoted_and_taken_back(opened: Open) -> None:
    window = opened(user=person("olga", "operator"))
    page = window.page
    page.goto("/")
    page.click(".rail >> text=Shadow")
    page.wait_for_url("**/shadow")
    page.click(f"a[data-row]:has-text('{QUEUE}')")
    page.wait_for_url(f"**/shadow/{QUEUE}")
    assert (
        page.locator(".page-head .button:has-text('Promote…')").get_attribute("aria-disabled")
        == "true"
    )
    page.click("text=An example")
    page.fill("#id_reason", WHY)
    page.check("[name=of_class]")
    page.click("#decision button")
    page.wait_for_selector(".alert.calm")
    run_drill(queue=QUEUE, reason="before a promotion", actor=system("tests"))
    page.goto(f"/shadow/{QUEUE}")
    page.click("a:has-text('Promote…')")
    page.fill("#id_confirm", QUEUE)
    page.fill("#id_reason", "A month of agreement, and the drill has passed.")
    page.click("#decision button")
    assert "Type it exactly" in page.inner_text(".field .fault")
    page.fill("#id_confirm", f"{QUEUE} IDEMPOTENT_READS")
    page.click("#decision button")
    page.wait_for_url("**/shadow/promotions/*")
    assert "Nothing moves until another person has confirmed it." in page.inner_text(".alert")
    request = page.url.rpartition("localhost")[2].partition("/")[2]
    assert not look(window, f"/{request}")
    page.fill("#id_confirm", f"{QUEUE} IDEMPOTENT_READS")
    page.fill("#id_reason", "I asked for it, and I confirm it.")
    page.click("#decision button")
    assert "somebody else must confirm it" in page.inner_text(".no")
    assert Queue.objects.get(name=QUEUE).rollout_stage == "SHADOW"
    second = opened(user=person("otto", "operator"))
    second.page.goto("/")
    second.page.click(f"text=A promotion of {QUEUE} waits for a second person")
    second.page.wait_for_url("**/shadow/promotions/*")
    second.page.fill("#id_confirm", f"{QUEUE} IDEMPOTENT_READS")
    second.page.fill("#id_reason", "Read the figures, and the drill has passed.")
    second.page.click("#decision button")
    second.page.wait_for_url(f"**/shadow/{QUEUE}")
    assert "the stage is IDEMPOTENT_READS" in second.page.inner_text(".alert")
    assert Queue.objects.get(name=QUEUE).rollout_stage == "IDEMPOTENT_READS"
    assert not [*second.faults, *second.violations()]
    page.goto(f"/shadow/{QUEUE}")
    page.click("text=Go back a stage…")
    page.fill("#id_reason", "The mail team saw two letters at once.")
    page.click("#decision button")
    page.wait_for_url(f"**/shadow/{QUEUE}")
    assert "Back in SHADOW; the epoch is 2." in page.inner_text(".alert")
    told = Event.objects.filter(kind__in=["STAGE_PROMOTED", "STAGE_DEMOTED"]).order_by("id")
    assert [row.actor for row in told] == ["operator:otto", "operator:olga"]
    assert not [each for each in window.faults if "403" not in each]
    assert not window.violations()
