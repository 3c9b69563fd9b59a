"""Break-glass: the only way past the guard, recorded, counted and short (contract 16)."""

import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from coordinator.actors import system
from coordinator.models import BreakGlass, Event, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.break_glass import close_break_glass, open_break_glass
from tests import world

pytestmark = pytest.mark.django_db(transaction=True)
ACTOR = system("tests")
REASON = "undo the import of 30 May"


def opened() -> BreakGlass:
    session = open_break_glass(reason=REASON, minutes=15, actor=ACTOR)
    assert isinstance(session, BreakGlass)
    return session


def write_past_the_guard(session: int | str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tenure.break_glass', %s, true)", [str(session)])
        cursor.execute("UPDATE coordinator_task SET priority = 5")


@pytest.fixture(autouse=True)
def _a_task() -> None:
    world.queue()
    world.submit()


def test_a_write_past_the_guard_passes_only_under_an_open_session_and_is_counted() -> None:
    session = opened()
    write_past_the_guard(session.pk)
    write_past_the_guard(session.pk)
    assert Task.objects.get().priority == 5
    assert BreakGlass.objects.get().writes == 2
    assert [event.kind for event in Event.objects.filter(kind__startswith="BREAK")] == [
        "BREAK_GLASS_OPENED"
    ]


@pytest.mark.parametrize("session", ["", "999"])
def test_without_a_session_that_is_there_it_is_refused(session: str) -> None:
    with pytest.raises(IntegrityError, match="did not come through the guard"):
        write_past_the_guard(session)


def test_a_closed_or_expired_session_opens_nothing() -> None:
    session = opened()
    closed = close_break_glass(session_id=session.pk, actor=ACTOR)
    assert isinstance(closed, BreakGlass)
    again = close_break_glass(session_id=session.pk, actor=ACTOR)
    assert isinstance(again, BreakGlass)
    assert again.closed_at == closed.closed_at
    with pytest.raises(IntegrityError):
        write_past_the_guard(session.pk)
    expired = opened()
    BreakGlass.objects.filter(pk=expired.pk).update(expires_at=expired.opened_at)
    with pytest.raises(IntegrityError):
        write_past_the_guard(expired.pk)
    assert Event.objects.filter(kind="BREAK_GLASS_CLOSED").count() == 1


def test_it_takes_a_reason_and_a_bound() -> None:
    answer = open_break_glass(reason="because", minutes=10_000, actor=ACTOR)
    assert isinstance(answer, Refusal)
    assert {error.pointer for error in answer.errors} == {"/reason", "/minutes"}
    missing = close_break_glass(session_id=999, actor=ACTOR)
    assert isinstance(missing, Refusal)
    assert missing.outcome is Outcome.NOT_FOUND
    assert BreakGlass.objects.count() == 0


def test_the_command_opens_and_closes() -> None:
    out = io.StringIO()
    call_command("break_glass", "open", "--reason", REASON, "--json", stdout=out)
    told = json.loads(out.getvalue())
    write_past_the_guard(told["session"])
    out = io.StringIO()
    call_command("break_glass", "close", str(told["session"]), stdout=out)
    assert "Statements under it: 1" in out.getvalue()
    with pytest.raises(CommandError, match="reason"):
        call_command("break_glass", "open", "--reason", "no")
