"""What the database itself refuses about the shadow (contract 16), each rule tried by raw SQL."""

from datetime import timedelta

import psycopg.errors
import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from coordinator.models import ShadowRound
from coordinator.services.shadow_explanations import Explained, explain_round
from coordinator.shadow.words import RoundVerdict
from tests import world

from . import feeds
from .feeds import settle, tell

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = ["shadowsource", "shadowround", "shadowevent", "shadowexplanation"]


@pytest.fixture(autouse=True)
def crowded() -> None:
    """A settled mismatch, explained by itself and by its class, and an open round."""
    world.queue()
    by = feeds.feeder()
    tell("A claims 0", "B claims 9", "A commits 12", by=by, key="settled")
    settle()
    tell("A claims 0", by=by, key="open", ago=timedelta(seconds=5))
    found = ShadowRound.objects.get(task_key="settled")
    soon = timezone.now() + timedelta(days=1)
    for verdict, until in ((None, None), (RoundVerdict.DOUBLE_CLAIM, soon)):
        answer = explain_round(
            round_id=found.round_id,
            reason="known",
            actor=world.operator(),
            verdict=verdict,
            expires_at=until,
        )
        assert isinstance(answer, Explained), answer


def of(table: str, key: str, changes: str) -> str:
    return f"UPDATE coordinator_shadow{table} SET {changes} WHERE task_key = '{key}'"


def again(table: str, **changes: str) -> str:
    """Insert a copy of each row, with these columns changed."""
    columns = {
        "round": "round_id, queue_id, source, task_key, number, origin, events, too_late, opened_at, closes_at,"
        " check_at, settled_at, verdict, is_counted, mismatches, legacy_end, legacy_owner, claim_end, claim_owner",
        "event": "source, event_id, round_id, task_key, event, owner, at, body_digest, is_too_late, received_at",
        "explanation": "queue_id, round_id, verdict, is_of_class, triage, reason, owner, link, operator, at",
    }[table].split(", ")  # fmt: skip
    chosen = ", ".join(changes.get(column, column) for column in columns)
    into = f"coordinator_shadow{table}"
    return f"INSERT INTO {into} ({', '.join(columns)}) SELECT {chosen} FROM {into}"


NEW_ID = "gen_random_uuid()"
ATTEMPTS = [
    ("shadow_event_once", again("event")),
    ("shadow_event_kind", again("event", event_id="event_id || '2'", event="'EATEN'")),
    ("shadowevent_is_final", of("event", "settled", "at = at + interval '1 second'")),
    ("shadowevent_is_final", of("event", "open", "owner = 'C'")),
    ("shadowevent_is_final", of("event", "settled", "is_too_late = true")),
    ("shadowevent_never_deleted", "DELETE FROM coordinator_shadowevent"),
    ("shadow_round_number", again("round", round_id=NEW_ID)),
    ("shadow_round_one_open", again("round", round_id=NEW_ID, number="number + 1", verdict="NULL", settled_at="NULL")),
    ("shadow_round_settled_whole", of("round", "open", "settled_at = clock_timestamp()")),
    ("shadow_round_settled_whole", of("round", "open", "verdict = 'AGREE', settled_at = clock_timestamp()")),
    ("shadow_round_settled_whole", again("round", round_id=NEW_ID, number="9", verdict="'FINE'", settled_at="at_time()"
                                         ).replace("at_time()", "clock_timestamp()")),
    ("shadow_round_origin", of("round", "open", "origin = number + 1")),
    ("shadow_round_origin", of("round", "open", "origin = 0")),
    ("shadowround_verdict_is_final", of("round", "settled", "verdict = 'AGREE'")),
    ("shadowround_verdict_is_final", of("round", "settled", "mismatches = '[]'")),
    ("shadowround_verdict_is_final", of("round", "settled", "verdict = NULL, settled_at = NULL")),
    ("shadowround_never_deleted", "DELETE FROM coordinator_shadowround"),
    ("shadow_explanation_kind", again("explanation", verdict="'AGREE'", is_of_class="false")),
    ("shadow_explanation_kind", again("explanation", triage="'MAGIC'", is_of_class="false")),
    ("shadow_explanation_of_class_expires", again("explanation", is_of_class="true")),
    ("shadowexplanation_append_only", "UPDATE coordinator_shadowexplanation SET reason = 'another'"),
    ("shadowexplanation_append_only", "DELETE FROM coordinator_shadowexplanation"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "sql"), ATTEMPTS)
def test_the_database_refuses_each_attempt(rule: str, sql: str) -> None:
    before = world.fingerprint(*TABLES)
    with pytest.raises(IntegrityError) as refused, world.guarded(), connection.cursor() as cursor:
        cursor.execute(sql)
    cause = refused.value.__cause__
    assert isinstance(cause, psycopg.errors.IntegrityError)
    assert cause.diag.constraint_name == rule
    assert world.fingerprint(*TABLES) == before


def test_nothing_that_the_database_refuses_is_left_untried() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'u') AND conrelid = ANY(%s::regclass[])"
            " UNION SELECT indexrelid::regclass::text FROM pg_index"
            "   WHERE indisunique AND NOT indisprimary AND indrelid = ANY(%s::regclass[])"
            " UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = ANY(%s::regclass[])",
            [[f"coordinator_{table}" for table in TABLES]] * 3,
        )
        rules = {row[0] for row in cursor.fetchall()}
    assert rules == {rule for rule, _ in ATTEMPTS}


def test_what_is_pruned_may_be_deleted() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tenure.point', 'prune', true)")
        for table in ("shadowevent", "shadowround", "shadowexplanation"):
            cursor.execute(f"DELETE FROM coordinator_{table}")
    assert not ShadowRound.objects.exists()
