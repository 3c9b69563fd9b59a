"""The audit as a chain: what is sealed in which order, and how each row that was meddled with is named (adr/0021)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, connection, transaction

from coordinator.actors import Worker, system
from coordinator.chain_digests import GENESIS
from coordinator.models import AuditChain, AuditLink, Event
from coordinator.outcomes import Refusal
from coordinator.selectors.audit_chain import (
    ChainFault,
    Misfit,
    Verification,
    links_of,
    read_head,
    verify_chain,
)
from coordinator.services import identity, pruning
from coordinator.services.audit_seals import seal_events
from coordinator.services.audit_watches import watch_chain
from coordinator.services.cancels import cancel_task
from coordinator.services.epochs import set_intake
from coordinator.services.roll_ups import roll_up
from coordinator.states import Intake
from tests import world
from tests.races.crowd import at_once
from tests.services.test_pruning import LONG_AGO
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)

PROTECTED = ("auditlink", "auditchain")
ALICE = world.operator


@pytest.fixture
def by(transactional_db: None) -> Worker:
    world.queue()
    return world.worker()


def act(times: int = 1) -> None:
    """So many operator actions."""
    for number in range(times):
        intake = Intake.STOPPED if Event.objects.count() % 2 == 0 else Intake.OPEN
        for wanted in (intake, Intake.OPEN if intake == Intake.STOPPED else Intake.STOPPED):
            set_intake(queue="q", intake=wanted, reason=f"look {number}", actor=ALICE())


def sealed(times: int = 4) -> list[int]:
    """A chain of some actions: the events in its order."""
    act(times)
    seal_events()
    return list(AuditLink.objects.order_by("number").values_list("event_id", flat=True))


@contextmanager
def as_superuser() -> Iterator[Any]:
    """Past every trigger, as somebody may be who has the database itself."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield cursor


def fault(found: Verification) -> ChainFault:
    assert not found.holds
    assert found.fault is not None
    return found.fault


# --- what is sealed -------------------------------------------------------------------------------


def test_what_people_did_and_what_was_refused_is_chained_and_workers_work_is_not(
    by: Worker,
) -> None:
    world.submit(node("a"), node("b"), actor=by)
    claimed = world.claim_one(by=by)
    world.commit(claimed, by=by)
    late = world.claim_one(by=by)
    cancel_task(task_id=late.fence.task_id, reason="not wanted", actor=ALICE())
    assert isinstance(world.try_commit(late, by=by), Refusal)
    seal_events()
    chained = Event.objects.filter(link__isnull=False)
    kinds = set(chained.values_list("kind", flat=True))
    assert {"CANCELLED", "REFUSED"} <= kinds
    assert not kinds & {"SUBMITTED", "CLAIMED", "COMMITTED", "RUN_SETTLED"}
    assert verify_chain().holds


def test_an_empty_chain_holds_and_begins_with_nothing(by: Worker) -> None:
    assert verify_chain().holds
    head = read_head()
    assert (head.number, head.digest) == (0, GENESIS)


def test_the_chain_goes_on_where_it_stopped(by: Worker) -> None:
    events = sealed(2)
    before = read_head()
    assert seal_events() == 0
    more = sealed(2)
    assert more[: len(events)] == events
    numbers = list(AuditLink.objects.order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, len(more) + 1))
    found = verify_chain(first=before.number + 1, anchor=before.digest)
    assert (found.holds, found.links) == (True, len(more) - len(events))


def test_small_batches_make_the_same_chain(by: Worker) -> None:
    act(5)
    while seal_events(batch=2, max_steps=1):
        pass
    seal_events(batch=1)
    found = verify_chain()
    assert found.holds
    assert found.links == Event.objects.exclude(actor__startswith="worker:").count()


def test_a_refusal_that_is_repeated_later_stays_as_it_was_sealed(by: Worker) -> None:
    world.submit()
    claimed = world.claim_one(by=by)
    cancel_task(task_id=claimed.fence.task_id, reason="not wanted", actor=ALICE())
    world.try_commit(claimed, by=by)
    seal_events()
    links = AuditLink.objects.count()
    world.try_commit(claimed, by=by)
    seal_events()
    assert Event.objects.get(kind="REFUSED").repeats == 1
    assert AuditLink.objects.count() == links
    assert verify_chain().holds


def test_writers_at_once_are_sealed_once_each(by: Worker) -> None:
    calls: list[Callable[[], Any]] = [partial(act, 3) for _ in range(3)]
    calls += [seal_events, seal_events, seal_events]
    at_once(*calls)
    seal_events()
    unchained = Event.objects.filter(link__isnull=True).exclude(actor__startswith="worker:")
    assert not unchained.exclude(kind="RUN_SETTLED").exists()
    assert verify_chain().holds


def test_nothing_is_sealed_in_front_of_a_transaction_that_still_runs(by: Worker) -> None:
    """It may have drawn a lower number than what has been committed meanwhile."""
    early = (
        "INSERT INTO coordinator_event (kind, actor, request_id, at, data, repeats)"
        " VALUES ('ALARM', 'operator:early', '', clock_timestamp(), '{}', 0)"
    )
    with world.holding("SELECT set_config('tenure.point', 'test', true)") as holder:
        holder.execute(early)
        act(2)
        assert seal_events() == 0
        holder.execute("COMMIT")
    seal_events()
    order = list(AuditLink.objects.order_by("number").values_list("event__actor", flat=True))
    assert order[0] == "operator:early"
    assert verify_chain().holds


def test_a_database_that_was_loaded_from_a_dump_seals_on(by: Worker) -> None:
    sealed(2)
    with as_superuser() as cursor:  # transactions are numbered from a low number again
        cursor.execute("UPDATE coordinator_auditchain SET xid = '9000000000000000'::xid8")
    act(2)
    seal_events()
    assert not Event.objects.filter(link__isnull=True, actor__startswith="operator:").exists()
    assert verify_chain().holds


# --- what is meddled with -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'operator:mallory'",
        "at = at - interval '1 second'",
        "kind = 'INTAKE_OPENED_'",
        'data = data || \'{"reason": "another"}\'',
        "request_id = 'another'",
        "queue_id = queue_id + 1",
        "state_version = 7",
        "task_id = gen_random_uuid()",
    ],
)
def test_a_changed_row_is_named(by: Worker, change: str) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute(f"UPDATE coordinator_event SET {change} WHERE id = %s", [events[3]])
    found = fault(verify_chain())
    assert (found.misfit, found.number, found.event_id) == (Misfit.CHANGED, 4, events[3])


@pytest.mark.parametrize("last", [False, True])
def test_a_removed_row_is_named(by: Worker, last: bool) -> None:
    events = sealed()
    at = len(events) - 1 if last else 2
    with as_superuser() as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE id = %s", [events[at]])
    found = fault(verify_chain())
    assert (found.misfit, found.number, found.event_id) == (Misfit.REMOVED, at + 1, events[at])


@pytest.mark.parametrize("last", [False, True])
def test_a_row_that_was_removed_with_its_link_is_named(by: Worker, last: bool) -> None:
    events = sealed()
    at = len(events) - 1 if last else 2
    with as_superuser() as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE id = %s", [events[at]])
        cursor.execute("DELETE FROM coordinator_auditlink WHERE event_id = %s", [events[at]])
    found = fault(verify_chain())
    assert (found.misfit, found.number) == (Misfit.REMOVED, at + 1)


def test_a_row_that_was_removed_as_if_it_had_been_pruned_is_named(by: Worker) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE id = %s", [events[2]])
        cursor.execute(
            "UPDATE coordinator_auditlink SET pruned = true WHERE event_id = %s", [events[2]]
        )
    found = fault(verify_chain())
    assert (found.misfit, found.event_id) == (Misfit.REMOVED, events[2])


_FORGED = """
INSERT INTO coordinator_event (id, kind, actor, request_id, at, data, repeats{more})
SELECT {id}, 'ALARM', 'operator:mallory', '', at - interval '2 hours', '{{}}', 0{value} FROM coordinator_event
WHERE id = {before}
"""


def test_a_row_inserted_among_the_sealed_is_named(by: Worker) -> None:
    act(1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('coordinator_event_id_seq')")  # a number that nobody has
        ((free,),) = cursor.fetchall()
    events = sealed()
    assert min(events) < free < max(events)
    with as_superuser() as cursor:
        sql = _FORGED.format(id=free, before=events[0], more=", xid", value=", '3'::xid8")
        cursor.execute(sql)
    found = fault(verify_chain())
    assert (found.misfit, found.event_id) == (Misfit.INSERTED, free)


def test_a_row_that_is_told_as_older_than_its_neighbours_is_named(by: Worker) -> None:
    """Written now, as of two hours ago: it is sealed, and its instant does not fit its place."""
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute(_FORGED.format(id=max(events) + 1, before=events[0], more="", value=""))
    seal_events()
    found = fault(verify_chain())
    assert (found.misfit, found.event_id) == (Misfit.INSERTED, max(events) + 1)


def test_rows_that_changed_places_are_named(by: Worker) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET id = -id WHERE id = ANY(%s)", [[events[1], events[2]]]
        )
        for was, becomes in ((events[1], events[2]), (events[2], events[1])):
            cursor.execute("UPDATE coordinator_event SET id = %s WHERE id = %s", [becomes, -was])
    found = fault(verify_chain())
    assert (found.misfit, found.number) == (Misfit.CHANGED, 2)


def test_links_that_changed_places_are_named(by: Worker) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute("UPDATE coordinator_auditlink SET number = -number WHERE number IN (2, 3)")
        cursor.execute("UPDATE coordinator_auditlink SET number = 5 + number WHERE number < 0")
    found = fault(verify_chain())
    assert (found.misfit, found.number, found.event_id) == (Misfit.REORDERED, 2, events[2])


def test_a_change_that_was_covered_up_to_its_own_link_is_named_at_the_next(by: Worker) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET actor = 'operator:mallory' WHERE id = %s", [events[2]]
        )
        cursor.execute("DELETE FROM coordinator_auditlink WHERE number = 3")
        cursor.execute("UPDATE coordinator_auditchain SET number = 2, xid = '0'::xid8")
        cursor.execute(
            "UPDATE coordinator_auditchain SET digest ="
            " (SELECT digest FROM coordinator_auditlink WHERE number = 2)"
        )
    found = fault(verify_chain())
    assert (found.misfit, found.number) == (Misfit.INSERTED, 4)  # behind the end


def test_a_whole_chain_made_anew_does_not_fit_a_seal_that_was_kept(by: Worker) -> None:
    events = sealed()
    kept = read_head()
    with as_superuser() as cursor:
        cursor.execute(
            "UPDATE coordinator_event SET actor = 'operator:mallory' WHERE id = %s", [events[1]]
        )
        cursor.execute("DELETE FROM coordinator_auditlink")
        cursor.execute("DELETE FROM coordinator_auditchain")
    seal_events()
    assert verify_chain().holds
    found = fault(verify_chain(first=kept.number + 1, anchor=kept.digest))
    assert (found.misfit, found.number) == (Misfit.ANCHOR, kept.number)


def test_a_chain_that_was_cut_short_does_not_reach_a_seal_that_was_kept(by: Worker) -> None:
    sealed()
    kept = read_head()
    with as_superuser() as cursor:
        cursor.execute("DELETE FROM coordinator_auditlink WHERE number > 3")
        cursor.execute(
            "DELETE FROM coordinator_event WHERE id NOT IN (SELECT event_id FROM coordinator_auditlink)"
            " AND actor NOT LIKE 'worker:%'"
        )
        cursor.execute(
            "UPDATE coordinator_auditchain SET number = 3,"
            " digest = (SELECT digest FROM coordinator_auditlink WHERE number = 3)"
        )
    assert verify_chain().holds
    assert fault(verify_chain(first=kept.number + 1, anchor=kept.digest)).misfit is Misfit.REMOVED


def test_of_several_the_first_in_the_chain_is_named(by: Worker) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute("DELETE FROM coordinator_event WHERE id = %s", [events[5]])
        cursor.execute("UPDATE coordinator_event SET actor = 'x' WHERE id = %s", [events[1]])
    assert fault(verify_chain()).number == 2
    assert fault(verify_chain(first=3)).number == 6


def test_what_is_behind_the_range_is_not_looked_at(by: Worker) -> None:
    events = sealed()
    with as_superuser() as cursor:
        cursor.execute("UPDATE coordinator_event SET actor = 'x' WHERE id = %s", [events[6]])
    found = verify_chain(first=2, last=5)
    assert (found.holds, found.links, found.first, found.last) == (True, 4, 2, 5)


def test_a_long_chain_is_verified_in_parts(by: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    events = sealed()
    monkeypatch.setattr("coordinator.selectors.audit_chain.MAX_VERIFIED", 3)
    looked, first, anchor = 0, 1, None
    while True:
        part = verify_chain(first=first, anchor=anchor)
        assert part.holds
        looked += part.links
        if part.next_number is None:
            break
        first, anchor = part.next_number, part.digest
    assert looked == len(events)


def test_a_row_inserted_between_two_parts_is_named_too(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    act(1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('coordinator_event_id_seq')")
        ((free,),) = cursor.fetchall()
    events = sealed()
    before = max(number for number, event in enumerate(events, 1) if event < free)
    with as_superuser() as cursor:
        sql = _FORGED.format(id=free, before=events[0], more=", xid", value=", '3'::xid8")
        cursor.execute(sql)
    monkeypatch.setattr("coordinator.selectors.audit_chain.MAX_VERIFIED", before)
    part = verify_chain()
    assert (part.holds, part.next_number) == (True, before + 1)
    found = fault(verify_chain(first=before + 1, anchor=part.digest))
    assert (found.misfit, found.event_id) == (Misfit.INSERTED, free)


def test_a_look_over_too_many_events_ends_earlier_and_goes_on(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = sealed()
    monkeypatch.setattr("coordinator.selectors.audit_chain.MAX_IDS", 2)
    looked, first = 0, 1
    while True:
        part = verify_chain(first=first)
        assert part.holds
        assert part.links <= 5
        looked += part.links
        if part.next_number is None:
            break
        first = part.next_number
    assert looked == len(events)


# --- what is pruned in its time -------------------------------------------------------------------


def test_a_pruned_history_still_fits_and_from_a_kept_seal_too(
    by: Worker, settings: LazySettings
) -> None:
    settings.KEEP_RUNS_DAYS = 30
    identity.confirm_identity()
    run = world.submit(node("a"), node("b"))
    for name in ("a", "b"):
        cancel_task(task_id=world.task_id(run, name), reason="not wanted", actor=ALICE())
    act(2)
    seal_events()
    kept = read_head()
    roll_up()
    with as_superuser() as cursor:
        cursor.execute(
            "UPDATE coordinator_run SET finished_at = clock_timestamp() - make_interval(days => %s),"
            " state = 'CANCELLED'",
            [LONG_AGO],
        )
    pruned = pruning.prune(actor=ALICE())
    assert isinstance(pruned, pruning.Pruned)
    assert pruned.runs == 1
    assert AuditLink.objects.filter(pruned=True).count() >= 2
    act(1)
    seal_events()
    whole = verify_chain()
    assert (whole.holds, whole.pruned) == (True, AuditLink.objects.filter(pruned=True).count())
    assert verify_chain(first=kept.number + 1, anchor=kept.digest).holds


# --- what the database refuses, and what a line of an export needs --------------------------------


_AGAIN = (
    "INSERT INTO coordinator_auditlink (number, content, digest, sealed_at, event_id)"
    " SELECT number + 99, content, digest, sealed_at, event_id FROM coordinator_auditlink"
)


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        ("it is append-only", "UPDATE coordinator_auditlink SET digest = digest"),
        ("it is append-only", "DELETE FROM coordinator_auditlink"),
        ("auditlink_pkey", "INSERT INTO coordinator_auditlink SELECT * FROM coordinator_auditlink"),
        ("auditlink_event_id_key", _AGAIN),
        ("audit_chain_is_one", "UPDATE coordinator_auditchain SET id = 2"),
        ("audit_watch_is_one", "UPDATE coordinator_auditwatch SET id = 2"),
    ],
)
def test_the_database_refuses_to_change_what_is_sealed(by: Worker, rule: str, sql: str) -> None:
    sealed(1)
    watch_chain(actor=system("audit"))
    with pytest.raises(IntegrityError, match=rule), world.guarded(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert verify_chain().holds


@pytest.mark.parametrize("table", PROTECTED)
def test_a_link_that_names_no_point_is_refused(by: Worker, table: str) -> None:
    sealed(1)
    sql = f"INSERT INTO coordinator_{table} SELECT * FROM coordinator_{table}"
    with pytest.raises(IntegrityError, match="through the guard"), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(sql)
    assert AuditChain.objects.count() == 1


def test_a_link_tells_the_digest_before_it(by: Worker) -> None:
    events = sealed(2)
    found = links_of(events)
    assert found[events[0]].previous == GENESIS
    assert found[events[1]].previous == found[events[0]].digest
    assert links_of([10**9]) == {}
