"""A downstream may answer anything, and an operator's adapter pass it on: it is kept cleaned, or refused with words."""

import json
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import httpx
import pytest

from coordinator.actors import Worker, system
from coordinator.models import Evidence
from coordinator.services.asking import Answered, ask_downstream
from coordinator.services.heard import MAX_RECEIPT_BYTES, MAX_TOLD_CHARS
from coordinator.services.look_ups import look_up_effects
from coordinator.services.trial_look_ups import Asked, try_look_up
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Happened,
    Sent,
    Unknown,
)
from tenure.downstreams.base import Guarantee as SdkGuarantee
from tests.effects import ledger
from tests.effects.test_look_ups import released
from tests.sdk.scripted import Reply, ScriptedServer, scripted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


class Trusting(Adapter):
    """What an operator writes in ten lines: it passes on what the server says."""

    kind: ClassVar[str] = "trusting"
    limits: ClassVar[str] = "It believes everything."

    def __init__(self, url: str) -> None:
        super().__init__(SdkGuarantee.CONDITIONAL_WRITE)
        self.url = url

    def send(self, call: Call) -> Sent:
        return Unknown(detail=f"{call.effect_id} is not sent here")

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        left = deadline - time.monotonic()
        answer = httpx.get(f"{self.url}/{effect.effect_id}", timeout=left).json()
        match answer["found"]:
            case "yes":
                return Happened(receipt=answer["told"])
            case "no":
                return Absent(detail=answer["told"])
            case "perhaps":
                return DontKnow(detail=answer["told"])
            case _:
                return answer["told"]  # type: ignore[no-any-return]  # a slip of its author


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted(lambda _seen: Reply(200, {})) as server:
        yield server


def says(server: ScriptedServer, found: str, told: Any) -> Trusting:
    server.script = lambda _seen: Reply(200, {"found": found, "told": told})
    return Trusting(server.url)


@pytest.mark.parametrize(
    ("found", "told", "said", "words"),
    [
        ("yes", {"id": "a\x00b"}, "HAPPENED", "can't be kept: a string has a NUL character"),
        ("yes", {"id": "\ud800"}, "HAPPENED", "can't be kept"),
        ("yes", "x" * (MAX_RECEIPT_BYTES + 1), "HAPPENED", "too large: 65539 bytes, sha256:"),
        ("yes", 2**60, "HAPPENED", "can't be kept"),
        ("yes", None, "HAPPENED", "gives no receipt"),
        ("no", "none\x00\ud800here", "NOT_HAPPENED", "none\ufffd?here"),
        ("no", {"not": "text"}, "NOT_HAPPENED", "{'not': 'text'}"),
        ("perhaps", "\udfff" * 50_000, "DONT_KNOW", "?" * MAX_TOLD_CHARS),
        ("never", ["a slip"], "DONT_KNOW", "gave no answer but a list"),
    ],
)
def test_it_is_kept_with_words_and_moves_nothing(
    by: Worker, server: ScriptedServer, *, found: str, told: Any, said: str, words: str
) -> None:
    effect = released(by)
    answer = ask_downstream(
        effect_id=effect.effect_id,
        adapter=says(server, found, told),
        actor=ledger.person("paula"),
    )
    assert isinstance(answer, Answered)
    assert (answer.said, answer.receipt) == (said, None)
    assert words in answer.detail
    kept = Evidence.objects.latest("id")
    assert (kept.said, kept.detail["detail"], kept.detail["digest"]) == (
        said,
        answer.detail,
        answer.digest,
    )
    assert ledger.state(effect) == "UNKNOWN"


def test_a_good_receipt_is_kept_as_it_is(by: Worker, server: ScriptedServer) -> None:
    effect = released(by)
    receipt = {"id": "\U0001f600 é", "n": 1.5, "list": [None, True]}
    answer = ask_downstream(
        effect_id=effect.effect_id,
        adapter=says(server, "yes", receipt),
        actor=ledger.person("paula"),
    )
    assert isinstance(answer, Answered)
    assert answer.receipt == Evidence.objects.latest("id").detail["receipt"] == receipt


def test_the_coordinators_own_look_up_and_a_trial_keep_it_too(
    by: Worker, server: ScriptedServer
) -> None:
    effect = released(by)
    adapter = says(server, "yes", {"id": "\ud800"})
    assert look_up_effects(adapters={"there": adapter}, actor=system("look-ups")) == 0
    kept = Evidence.objects.latest("id")
    assert (kept.said, kept.detail["dispatches"]) == ("HAPPENED", 1)
    assert ledger.state(effect) == "UNKNOWN"
    asked = try_look_up(downstream="there", adapter=adapter, actor=ledger.person("paula"))
    assert isinstance(asked, Asked)
    assert json.dumps(asked.detail).isascii()
    assert "can't be kept" in asked.detail
