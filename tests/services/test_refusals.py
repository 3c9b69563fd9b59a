"""What the database itself refuses (contract 16): each trigger and constraint, tried by raw SQL.

The attempts run with an acceptance point named, as our own code would: what stops them is the
rule itself. `test_nothing_that_the_database_refuses_is_left_untried` keeps the list complete.
"""

import json
from datetime import timedelta
from typing import Any

import psycopg.errors
import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import Blob, BreakGlass, Credential, Queue, Task
from coordinator.services.answers import RequestKey
from coordinator.services.cancels import cancel_task
from coordinator.services.commits import commit_results
from coordinator.services.incidents import open_incident
from coordinator.services.memory import MemoryWrite
from coordinator.services.revisions import revise_task
from coordinator.services.runs import submit_run
from tests import world
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)

#: The tables of the first two migrations.
TABLES = [
    "queue",
    "pool",
    "downstream",
    "run",
    "dependency",
    "task",
    "serialscope",
    "attempt",
    "stagedresult",
    "blob",
    "canonicalcommit",
    "memorykey",
    "memoryfact",
    "event",
    "storedanswer",
    "credential",
    "operatortoken",
    "breakglass",
]
PROTECTED = [
    "task",
    "attempt",
    "run",
    "dependency",
    "stagedresult",
    "blob",
    "canonicalcommit",
    "memorykey",
    "memoryfact",
    "event",
]


@pytest.fixture(autouse=True)
def crowded() -> Worker:
    """A world with a row of every kind: committed, held, free, blocked, cancelled, superseded."""
    world.queue()
    world.downstream(name="mail", guarantee="GATED")
    by = world.worker()
    over = world.submit(name="over")
    world.finish(world.task_id(over, "a"), by=by)
    submit_run(
        queue="q",
        name="kept",
        metadata={},
        nodes=[node("other")],
        actor=world.operator(),
        request=RequestKey("s", "k" * 16, "sha256:1"),
    )
    run = world.submit(
        node("done"),
        node("held", serial_key="k"),
        node("mate", serial_key="k"),
        node("free"),
        node("waits", "held"),
        node("gone"),
        node("old"),
        name="main",
    )
    claimed = world.claim_one(by=by, of=world.task_id(run, "done"))
    item = world.commit_item(claimed)
    memory = (MemoryWrite("n", "k", 0, "1", digests.sha256(b"1")),)
    commit_results(items=[type(item)(**{**_fields(item), "memory": memory})], worker=by, queue=None)
    held = world.claim_one(by=by, of=world.task_id(run, "held"))
    world.stage(held, by=by)
    cancel_task(task_id=world.task_id(run, "gone"), reason="r", actor=world.operator())
    cancel_task(
        task_id=world.task_id(run, "done"), reason="refused, and recorded", actor=world.operator()
    )
    revise_task(
        task_id=world.task_id(run, "old"),
        expected_state_version=1,
        input=2,
        reason="r",
        actor=world.operator(),
    )
    with world.guarded():
        Blob.objects.create(
            attempt_id=held.fence.attempt_id, name="b", digest="sha256:0", size_bytes=1, path="p"
        )
    open_incident(queues=["q"], reason="so that intake is held", actor=world.operator())
    return by


def _fields(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}


# --- the attempts ---------------------------------------------------------------------------------


def of(name: str) -> str:
    """The newest task of a node."""
    return f"(SELECT task_id FROM coordinator_task WHERE node_id = '{name}' ORDER BY revision DESC LIMIT 1)"


def task(name: str, changes: str) -> str:
    return f"UPDATE coordinator_task SET {changes} WHERE task_id = {of(name)}"


def attempt(name: str, changes: str) -> str:
    return f"UPDATE coordinator_attempt SET {changes} WHERE task_id = {of(name)}"


def queue(changes: str) -> str:
    return f"UPDATE coordinator_queue SET {changes}"


def copy(table: str, where: str, /, **changes: Any) -> str:
    """Insert a row like another one, but for `changes`."""
    return (
        f"INSERT INTO coordinator_{table} SELECT (jsonb_populate_record(t, '{json.dumps(changes)}')).*"
        f" FROM coordinator_{table} t WHERE {where} LIMIT 1"
    )


NEW = "00000000-0000-7000-8000-000000000001"
OTHER = "00000000-0000-7000-8000-000000000002"


def like(name: str, **changes: Any) -> str:
    return copy("task", f"task_id = {of(name)}", **({"task_id": NEW, "node_id": "new"} | changes))


def commit_for_held(changes: str) -> str:
    """A canonical commit of the held task whose grant is not the task's."""
    return (
        "INSERT INTO coordinator_canonicalcommit SELECT (jsonb_populate_record(c, to_jsonb(x))).* FROM"
        " coordinator_canonicalcommit c, (SELECT t.task_id, t.attempt_id, t.claim_generation, t.scheduler_epoch,"
        f" t.input_digest, '{NEW}'::uuid AS result_commit_id FROM coordinator_task t WHERE t.task_id = {of('held')}) h"
        f" CROSS JOIN LATERAL (SELECT h.task_id, h.result_commit_id, {changes}) x LIMIT 1"
    )


ATTEMPTS: list[tuple[str, str]] = [
    # the arrows
    ("task_arrows", task("free", "state = 'COMMITTED', state_version = state_version + 1")),
    ("task_arrows", task("done", "state = 'READY', state_version = state_version + 1")),
    ("task_arrows", task("waits", "state = 'CLAIMED', state_version = state_version + 1")),
    ("task_arrows", task("gone", "state = 'CLAIMED', state_version = state_version + 1")),
    (
        "task_arrows",
        "UPDATE coordinator_task SET state = 'READY', state_version = 9 WHERE state = 'SUPERSEDED'",
    ),
    ("attempt_arrows", attempt("done", "state = 'EXPIRED'")),
    ("attempt_arrows", attempt("held", "state = 'FENCED', ended_at = now()")),
    ("run_arrows", "UPDATE coordinator_run SET state = 'FAILED' WHERE name = 'over'"),
    # the counters
    ("task_counters_only_rise", task("held", "state_version = state_version - 1")),
    ("task_counters_only_rise", task("gone", "cancel_generation = cancel_generation - 1")),
    ("task_counters_only_rise", task("held", "claim_generation = claim_generation - 1")),
    ("task_counters_only_rise", task("held", "scheduler_epoch = scheduler_epoch - 1")),
    ("task_generation_by_one", task("held", "claim_generation = claim_generation + 2")),
    ("task_grant_takes_generation", task("held", "attempt_id = gen_random_uuid()")),
    ("task_change_takes_version", task("held", "state = 'FAILED'")),
    ("task_counters", like("free", max_attempts=0)),
    ("task_counters", like("waits", pending_dependencies=-1)),
    ("task_counters", like("free", state_version=0)),
    ("queue_epoch_only_rises", queue("scheduler_epoch = scheduler_epoch - 1")),
    # what never changes
    ("task_is_immutable", task("free", "input = '1'")),
    ("task_is_immutable", task("free", "input_digest = 'sha256:0'")),
    ("task_is_immutable", task("free", "node_id = 'renamed'")),
    ("task_is_immutable", task("free", "kind = 'other'")),
    ("task_is_immutable", task("free", "revision = 2")),
    ("task_is_immutable", task("free", "run_id = run_id - 1")),
    ("task_is_immutable", task("free", "queue_id = queue_id + 1")),
    ("task_is_immutable", task("free", """slots = '{"s": "mail"}'""")),
    ("task_is_immutable", task("free", "replay = 'REPLAYABLE'")),
    ("task_result_is_final", task("done", "result_commit_id = NULL")),
    ("task_result_is_final", task("done", "result_commit_id = gen_random_uuid()")),
    ("attempt_grant_is_final", attempt("held", "owner = 'another'")),
    ("attempt_grant_is_final", attempt("held", "credential_id = credential_id + 1")),
    ("attempt_grant_is_final", attempt("held", "claim_generation = claim_generation + 1")),
    ("attempt_grant_is_final", attempt("held", "scheduler_epoch = scheduler_epoch + 1")),
    ("attempt_grant_is_final", attempt("held", "cancel_generation = cancel_generation + 1")),
    ("attempt_grant_is_final", attempt("held", f"task_id = {of('free')}")),
    ("stagedresult_is_final", "UPDATE coordinator_stagedresult SET result = '1'"),
    ("canonicalcommit_append_only", "UPDATE coordinator_canonicalcommit SET result = '1'"),
    ("canonicalcommit_append_only", "DELETE FROM coordinator_canonicalcommit"),
    ("memoryfact_append_only", "UPDATE coordinator_memoryfact SET value = '2'"),
    ("memoryfact_append_only", "DELETE FROM coordinator_memoryfact"),
    ("event_append_only", "UPDATE coordinator_event SET data = '{}'"),
    ("event_append_only", "UPDATE coordinator_event SET actor = 'operator:nobody'"),
    ("event_append_only", "UPDATE coordinator_event SET at = now()"),
    ("event_append_only", "UPDATE coordinator_event SET repeats = repeats - 1"),
    ("event_never_deleted", "DELETE FROM coordinator_event"),
    # one canonical commit per task, and the current attempt's
    (
        "coordinator_canonicalcommit_task_id_key",
        copy("canonicalcommit", f"task_id = {of('done')}", result_commit_id=NEW),
    ),
    ("canonicalcommit_matches_task", commit_for_held("h.attempt_id, 9 AS claim_generation")),
    (
        "canonicalcommit_matches_task",
        commit_for_held("h.attempt_id, h.claim_generation, 9 AS scheduler_epoch, h.input_digest"),
    ),
    (
        "canonicalcommit_matches_task",
        commit_for_held(
            f"'{OTHER}'::uuid AS attempt_id, h.claim_generation, h.scheduler_epoch, h.input_digest"
        ),
    ),
    (
        "canonicalcommit_matches_task",
        commit_for_held(
            "h.attempt_id, h.claim_generation, h.scheduler_epoch, 'sha256:0'::text AS input_digest"
        ),
    ),
    (
        "commit_has_one_result",
        copy("canonicalcommit", f"task_id = {of('done')}", result_commit_id=NEW, result=None),
    ),
    # what a state means
    ("task_state", like("waits", state="LOST")),
    ("task_replay", like("free", replay="SOMETIMES")),
    ("task_claimed_has_attempt", like("held", attempt_id=None, serial_scope_id=None)),
    ("task_claimed_has_attempt", like("held", lease_expires_at=None, serial_scope_id=None)),
    ("task_claimed_holds_serial", task("held", "serial_held = false")),
    ("task_committed_has_result", like("free", result_commit_id=NEW)),
    ("task_committed_has_result", like("done", result_commit_id=None)),
    ("task_ready_is_claimable", task("free", "claimable_at = NULL")),
    ("task_ready_is_claimable", task("free", "pending_dependencies = 1")),
    ("task_only_open_is_claimable", task("waits", "claimable_at = now()")),
    ("task_serial_holder", task("mate", "serial_held = true")),
    ("task_node_revision", like("free", node_id="free")),
    ("task_one_successor", like("old", revision=3)),
    (
        "attempt_state",  # of one that has ended: another rule speaks first of one that has not
        copy("attempt", "state = 'COMMITTED'", attempt_id=NEW, state="LOST", claim_generation=9),
    ),
    ("attempt_ended", attempt("held", "ended_at = now()")),
    ("attempt_ended", attempt("held", "state = 'FAILED'")),
    ("attempt_generation", copy("attempt", "true", attempt_id=NEW)),
    ("run_state", copy("run", "state = 'COMMITTED'", id=999, run_id=NEW, state="LOST")),
    ("run_finished", "UPDATE coordinator_run SET finished_at = now() WHERE state = 'ACTIVE'"),
    ("run_finished", "UPDATE coordinator_run SET state = 'FAILED' WHERE state = 'ACTIVE'"),
    ("coordinator_run_run_id_key", copy("run", "true", id=999)),
    # names that are taken
    ("staged_result", copy("stagedresult", "true", id=999)),
    ("blob_name", copy("blob", "true", id=999)),
    ("memory_key", copy("memorykey", "true", id=999)),
    ("memory_version", copy("memoryfact", "true", id=999)),
    ("event_refusal_once", copy("event", "refusal_key IS NOT NULL", id=999)),
    ("stored_answer", copy("storedanswer", "true", id=999)),
    ("serial_scope_token", copy("serialscope", "true", id=999)),
    ("coordinator_queue_name_key", copy("queue", "true", id=999)),
    ("coordinator_downstream_name_key", copy("downstream", "true", id=999)),
    ("coordinator_credential_credential_id_key", copy("credential", "true", id=999, prefix="p")),
    ("coordinator_credential_prefix_key", copy("credential", "true", id=999, credential_id=NEW)),
    ("coordinator_operatortoken_prefix_key", copy("operatortoken", "true", id=999)),
    # policies
    ("queue_intake", queue("intake = 'HALF'")),
    ("queue_intake_in_incident", queue("intake = 'OPEN'")),
    ("queue_intake_share", queue("intake = 'STOPPED', intake_share = -1")),
    ("queue_share_in_incident", queue("intake = 'STOPPED', intake_share = 10")),
    ("queue_stage", queue("rollout_stage = 'SOON'")),
    ("queue_lease_policy", queue("default_ttl_seconds = 4")),
    ("queue_lease_policy", queue("max_ttl_seconds = default_ttl_seconds - 1")),
    ("queue_lease_policy", queue("max_lease_seconds = max_ttl_seconds - 1")),
    ("queue_retry_policy", queue("max_attempts = 0")),
    ("queue_retry_policy", queue("retry_backoff_max_seconds = retry_backoff_seconds - 1")),
    ("queue_shadow_policy", queue("shadow_settle_seconds = -1")),
    ("queue_shadow_policy", queue("promotion_rounds = 0")),
    ("downstream_guarantee", "UPDATE coordinator_downstream SET guarantee = 'HOPE'"),
    ("downstream_key_validity", "UPDATE coordinator_downstream SET guarantee = 'IDEMPOTENT_KEY'"),
    ("downstream_seconds", "UPDATE coordinator_downstream SET call_timeout_seconds = 0"),
    ("downstream_approvers", "UPDATE coordinator_downstream SET required_approvers = 3"),
]


def test_the_database_refuses_each_attempt(
    subtests: pytest.Subtests, django_user_model: Any
) -> None:
    user = django_user_model.objects.create(username="olga")
    user.tenure_tokens.create(prefix="taken", token_sha256=b"0" * 32)
    before = world.fingerprint(*TABLES)
    for rule, sql in ATTEMPTS:
        with subtests.test(rule, sql=sql):
            with pytest.raises(IntegrityError) as refusal, world.guarded():
                _execute(sql)
            cause = refusal.value.__cause__
            assert isinstance(cause, psycopg.errors.IntegrityError)
            assert cause.diag.constraint_name == rule
            assert world.fingerprint(*TABLES) == before


@pytest.mark.parametrize("verb", ["INSERT", "UPDATE", "DELETE"])
def test_a_write_that_names_no_acceptance_point_is_refused(
    subtests: pytest.Subtests, verb: str
) -> None:
    before = world.fingerprint(*TABLES)
    for table in PROTECTED:
        sql = {
            "INSERT": f"INSERT INTO coordinator_{table} SELECT * FROM coordinator_{table}",
            "UPDATE": f"UPDATE coordinator_{table} SET {_any_column(table)} = {_any_column(table)}",
            "DELETE": f"DELETE FROM coordinator_{table}",
        }[verb]
        with subtests.test(table):
            with pytest.raises(IntegrityError) as refusal, transaction.atomic():
                _execute(sql)
            assert isinstance(refusal.value.__cause__, psycopg.errors.CheckViolation)
            assert refusal.value.__cause__.diag.constraint_name == _first_to_fire(table, verb)
            assert world.fingerprint(*TABLES) == before


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _first_to_fire(table: str, verb: str) -> str:
    """Triggers fire in the order of their names; what is append-only is refused on that account first."""
    if table in {"canonicalcommit", "memoryfact"} and verb != "INSERT":
        return f"{table}_append_only"
    return (
        "event_never_deleted"
        if (table, verb) == ("event", "DELETE")
        else f"{table}_through_the_guard"
    )


def _any_column(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attidentity = ''"
            " AND attgenerated = '' AND NOT attisdropped ORDER BY attnum LIMIT 1",
            [f"coordinator_{table}"],
        )
        return str(cursor.fetchall()[0][0])


def test_the_orm_gets_no_further_than_raw_sql() -> None:
    with pytest.raises(IntegrityError):
        Task.objects.filter(node_id="free").update(priority=1)
    with pytest.raises(IntegrityError):
        Task.objects.get(node_id="free").save()
    with pytest.raises(IntegrityError):
        Task.objects.filter(node_id="free").delete()


def test_a_point_ends_with_its_transaction() -> None:
    with world.guarded():
        Task.objects.filter(node_id="free").update(priority=1)
    with pytest.raises(IntegrityError):
        Task.objects.filter(node_id="free").update(priority=2)


def test_nothing_that_the_database_refuses_is_left_untried() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'u') AND conrelid = ANY(%s::regclass[])"
            " UNION SELECT indexrelid::regclass::text FROM pg_index"
            "   WHERE indisunique AND NOT indisprimary AND indrelid = ANY(%s::regclass[])"
            " UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = ANY(%s::regclass[])"
            "   AND tgname !~ '_counted_(insert|update|delete)$'",  # they count, and refuse nothing
            [[f"coordinator_{table}" for table in TABLES]] * 3,
        )
        rules = {row[0] for row in cursor.fetchall()}
    assert rules - {rule for rule, _ in ATTEMPTS} == {
        f"{table}_through_the_guard" for table in PROTECTED
    }
    assert {rule for rule, _ in ATTEMPTS} <= rules


# --- break glass ----------------------------------------------------------------------------------


def _write_with(session: int, sql: str = task("free", "priority = 5")) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tenure.break_glass', %s, true)", [str(session)])
        cursor.execute(sql)


def test_an_open_break_glass_session_may_write_and_is_counted() -> None:
    session = BreakGlass.objects.create(
        opened_by="operator:olga", reason="r", expires_at=timezone.now() + timedelta(hours=1)
    )
    _write_with(session.pk)
    session.refresh_from_db()
    assert (Task.objects.get(node_id="free").priority, session.writes) == (5, 1)


@pytest.mark.parametrize("ended", ["closed", "expired", "unknown"])
def test_a_break_glass_session_that_is_over_opens_nothing(ended: str) -> None:
    now, hour = timezone.now(), timedelta(hours=1)
    session = BreakGlass.objects.create(
        opened_by="operator:olga",
        reason="r",
        expires_at=now - hour if ended == "expired" else now + hour,
        closed_at=now if ended == "closed" else None,
    )
    with pytest.raises(IntegrityError):
        _write_with(session.pk + (ended == "unknown"))
    session.refresh_from_db()
    assert (Task.objects.get(node_id="free").priority, session.writes) == (0, 0)


def test_break_glass_gets_nobody_past_the_other_rules() -> None:
    session = BreakGlass.objects.create(
        opened_by="operator:olga", reason="r", expires_at=timezone.now() + timedelta(hours=1)
    )
    for sql in (
        task("done", "state = 'READY', state_version = 9"),
        "DELETE FROM coordinator_event",
    ):
        with pytest.raises(IntegrityError):
            _write_with(session.pk, sql)


def test_what_is_not_protected_is_written_by_its_services_alone() -> None:
    """Registers need no point: they hold no grant and no result."""
    assert Queue.objects.update(max_attempts=3) == 1
    assert Credential.objects.update(name="renamed") >= 1
