"""What the database itself refuses about requests for a promotion (contract 16), each rule tried by raw SQL."""

import psycopg.errors
import pytest
from django.db import IntegrityError, connection, transaction

from coordinator.selectors import promotion
from coordinator.services.promotions import withdraw_promotion
from coordinator.states import RolloutStage
from tests import world

from . import feeds
from .promoting import BOB, asked

pytestmark = pytest.mark.django_db(transaction=True)

PROTECTED = ["promotionrequest"]
_TABLE = "coordinator_promotionrequest"


@pytest.fixture(autouse=True)
def two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands and one that is over."""
    monkeypatch.setattr(promotion, "MEASURED_ELSEWHERE", ())
    world.queue(rollout_stage=RolloutStage.SHADOW, promotion_rounds=1)
    feeds.tell("A claims 0", "A commits 9 r", by=feeds.feeder(), key="one")
    feeds.settle()
    over = asked(RolloutStage.SHADOW)
    withdraw_promotion(request_id=over.request_id, reason="not yet", actor=BOB)
    asked(RolloutStage.SHADOW)


def change(state: str, changes: str) -> str:
    return f"UPDATE {_TABLE} SET {changes} WHERE state = '{state}'"


def again(**changes: str) -> str:
    """A copy of the request that stands, with these columns changed."""
    columns = (
        "request_id, queue_id, state, from_stage, to_stage, scheduler_epoch, evidence, evidence_digest, reason, "
        "requested_by, requested_by_id, requested_at, expires_at, ended_at, is_alone"
    )
    told = {"request_id": "gen_random_uuid()"} | changes
    chosen = ", ".join(told.get(column, column) for column in columns.split(", "))
    return f"INSERT INTO {_TABLE} ({columns}) SELECT {chosen} FROM {_TABLE} WHERE state = 'ASKED'"


ATTEMPTS = [
    (
        "promotionrequest_arrows",
        change("WITHDRAWN", "state = 'CONFIRMED'"),
    ),
    ("promotionrequest_arrows", change("WITHDRAWN", "state = 'ASKED', ended_at = NULL")),
    *(
        ("promotionrequest_is_bound", change("ASKED", told))
        for told in (
            "to_stage = 'CONDITIONAL_WRITES'",
            "from_stage = 'IDEMPOTENT_READS'",
            "scheduler_epoch = 2",
            "evidence = '{}'",
            "evidence_digest = 'sha256:0'",
            "reason = 'another'",
            "requested_by = 'operator:bob'",
            "requested_by_id = 2",
            "expires_at = expires_at + interval '1 day'",
        )
    ),
    ("promotionrequest_is_bound", change("WITHDRAWN", "ended_by = 'operator:alice'")),
    ("promotionrequest_is_bound", change("WITHDRAWN", "is_alone = true")),
    ("promotionrequest_is_kept", f"DELETE FROM {_TABLE}"),
    ("promotionrequest_state", again(state="'PERHAPS'", ended_at="now()")),
    ("promotionrequest_ended", again(ended_at="now()")),
    ("promotionrequest_ended", again(state="'VOID'")),
    ("promotionrequest_one_open", again()),
]


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_the_database_refuses_each_attempt(subtests: pytest.Subtests) -> None:
    before = world.fingerprint(*PROTECTED)
    for rule, sql in ATTEMPTS:
        with subtests.test(rule, sql=sql):
            with pytest.raises(IntegrityError) as refusal, world.guarded():
                _execute(sql)
            cause = refusal.value.__cause__
            assert isinstance(cause, psycopg.errors.IntegrityError)
            assert cause.diag.constraint_name == rule
            assert world.fingerprint(*PROTECTED) == before


def test_a_write_that_names_no_point_is_refused() -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        _execute(change("ASKED", "state = 'VOID', ended_at = now()"))
    assert isinstance(refusal.value.__cause__, psycopg.errors.CheckViolation)
    assert refusal.value.__cause__.diag.constraint_name == "promotionrequest_through_the_guard"


def test_nothing_that_the_database_refuses_is_left_untried() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'u') AND conrelid = %s::regclass"
            " UNION SELECT indexrelid::regclass::text FROM pg_index"
            "   WHERE indisunique AND NOT indisprimary AND indrelid = %s::regclass"
            " UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = %s::regclass",
            [_TABLE] * 3,
        )
        rules = {row[0] for row in cursor.fetchall()}
    assert rules == {rule for rule, _ in ATTEMPTS} | {"promotionrequest_through_the_guard"}
