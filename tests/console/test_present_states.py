"""Beside a payload that waits for a person: what is there now, asked when they say so and kept as evidence."""

from collections.abc import Iterator
from typing import Any, ClassVar
from uuid import uuid4

import orjson
import pytest
from django.conf import LazySettings
from django.test import Client

from console.diffs import MINUS
from coordinator.models import Approval, Downstream, Event, Evidence
from coordinator.services.effects import Prepared
from coordinator.site.adapters import registered_adapters
from coordinator.states import Guarantee
from tenure.downstreams import Happened
from tenure.downstreams.base import Adapter, Bound, Call, DontKnow, Present, Sent, Unknown
from tenure.downstreams.base import Guarantee as SdkGuarantee
from tests import world
from tests.console import desk as desks
from tests.console.conftest import Open
from tests.console.looking import look as look_at
from tests.console.scene import person
from tests.console.test_approvals import WHY, client_of, word
from tests.downstreams import parts
from tests.downstreams.parts import Part
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)

THERE = "documents"
#: What TENURE_ADAPTERS names.
ADAPTERS: dict[str, Adapter] = {}


class Says(Adapter):
    """An operator's own adapter, which says what it is told to."""

    kind: ClassVar[str] = "says"
    limits: ClassVar[str] = "It knows nothing."
    can_present = True

    def __init__(self, answer: Any) -> None:
        super().__init__(SdkGuarantee.NONE)
        self.answer = answer

    def send(self, call: Call) -> Sent:
        return Unknown(detail=f"{call.effect_id} is not sent here")

    def present(self, effect: Bound, *, deadline: float) -> Present | DontKnow:
        assert effect.payload_digest
        assert deadline > 0
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: Present | DontKnow = self.answer
        return answer


@pytest.fixture(autouse=True)
def adapters(settings: LazySettings) -> Iterator[None]:
    settings.ADAPTERS = f"{__name__}:ADAPTERS"
    registered_adapters.cache_clear()
    yield
    ADAPTERS.clear()
    registered_adapters.cache_clear()


def asked(payload: Any, condition: Any = None) -> Approval:
    """A payload that waits for a person, bound to a condition."""
    world.queue(name=desks.QUEUE)
    ledger.register(Guarantee.NONE, name=THERE)
    fleet = world.worker(name="writers", queues=(desks.QUEUE,))
    run = world.submit(
        world.node("write", slots={"send": THERE}), queue_name=desks.QUEUE, name="Write run"
    )
    claim = world.claim_one(by=fleet, of=world.task_id(run, "write"), queue_name=desks.QUEUE)
    prepared = ledger.try_prepare(
        claim, by=fleet, payload=payload, slot="send", downstream=THERE, condition=condition
    )
    assert isinstance(prepared, Prepared), prepared
    return ledger.approval(ledger.try_accept(prepared.effect, claim.fence, by=fleet))


def of(part: Part) -> Approval:
    ADAPTERS[THERE] = part.adapter
    return asked(part.payload, part.condition)


def look(client: Client, approval: Approval, **fields: str) -> Any:
    form = {"action_key": str(uuid4()), "shown_state": "PENDING"} | fields
    return client.post(f"/approvals/{approval.approval_id}/present", form, follow=True)


def page_of(client: Client, approval: Approval) -> str:
    return client.get(f"/approvals/{approval.approval_id}").content.decode()


def card(text: str) -> str:
    return text.split('aria-labelledby="present"')[1].split("</section>", maxsplit=1)[0]


def test_what_is_there_now_is_asked_when_a_person_says_so_and_kept() -> None:
    with parts.etag() as part:
        approval, anna = of(part), client_of("anna")
        assert "Show what is there now" in card(page_of(anna, approval))
        assert part.log["world"].arrived == []
        before = world.fingerprint()
        told = card(look(anna, approval).content.decode())
        assert part.log["world"].arrived == ["GET /documents/a"]
    assert world.fingerprint() == before
    assert "held then" in told
    assert (
        f'<tr class="removed"><td class="sign">{MINUS}</td><td>    &quot;title&quot;: &quot;before'
        in told
    )
    assert '<tr class="added"><td class="sign">+</td><td>    &quot;title&quot;: &quot;after' in told
    assert "operator:anna" in told
    kept = Evidence.objects.get()
    assert (kept.kind, kept.said, kept.actor) == ("present", "PRESENT", "operator:anna")
    assert orjson.loads(kept.detail["present_state"])["there"]["body"] == {"title": "before"}
    assert kept.detail["digest"].startswith("sha256:")
    event = Event.objects.get(kind="EVIDENCE_RECORDED")
    assert (event.actor, event.data["said"], event.data["how"]) == (
        "operator:anna",
        "PRESENT",
        "present",
    )
    assert event.data["address"] == "127.0.0.1"
    assert "before" not in str(event.data)


def test_what_somebody_else_changed_since_is_seen_before_it_is_approved() -> None:
    with parts.etag() as part:
        approval, anna = of(part), client_of("anna")
        part.log["world"].documents["a"] = ({"title": "theirs"}, '"v7"')
        told = card(look(anna, approval).content.decode())
    assert "did not hold then" in told
    assert "theirs" in told
    assert "&quot;v7&quot;" in told
    # It decides nothing: whoever may still approves.
    answer = anna.post(f"/approvals/{approval.approval_id}", word(approval.approval_id, reason=WHY))
    assert answer.status_code == 302
    assert 'aria-labelledby="present"' in page_of(anna, approval)
    assert "Show what is there now" not in page_of(anna, approval)


def test_a_branch_is_compared_line_by_line() -> None:
    with parts.git_remote() as part:
        files = {"report/a b.md": {"text": "# Report\nof October\nin short\n"}}
        theirs = part.call(payload={**part.payload, "files": files})
        assert isinstance(part.adapter.send(theirs), Happened)
        part.payload = {
            **part.payload,
            "files": {"report/a b.md": {"text": "# Report\nof November\nin short\n"}},
        }
        approval = of(part)
        told = card(look(client_of("anna"), approval).content.decode())
    assert "did not hold then" in told
    assert "of October" in told
    assert "of November" in told
    assert '<tr class=""><td class="sign"></td><td>        &quot;in short&quot;' in told


def test_an_object_that_is_not_there_yet_is_said_to_be_new() -> None:
    with parts.s3() as part:
        approval, anna = of(part), client_of("anna")
        assert "all of the payload would be new" in card(look(anna, approval).content.decode())
        part.adapter.send(part.call())
        told = card(look(anna, approval).content.decode())
    assert "It was there already, just as the payload has it." in told
    assert Evidence.objects.count() == 2


def test_what_is_masked_in_the_payload_is_masked_in_what_is_there() -> None:
    with parts.etag() as part:
        part.payload = {
            "path": "/documents/a",
            "body": {"iban": "DE89-new", "password": "new-word", "note": "n"},
        }
        approval, anna = of(part), client_of("anna", "admin")
        Downstream.objects.update(secret_pointers=["/body/iban"])
        old = {"iban": "DE89-old", "password": "old-word", "note": "o"}
        part.log["world"].documents["a"] = (old, '"v0"')
        pages = look(anna, approval).content.decode()
    pages += anna.get(f"/effects/{approval.effect_id}").content.decode()
    pages += anna.get(f"/tasks/{approval.effect.task_id}/effects").content.decode()
    for secret in ("DE89-new", "DE89-old", "new-word", "old-word"):
        assert secret not in pages
    assert pages.count("[masked: registered #") >= 2
    assert "&quot;note&quot;: &quot;o" in pages


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (DontKnow(detail="it is down\x00"), "it is down"),
        (OSError("no route"), "the look failed: OSError"),
        (Present(there="\ud800", instead="", facts={}), "can&#x27;t be told as JSON"),
        (Present(there="x" * 300_000, instead="", facts={}), "too large to be shown"),
    ],
)
def test_what_can_not_be_told_is_told_so(answer: Any, told: str) -> None:
    ADAPTERS[THERE] = Says(answer)
    approval = asked({"n": 1})
    page = look(client_of("anna"), approval).content.decode()
    assert "Asked, but it could not say what is there." in page
    assert told in card(page)
    assert Evidence.objects.get().said == "DONT_KNOW"


def test_what_stands_there_may_be_anything_and_runs_nowhere() -> None:
    hostile = "<img src=x onerror=window.pwned=1>\x00\u202e"
    ADAPTERS[THERE] = Says(
        Present(there={hostile: hostile}, instead={"n": 1}, facts={hostile: hostile})
    )
    approval = asked({"n": 1})
    page = look(client_of("anna"), approval).content.decode()
    assert "No condition says what has to be there." in page
    assert "<img" not in page
    assert "\u202e" not in page


def test_without_an_adapter_that_can_tell_the_page_says_so_and_nobody_is_asked() -> None:
    approval, anna = asked({"n": 1}), client_of("anna")
    assert "no adapter that can tell is registered for documents" in card(page_of(anna, approval))
    answer = look(anna, approval)
    assert answer.status_code == 409
    assert "No registered adapter can tell" in answer.content.decode()
    assert not Evidence.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_may_not_decide_has_nobody_asked(role: str) -> None:
    with parts.etag() as part:
        approval = of(part)
        answer = look(client_of(role, role), approval)
        assert answer.status_code == 403
        assert part.log["world"].arrived == []
    assert Event.objects.get(kind="REFUSED").data["outcome"] == "FORBIDDEN"


def test_a_request_that_is_over_has_nobody_asked() -> None:
    with parts.etag() as part:
        approval, anna = of(part), client_of("anna")
        anna.post(
            f"/approvals/{approval.approval_id}", word(approval.approval_id, decision="reject")
        )
        answer = look(anna, approval)
        assert answer.status_code == 409
        assert part.log["world"].arrived == []
    assert "REJECTED" in answer.content.decode()


def test_an_unknown_request_is_not_there() -> None:
    assert client_of("anna").post(f"/approvals/{uuid4()}/present", {}).status_code == 404


@pytest.mark.browser
def test_what_was_told_fits_every_width(opened: Open) -> None:
    long = "x" * 400
    ADAPTERS[THERE] = Says(
        Present(
            there={"text": f"{long}\n{long}"},
            instead={"text": long},
            facts={"tip": "0" * 64, long: long},
        )
    )
    approval = asked({"n": 1})
    window = opened(user=person("adele", "admin"))
    address = f"/approvals/{approval.approval_id}"
    window.page.goto(address)
    window.page.click("text=Show what is there now")
    window.page.wait_for_selector(".alert.calm")
    assert window.page.url.endswith(f"{address}#present")
    faults = look_at(window, address)
    assert not faults, "\n".join(faults)
