"""What the database itself refuses about effects and approvals (contract 16), each rule tried by raw SQL.

The attempts run with an acceptance point named, as our own code would: what stops them is the rule itself. The last
test keeps the list complete. That the arrows are those of states.py is in test_states.py.
"""

import psycopg.errors
import pytest
from django.db import IntegrityError, connection, transaction

from coordinator.actors import Worker
from coordinator.models import Approval, Decision, Dispatch, EffectSlot, Evidence, LookUp
from coordinator.services.acceptances import Accepted
from coordinator.services.approvals import reject
from coordinator.services.effect_rows import EffectView
from coordinator.services.effects import Prepared
from coordinator.services.grants import Claim
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.effects.ledger import SLOT
from tests.services.test_refusals import NEW, copy

pytestmark = pytest.mark.django_db(transaction=True)

#: The tables of migration 0003, all of them protected; in an order in which their rows can be deleted.
PROTECTED = ["decision", "approval", "evidence", "lookup", "dispatch", "effectslot"]
APPEND_ONLY = {"evidence", "decision", "lookup"}
#: Each node is named after what became of its effect, and goes to a downstream of this guarantee.
NODES = {
    "prepared": Guarantee.IDEMPOTENT_KEY,
    "redeemed": Guarantee.GATED,
    "closed": Guarantee.GATED,
    "unknown": Guarantee.CONDITIONAL_WRITE,
    "resendable": Guarantee.CONDITIONAL_WRITE,
    "committed": Guarantee.CONDITIONAL_WRITE,
    "refused": Guarantee.CONDITIONAL_WRITE,
    "void": Guarantee.CONDITIONAL_WRITE,
    "asked": Guarantee.NONE,
    "granted": Guarantee.NONE,
    "used": Guarantee.NONE,
    "rejected": Guarantee.NONE,
}


@pytest.fixture(autouse=True)
def crowded() -> None:
    """A world with an effect in every state, and an approval in every one that matters."""
    world.queue(max_attempts=100)
    by = world.worker()
    for guarantee in set(NODES.values()):
        ledger.register(guarantee, name=str(guarantee))
    slots = {name: {SLOT: str(guarantee)} for name, guarantee in NODES.items()}
    run = world.submit(*(world.node(name, slots=slots[name], kind=name) for name in NODES))
    at = {name: world.task_id(run, name) for name in NODES}
    effects: dict[str, tuple[Claim, EffectView]] = {}
    for name, guarantee in NODES.items():
        claim = world.claim_one(by=by, of=at[name])
        answer = ledger.try_prepare(claim, by=by, downstream=str(guarantee))
        assert isinstance(answer, Prepared), answer
        effects[name] = claim, answer.effect

    def send(name: str) -> Accepted:
        claim, effect = effects[name]
        return ledger.accept(effect, claim.fence, by=by)

    def report(name: str, outcome: DispatchOutcome) -> None:
        claim, effect = effects[name]
        ledger.report(effect, claim, send(name), outcome, by=by)

    ledger.redeem(effects["redeemed"][1], send("redeemed"))
    send("closed")
    world.lapse(at["closed"])
    world.claim_one(by=by, of=at["closed"])
    report("unknown", DispatchOutcome.UNKNOWN)
    report("resendable", DispatchOutcome.UNKNOWN)
    ledger.absent(effects["resendable"][1], by=by, fence=effects["resendable"][0].fence)
    report("committed", DispatchOutcome.COMMITTED)
    report("refused", DispatchOutcome.REFUSED)
    world.commit(effects["void"][0], by=by)
    for name in ("asked", "granted", "rejected", "used"):  # at last: then the scope is busy
        _decide(name, *effects[name], by=by)


def _decide(name: str, claim: Claim, effect: EffectView, *, by: Worker) -> None:
    asked = ledger.approval(ledger.try_accept(effect, claim.fence, by=by))
    if name in ("granted", "used"):
        ledger.say_yes(asked)
    if name == "used":
        ledger.accept(effect, world.claim_one(by=by, of=claim.fence.task_id).fence, by=by)
    if name == "rejected":
        reject(
            approval_id=asked.approval_id,
            payload_digest=asked.payload_digest,
            reason="not that",
            actor=ledger.person("paula"),
        )


def test_the_world_has_a_row_of_every_kind() -> None:
    assert set(EffectSlot.objects.values_list("state", flat=True)) == {
        "PREPARED", "ACCEPTED", "UNKNOWN", "RESENDABLE", "COMMITTED", "VOID",
    }  # fmt: skip
    assert set(Approval.objects.values_list("state", flat=True)) == {
        "PENDING", "APPROVED", "CONSUMED", "REJECTED",
    }  # fmt: skip
    assert set(Dispatch.objects.values_list("outcome", flat=True)) == {
        None, "UNKNOWN", "COMMITTED", "REFUSED",
    }  # fmt: skip
    assert Decision.objects.count() == 3
    assert LookUp.objects.exists()
    assert Evidence.objects.exists()


# --- the attempts ---------------------------------------------------------------------------------


def effect(name: str, changes: str) -> str:
    return f"UPDATE coordinator_effectslot SET {changes} WHERE node_id = '{name}'"


def of(name: str) -> str:
    return f"(SELECT effect_id FROM coordinator_effectslot WHERE node_id = '{name}')"


def dispatch(name: str, changes: str) -> str:
    return f"UPDATE coordinator_dispatch SET {changes} WHERE effect_id = {of(name)}"


def approval(name: str, changes: str) -> str:
    return f"UPDATE coordinator_approval SET {changes} WHERE effect_id = {of(name)}"


ATTEMPTS: list[tuple[str, str]] = [
    # the arrows
    ("effectslot_arrows", effect("committed", "state = 'PREPARED'")),
    ("effectslot_arrows", effect("committed", "state = 'UNKNOWN'")),
    ("effectslot_arrows", effect("void", "state = 'PREPARED'")),
    ("effectslot_arrows", effect("unknown", "state = 'VOID'")),
    ("effectslot_arrows", effect("unknown", "state = 'ACCEPTED'")),
    ("effectslot_arrows", effect("redeemed", "state = 'VOID'")),
    ("effectslot_arrows", effect("redeemed", "state = 'RESENDABLE'")),
    ("effectslot_arrows", effect("resendable", "state = 'VOID'")),
    (
        "effectslot_arrows",
        effect("refused", "state = 'COMMITTED', receipt = '1', settled_at = now()"),
    ),
    ("effectslot_arrows", effect("refused", "state = 'RESENDABLE'")),
    ("approval_arrows", approval("asked", "state = 'CONSUMED'")),
    ("approval_arrows", approval("granted", "state = 'PENDING'")),
    ("approval_arrows", approval("granted", "state = 'REJECTED'")),
    ("approval_arrows", approval("used", "state = 'APPROVED'")),
    ("approval_arrows", approval("used", "state = 'VOID'")),
    ("approval_arrows", approval("rejected", "state = 'APPROVED'")),
    ("approval_arrows", approval("rejected", "state = 'PENDING'")),
    # what is bound
    ("effectslot_payload_is_bound", effect("prepared", "payload = '1'")),
    ("effectslot_payload_is_bound", effect("prepared", "payload_digest = 'sha256:0'")),
    ("effectslot_payload_is_bound", effect("prepared", "condition = '1'")),
    ("effectslot_payload_is_bound", effect("prepared", "downstream = 'NONE'")),
    ("effectslot_payload_is_bound", effect("prepared", "slot = 'other'")),
    ("effectslot_payload_is_bound", effect("prepared", "node_id = 'other'")),
    ("effectslot_payload_is_bound", effect("prepared", "guarantee = 'GATED'")),
    (
        "effectslot_payload_is_bound",
        effect(
            "prepared", "task_id = (SELECT task_id FROM coordinator_task WHERE node_id = 'void')"
        ),
    ),
    ("effectslot_payload_is_bound", effect("granted", "is_exclusive = false")),
    ("approval_is_bound", approval("granted", "payload_digest = 'sha256:0'")),
    ("approval_is_bound", approval("granted", "dispatch_number = 2")),
    ("approval_is_bound", approval("granted", f"effect_id = {of('prepared')}")),
    ("approval_is_bound", approval("asked", "required_approvers = 0")),
    # what is on file
    ("effectslot_evidence_only_grows", effect("unknown", "dispatches = dispatches - 1")),
    ("effectslot_evidence_only_grows", effect("unknown", "dispatches = dispatches + 2")),
    ("effectslot_evidence_only_grows", effect("committed", "receipt = '\"another\"'")),
    ("effectslot_evidence_only_grows", effect("committed", "receipt = NULL")),
    ("effectslot_evidence_only_grows", effect("unknown", "first_accepted_at = now()")),
    ("effectslot_evidence_only_grows", effect("unknown", "first_accepted_at = NULL")),
    ("evidence_append_only", "UPDATE coordinator_evidence SET said = 'COMMITTED'"),
    ("evidence_append_only", "DELETE FROM coordinator_evidence"),
    ("lookup_append_only", "UPDATE coordinator_lookup SET started_at = now()"),
    ("lookup_append_only", "DELETE FROM coordinator_lookup"),
    ("decision_append_only", "UPDATE coordinator_decision SET decision = 'REJECTED'"),
    ("decision_append_only", "DELETE FROM coordinator_decision"),
    ("dispatch_is_final", dispatch("unknown", "number = 2")),
    ("dispatch_is_final", dispatch("unknown", "call_deadline = now() + interval '1 hour'")),
    ("dispatch_is_final", dispatch("unknown", "attempt_id = gen_random_uuid()")),
    ("dispatch_is_final", dispatch("unknown", f"effect_id = {of('prepared')}")),
    ("dispatch_is_final", dispatch("unknown", "outcome = NULL")),
    ("dispatch_is_final", dispatch("committed", "outcome = 'UNKNOWN'")),
    ("dispatch_is_final", dispatch("refused", "outcome = 'COMMITTED'")),
    ("dispatch_is_final", dispatch("redeemed", "redeemed_at = NULL, redeem_id = NULL")),
    ("dispatch_is_final", dispatch("redeemed", "redeemed_at = now() + interval '1 second'")),
    ("dispatch_is_final", dispatch("closed", "closed_at = NULL")),
    ("dispatch_is_final", dispatch("closed", "redeemed_at = now(), redeem_id = 'late'")),
    # what a state means
    (
        "effect_state",
        copy("effectslot", "node_id = 'unknown'", effect_id="x", slot="x", state="LOST"),
    ),
    (
        "effect_committed_has_receipt",
        copy("effectslot", "node_id = 'committed'", effect_id="x", slot="x", receipt=None),
    ),
    (
        "effect_committed_has_receipt",
        copy("effectslot", "node_id = 'committed'", effect_id="x", slot="x", settled_at=None),
    ),
    (
        "effect_out_has_dispatch",
        copy("effectslot", "node_id = 'unknown'", effect_id="x", slot="x", dispatches=0),
    ),
    ("dispatch_outcome", dispatch("redeemed", "outcome = 'PERHAPS'")),
    ("dispatch_redeemed_once", dispatch("used", "redeemed_at = now()")),
    ("dispatch_redeemed_once", dispatch("used", "redeem_id = 'r'")),
    (
        "approval_state",
        copy("approval", "state = 'REJECTED'", approval_id=NEW, state="MAYBE", reason_code=None),
    ),
    (
        "approval_approvers",
        copy("approval", "state = 'REJECTED'", approval_id=NEW, required_approvers=3),
    ),
    (
        "approval_reason_code",
        copy("approval", "state = 'REJECTED'", approval_id=NEW, reason_code="MOOD"),
    ),
    ("approval_reason_code", approval("used", "reason_code = 'OTHER'")),
    ("approval_passed_by_somebody", approval("asked", "assigned_by = 'operator:x'")),
    # one of each
    ("effect_slot", copy("effectslot", "node_id = 'void'", effect_id="x")),
    (
        "effect_one_out_per_scope",  # `used` may be out at the same downstream
        effect("granted", "state = 'ACCEPTED', dispatches = 1, accepted_at = now()"),
    ),
    ("dispatch_number", copy("dispatch", "true", dispatch_id=NEW)),
    ("approval_one_open", copy("approval", "state = 'PENDING'", approval_id=NEW)),
    ("approval_one_open", copy("approval", "state = 'APPROVED'", approval_id=NEW, state="PENDING")),
    ("approval_consumed_once", copy("approval", "state = 'CONSUMED'", approval_id=NEW)),
    ("decision_once", copy("decision", "true", id=999)),
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


@pytest.mark.parametrize("verb", ["INSERT", "UPDATE", "DELETE"])
def test_a_write_that_names_no_acceptance_point_is_refused(
    subtests: pytest.Subtests, verb: str
) -> None:
    before = world.fingerprint(*PROTECTED)
    for table in PROTECTED:
        key = "id" if table in ("decision", "evidence") else "effect_id"
        sql = {
            "INSERT": f"INSERT INTO coordinator_{table} SELECT * FROM coordinator_{table}",
            "UPDATE": f"UPDATE coordinator_{table} SET {key} = {key}",
            "DELETE": f"DELETE FROM coordinator_{table}",
        }[verb]
        # Triggers fire in the order of their names; what is append-only is refused on that account first.
        append_only = table in APPEND_ONLY and verb != "INSERT"
        rule = f"{table}_append_only" if append_only else f"{table}_through_the_guard"
        with subtests.test(table):
            with pytest.raises(IntegrityError) as refusal, transaction.atomic():
                _execute(sql)
            assert isinstance(refusal.value.__cause__, psycopg.errors.CheckViolation)
            assert refusal.value.__cause__.diag.constraint_name == rule
            assert world.fingerprint(*PROTECTED) == before


def test_the_orm_gets_no_further_than_raw_sql() -> None:
    with pytest.raises(IntegrityError):
        EffectSlot.objects.filter(node_id="refused").update(probes=1)
    with pytest.raises(IntegrityError):
        Approval.objects.filter(state="PENDING").update(state="APPROVED")
    with pytest.raises(IntegrityError):
        Evidence.objects.all().delete()


def test_an_effect_with_something_on_file_is_not_deleted() -> None:
    """Foreign keys hold it, at the end of the transaction at the latest."""
    before = world.fingerprint(*PROTECTED)
    for table in ("effectslot", "dispatch", "approval"):
        with pytest.raises(IntegrityError), world.guarded():
            _execute(f"DELETE FROM coordinator_{table}")
        assert world.fingerprint(*PROTECTED) == before


def test_nothing_that_the_database_refuses_is_left_untried() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype IN ('c', 'u') AND conrelid = ANY(%s::regclass[])"
            " UNION SELECT indexrelid::regclass::text FROM pg_index"
            "   WHERE indisunique AND NOT indisprimary AND indrelid = ANY(%s::regclass[])"
            " UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = ANY(%s::regclass[])"
            "   AND tgname !~ '_counted_(insert|update|delete)$'",  # they count, and refuse nothing
            [[f"coordinator_{table}" for table in PROTECTED]] * 3,
        )
        rules = {row[0] for row in cursor.fetchall()}
    assert rules - {rule for rule, _ in ATTEMPTS} == {
        f"{table}_through_the_guard" for table in PROTECTED
    }
    assert {rule for rule, _ in ATTEMPTS} <= rules


def test_every_protected_table_of_the_product_is_tried_in_one_of_the_lists() -> None:
    from tests.incidents import test_refusals as of_incidents
    from tests.services import test_audit_chain, test_refusals, test_restore_refusals
    from tests.shadow import test_promotion_refusals as of_promotions

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE '%_through_the_guard'"
        )
        guarded = {row[0].removeprefix("coordinator_") for row in cursor.fetchall()}
    tried = {
        *test_refusals.PROTECTED,
        *of_incidents.PROTECTED,
        *of_promotions.PROTECTED,
        *test_restore_refusals.PROTECTED,
        *test_audit_chain.PROTECTED,
    }
    assert guarded == {*PROTECTED, *tried}
