"""What the database itself refuses about effects and approvals (contract 8, 9, 16)."""

from django.db import migrations

from ._triggers import append_only, arrows, refuse, unguarded

EFFECT_ARROWS = [
    "PREPARED>ACCEPTED",
    "PREPARED>UNKNOWN",
    "PREPARED>VOID",
    "ACCEPTED>COMMITTED",
    "ACCEPTED>UNKNOWN",
    "ACCEPTED>PREPARED",
    "UNKNOWN>COMMITTED",
    "UNKNOWN>RESENDABLE",
    "UNKNOWN>PREPARED",
    "RESENDABLE>ACCEPTED",
    "RESENDABLE>COMMITTED",
    "RESENDABLE>UNKNOWN",
    "RESENDABLE>PREPARED",
]
APPROVAL_ARROWS = [
    "PENDING>APPROVED",
    "PENDING>REJECTED",
    "PENDING>EXPIRED",
    "PENDING>VOID",
    "APPROVED>CONSUMED",
    "APPROVED>EXPIRED",
    "APPROVED>VOID",
]
PROTECTED = ("effectslot", "dispatch", "lookup", "evidence", "approval", "decision")

TRIGGERS = [
    *(unguarded(table) for table in PROTECTED),
    append_only("evidence"),
    append_only("decision"),
    append_only("lookup"),
    arrows("effectslot", EFFECT_ARROWS),
    arrows("approval", APPROVAL_ARROWS),
    refuse(
        "effectslot",
        "effectslot_payload_is_bound",
        "NEW.payload <> OLD.payload OR NEW.payload_digest <> OLD.payload_digest OR NEW.task_id <> OLD.task_id"
        " OR NEW.slot <> OLD.slot OR NEW.node_id <> OLD.node_id OR NEW.downstream <> OLD.downstream"
        " OR NEW.condition IS DISTINCT FROM OLD.condition OR NEW.guarantee <> OLD.guarantee"
        " OR NEW.is_exclusive <> OLD.is_exclusive",
        "an effect slot is bound once to one payload",
    ),
    refuse(
        "effectslot",
        "effectslot_evidence_only_grows",
        "NEW.dispatches < OLD.dispatches OR NEW.dispatches > OLD.dispatches + 1"
        " OR (OLD.happened_on_file AND NOT NEW.happened_on_file)"
        " OR (OLD.receipt IS NOT NULL AND NEW.receipt IS DISTINCT FROM OLD.receipt)"
        " OR (OLD.first_accepted_at IS NOT NULL AND NEW.first_accepted_at IS DISTINCT FROM OLD.first_accepted_at)",
        "what is on file about an effect is never taken back",
    ),
    refuse(
        "dispatch",
        "dispatch_is_final",
        "NEW.effect_id <> OLD.effect_id OR NEW.number <> OLD.number OR NEW.attempt_id <> OLD.attempt_id"
        " OR NEW.call_deadline <> OLD.call_deadline"
        " OR (OLD.redeemed_at IS NOT NULL AND NEW.redeemed_at IS DISTINCT FROM OLD.redeemed_at)"
        " OR (OLD.closed_at IS NOT NULL AND NEW.closed_at IS DISTINCT FROM OLD.closed_at)"
        " OR (OLD.closed_at IS NOT NULL AND OLD.redeemed_at IS NULL AND NEW.redeemed_at IS NOT NULL)"
        " OR (OLD.outcome IN ('COMMITTED', 'REFUSED') AND NEW.outcome IS DISTINCT FROM OLD.outcome)"
        " OR (OLD.outcome IS NOT NULL AND NEW.outcome IS NULL)",
        "a dispatch that was redeemed, closed or settled stays so",
    ),
    refuse(
        "approval",
        "approval_is_bound",
        "NEW.payload_digest <> OLD.payload_digest OR NEW.effect_id <> OLD.effect_id"
        " OR NEW.dispatch_number <> OLD.dispatch_number OR NEW.required_approvers < OLD.required_approvers",
        "an approval is bound to one payload and one dispatch",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0003_effects")]

    operations = [migrations.RunSQL(create, drop) for create, drop in TRIGGERS]
