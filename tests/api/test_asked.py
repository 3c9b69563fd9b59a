"""Whether an effect has happened, asked for a person: over HTTP, by the SDK and from a terminal, as on its page."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Group, Permission

from coordinator.actors import Worker
from coordinator.models import Evidence, LookUp
from coordinator.site.adapters import registered_adapters
from tenure import Client, InvalidInput, NotFound
from tenure.cli import main
from tenure.downstreams.base import Adapter
from tests import world
from tests.effects import ledger
from tests.effects.conftest import by as fleet
from tests.effects.test_look_ups import Register, released
from tests.history import nothing_moves

from .callers import Caller, person

pytestmark = pytest.mark.django_db(transaction=True)

by = fleet  # the fixture
#: What TENURE_ADAPTERS names.
ADAPTERS: Final[dict[str, Adapter]] = {}


@pytest.fixture(autouse=True)
def named(settings: LazySettings) -> Iterator[None]:
    settings.ADAPTERS = f"{__name__}:ADAPTERS"
    ADAPTERS.clear()
    registered_adapters.cache_clear()
    yield
    registered_adapters.cache_clear()


def holds(effect_id: str, receipt: object) -> Register:
    ADAPTERS["there"] = register = Register({effect_id: receipt})  # type: ignore[dict-item]
    return register


def test_a_person_has_it_asked_and_settles_by_what_was_said(by: Worker) -> None:
    effect = released(by)
    register = holds(effect.effect_id, "r9")
    operator = person("operator")
    told = operator.post(f"/effects/{effect.effect_id}/ask", {}).body
    assert (told["said"], told["receipt"], told["dispatches"]) == ("HAPPENED", "r9", 1)
    assert told["lookup_id"] == str(LookUp.objects.get().lookup_id)
    assert (register.asked, ledger.state(effect)) == (1, "UNKNOWN")
    assert Evidence.objects.latest("id").said == "HAPPENED"
    found = {
        "finding": "HAPPENED",
        "dispatches": told["dispatches"],
        "lookup_id": told["lookup_id"],
        "receipt": told["receipt"],
        "evidence": {"method": "query", "detail": "asked"},
    }
    assert operator.post(f"/effects/{effect.effect_id}/reconcile", found).status == 200
    assert ledger.state(effect) == "COMMITTED"


def test_what_was_never_sent_may_be_asked_about_and_stays_as_it_is(by: Worker) -> None:
    effect = ledger.prepare(ledger.claimed(by=by), by=by)
    holds(effect.effect_id, "")
    before = world.fingerprint("effectslot", "task", "attempt", "dispatch")
    told = person("operator").post(f"/effects/{effect.effect_id}/ask", {}).body
    assert (told["said"], told["dispatches"]) == ("NOT_HAPPENED", 0)
    assert world.fingerprint("effectslot", "task", "attempt", "dispatch") == before


def test_who_may_not_settle_has_nobody_asked(by: Worker) -> None:
    effect = released(by)
    register = holds(effect.effect_id, "r9")
    with nothing_moves():
        for caller in (person("viewer"), Caller()):
            assert caller.post(f"/effects/{effect.effect_id}/ask", {}).status in (401, 403)
    assert register.asked == 0


def test_who_may_settle_but_sees_no_payloads_has_nobody_asked(by: Worker) -> None:
    effect = released(by)
    register = holds(effect.effect_id, "r9")
    caller = person("operator")
    Group.objects.get(name="operator").permissions.remove(
        Permission.objects.get(codename="view_payload")
    )
    with nothing_moves():
        reply = caller.post(f"/effects/{effect.effect_id}/ask", {})
    assert (reply.status, reply.outcome) == (403, "FORBIDDEN")
    assert "see payloads" in str(reply.body)
    assert register.asked == 0


def test_what_is_not_there_and_what_nobody_can_ask_about_is_told_by_name(by: Worker) -> None:
    effect, operator = released(by), person("operator")
    with nothing_moves():
        assert operator.post(f"/effects/{'0' * 64}/ask", {}).status == 404
        assert operator.post("/effects/x/ask", {}).status in (404, 422)
        reply = operator.post(f"/effects/{effect.effect_id}/ask", {})
        assert (reply.status, reply.pointers) == (422, {"/downstream"})
        assert "TENURE_ADAPTERS" in str(reply.body["errors"])
        holds(effect.effect_id, "r9").can_be_asked = False
        assert operator.post(f"/effects/{effect.effect_id}/ask", {}).pointers == {"/downstream"}


def test_a_receipt_is_masked_where_its_shape_says_so(by: Worker) -> None:
    effect = released(by)
    holds(
        effect.effect_id,
        {"id": "r9", "password": "hunter2-hunter2", "by": ["Bearer abcdefghijklmnop"]},
    )
    told = person("operator").post(f"/effects/{effect.effect_id}/ask", {}).body
    assert "hunter2" not in json.dumps(told)
    assert "abcdefghijklmnop" not in json.dumps(told)
    assert "/receipt/password" in told["masked"]
    assert Evidence.objects.latest("id").detail["receipt"]["password"] == "hunter2-hunter2"


def test_from_a_terminal_and_the_sdk(
    live_server: Any,
    by: Worker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    effect, caller = released(by), person("operator")
    register = holds(effect.effect_id, "r9")
    monkeypatch.setenv("TENURE_URL", live_server.url)
    monkeypatch.setenv("TENURE_TOKEN", str(caller.token))
    assert main(["ask", effect.effect_id]) == 0
    told = capsys.readouterr().out
    lookup_id = str(LookUp.objects.get().lookup_id)
    assert "HAPPENED" in told
    assert (
        f"tenure reconcile {effect.effect_id} happened --look-up {lookup_id} --dispatches 1" in told
    )
    register.held.clear()
    assert main(["ask", effect.effect_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["said"] == "NOT_HAPPENED"
    with Client(live_server.url, str(caller.token)) as client:
        assert client.ask_downstream(effect.effect_id).said == "NOT_HAPPENED"
        with pytest.raises(NotFound):
            client.ask_downstream("0" * 64)
        ADAPTERS.clear()
        registered_adapters.cache_clear()
        with pytest.raises(InvalidInput, match="TENURE_ADAPTERS"):
            client.ask_downstream(effect.effect_id)
