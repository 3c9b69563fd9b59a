"""Legacy events: kept once, put into their round, settled when the window has passed (contract 13)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from coordinator.actors import Worker, system
from coordinator.models import Event, ShadowEvent, ShadowRound, ShadowSource
from coordinator.outcomes import Outcome, Refusal
from coordinator.services import shadow_events, shadow_verdicts
from coordinator.services.pruned_shadow import count_shadow, prune_shadow
from coordinator.services.shadow_events import ShadowReceived, Told
from coordinator.services.shadow_verdicts import settle_rounds
from coordinator.tasks import settle_shadow_rounds
from tests import world
from tests.history import nothing_moves
from tests.world import Rival

from . import feeds
from .feeds import settle, tell, try_tell, verdicts
from .stories import told as event_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def by() -> Worker:
    world.queue()
    return feeds.feeder()


def test_events_are_counted_and_judged_once_their_window_has_passed(by: Worker) -> None:
    with nothing_moves():
        answer = tell("A claims 0", "B claims 30", "A commits 40 r", by=by)
        assert (answer.received, answer.new, answer.duplicate, answer.refused) == (3, 3, 0, 0)
        assert settle_rounds(actor=system("shadow")) == 0  # they have only just arrived
        feeds.let_windows_pass()
        assert settle_shadow_rounds() == 1  # as beat has it run
    assert verdicts() == {"task": ["DOUBLE_CLAIM"]}
    row = ShadowRound.objects.get()
    assert (row.legacy_end, row.claim_end, row.events) == ("FIRST", "FIRST", 3)
    assert settle() == 0


def test_the_same_event_again_changes_nothing_and_another_body_is_told(by: Worker) -> None:
    ago = timedelta(days=3)
    first = Told("legacy", "task", feeds.moved(event_of("A claims 0", "e0"), ago=ago))
    other = first._replace(event=first.event._replace(owner="B"))
    assert feeds.send([first, first], by=by) == ShadowReceived("q", 2, 1, 1, 0, 0, 0)
    before = world.fingerprint("shadowevent", "shadowround")
    assert feeds.send([first], by=by) == ShadowReceived("q", 1, 0, 1, 0, 0, 0)
    assert feeds.send([other], by=by) == ShadowReceived("q", 1, 0, 1, 1, 0, 0)
    assert world.fingerprint("shadowevent", "shadowround") == before
    source = ShadowSource.objects.get()
    assert (source.events, source.duplicates, source.conflicts) == (1, 3, 1)


def test_events_that_arrive_out_of_order_are_sorted_in_while_the_round_is_open(by: Worker) -> None:
    tell("A commits 80 r", by=by, prefix="late")
    assert verdicts() == {"task": [None]}
    tell("A claims 0", "B claims 61", "B commits 70 r", by=by)
    settle()
    assert verdicts() == {"task": ["LATE_COMMIT"]}


def test_what_comes_after_the_verdict_is_kept_beside_it_and_counted(by: Worker) -> None:
    tell("A claims 0", "A commits 80 r", by=by)
    settle()
    answer = tell("B claims 30", by=by, prefix="late")
    assert (answer.new, answer.too_late) == (1, 1)
    assert settle() == 0
    assert verdicts() == {"task": ["AGREE"]}
    assert ShadowRound.objects.get().too_late == 1
    assert ShadowSource.objects.get().too_late == 1
    assert ShadowEvent.objects.filter(is_too_late=True).count() == 1


def test_the_next_life_of_a_key_is_the_next_round_however_many_were_settled_at_once(
    by: Worker,
) -> None:
    lives = ["A claims 0", "A commits 9 r", "B claims 1000", "C claims 1010", "B commits 1020 r"]
    tell(*lives, "C claims 9000", by=by, key="one go")
    settle()
    for number, part in enumerate((lives[:2], lives[2:], ["C claims 9000"])):
        tell(*part, by=by, key="bit by bit", prefix=str(number))
        settle()
    expected = ["AGREE", "DOUBLE_CLAIM", "LOST"]
    assert verdicts() == {"one go": expected, "bit by bit": expected}
    per_round = ShadowRound.objects.filter(task_key="one go").order_by("number")
    assert list(per_round.values_list("number", "origin")) == [(1, 1), (2, 2), (3, 3)]
    assert [row.told.count() for row in per_round] == [2, 3, 1]


def test_a_straggler_of_a_settled_round_gets_a_round_and_a_verdict_of_its_own(by: Worker) -> None:
    tell("A claims 0", "B claims 61", "B commits 70 r1", by=by)
    settle()
    tell("A commits 4000 r2", by=by, prefix="zombie")
    settle()
    assert verdicts() == {"task": ["AGREE", "LATE_COMMIT"]}
    tell("B commits 9000 r3", by=by, prefix="again")
    settle()
    assert verdicts() == {"task": ["AGREE", "LATE_COMMIT", "WINNER_DIFFERS"]}
    assert [row.origin for row in ShadowRound.objects.order_by("number")] == [1, 1, 1]


def test_a_round_whose_lease_still_runs_is_looked_at_again_later(by: Worker) -> None:
    tell("A claims 0", by=by, ago=timedelta(seconds=10))
    assert settle() == 0
    row = ShadowRound.objects.get()
    assert row.verdict is None
    assert row.check_at > timezone.now() + timedelta(seconds=300)
    tell("A commits 5 r", by=by, ago=timedelta(seconds=10), prefix="then")
    assert settle() == 0  # its settle window still runs by the legacy clock
    assert ShadowRound.objects.get().check_at < row.check_at


def test_many_rounds_are_settled_in_bounded_batches(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_verdicts, "MAX_ROUNDS", 2)
    for number in range(5):
        tell("A claims 0", "A commits 9", by=by, key=f"task {number}")
    feeds.let_windows_pass()
    assert settle_rounds(actor=system("shadow"), max_batches=1) == 2
    assert settle_rounds(actor=system("shadow")) == 3
    assert settle_rounds(actor=system("shadow")) == 0


def test_two_judges_at_once_give_each_round_one_verdict(by: Worker) -> None:
    for number in range(20):
        tell("A claims 0", "B claims 9", "A commits 12", by=by, key=f"task {number}")
    feeds.let_windows_pass()
    rivals = [Rival(lambda: settle_rounds(actor=system("shadow"))) for _ in range(3)]
    assert sum(rival.result() for rival in rivals) == 20
    assert {tuple(each) for each in verdicts().values()} == {("DOUBLE_CLAIM",)}


def test_an_event_and_the_judge_at_once_never_miss_each_other(by: Worker) -> None:
    tell("A claims 0", "A commits 9 r1", by=by)
    feeds.let_windows_pass()
    with world.holding("SELECT pg_advisory_xact_lock(16, id) FROM coordinator_queue") as holder:
        judge = Rival(lambda: settle_rounds(actor=system("shadow")))
        world.wait_until_blocked(judge.pid)
        feed = Rival(lambda: tell("B claims 5", by=by, prefix="late"))
        world.wait_until_blocked(feed.pid)
        holder.release()
        settled, received = judge.result(), feed.result()
    assert (settled, received.too_late) in ((1, 1), (0, 0))
    if not settled:
        settle()
    assert verdicts() == {"task": ["AGREE" if settled else "DOUBLE_CLAIM"]}


def test_the_first_mismatch_of_a_class_raises_one_alarm(by: Worker) -> None:
    for number in range(3):
        tell("A claims 0", "B claims 9", "A commits 12", by=by, key=f"task {number}")
        settle()
    alarm = Event.objects.get(kind="ALARM")
    assert (alarm.data["alarm"], alarm.data["verdict"]) == ("SHADOW_MISMATCH", "DOUBLE_CLAIM")
    assert alarm.repeats == 2


def test_faults_are_told_one_by_one_and_the_rest_is_taken(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queue(name="other")
    stranger = feeds.feeder("other")
    tell("A claims 0", by=stranger, queue="other", source="taken", key="theirs")
    ahead = timezone.now() + timedelta(hours=2)
    events = [
        Told("legacy", "fine", feeds.moved(event_of("A claims 0", "1"))),
        Told("taken", "mine", feeds.moved(event_of("A claims 0", "2"))),
        Told("legacy", "soon", event_of("A claims 0", "3")._replace(at=ahead)),
    ]
    answer = feeds.send(events, by=by)
    assert isinstance(answer, ShadowReceived)
    assert (answer.new, answer.refused) == (1, 2)
    assert [fault.pointer for fault in answer.faults] == ["/events/1/source", "/events/2/at"]
    monkeypatch.setattr(shadow_events, "MAX_ROUND_EVENTS", 2)
    full = tell("A renews 1", "A renews 2", by=by, key="fine", prefix="more")
    assert (full.new, full.refused, full.faults[0].pointer) == (1, 1, "/events/1/task_key")


def test_what_the_feed_had_to_drop_is_added_up(by: Worker) -> None:
    tell("A claims 0", by=by, lost=3)
    tell("A claims 0", by=by, lost=3)  # sent again, because its answer was lost
    tell("A claims 0", by=by, lost=4, prefix="next")
    assert ShadowSource.objects.get().lost == 7


def test_a_queue_that_is_not_the_credentials_takes_nothing(by: Worker) -> None:
    world.queue(name="other")
    for queue in ("other", "nowhere"):
        told = try_tell("A claims 0", by=by, queue=queue)
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.NOT_FOUND
    assert not ShadowSource.objects.exists()


def test_old_rounds_that_agree_are_taken_away_and_mismatches_stay(
    by: Worker, settings: Any
) -> None:
    tell("A claims 0", "A commits 9", by=by, key="old")
    tell("A claims 0", "B claims 9", "A commits 12", by=by, key="apart")
    settle()
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE coordinator_shadowround DISABLE TRIGGER USER")
        cursor.execute(
            "UPDATE coordinator_shadowround SET settled_at = settled_at - interval '91 days'"
        )
        cursor.execute("ALTER TABLE coordinator_shadowround ENABLE TRIGGER USER")
    tell("A claims 0", "A commits 9", by=by, key="young")
    settle()
    tell("A claims 0", by=by, key="open", ago=timedelta(seconds=5))
    settings.KEEP_SHADOW_DAYS = 0
    assert prune_shadow().taken == 0
    settings.KEEP_SHADOW_DAYS = 90
    assert (count_shadow(10), prune_shadow().taken, prune_shadow().taken) == (1, 1, 0)
    assert verdicts() == {"apart": ["DOUBLE_CLAIM"], "open": [None], "young": ["AGREE"]}
    assert set(ShadowEvent.objects.values_list("task_key", flat=True)) == set(verdicts())


def test_a_batch_is_two_round_trips_whatever_its_size(by: Worker) -> None:
    from coordinator.rounds import sent

    for lines in (["A claims 0"], [f"A renews {second}" for second in range(300)]):
        log: list[list[str]] = []
        token = sent.set(log)
        try:
            tell(*lines, by=by, key=f"of {len(lines)}")
        finally:
            sent.reset(token)
        assert len(log) == 2
