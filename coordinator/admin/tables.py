"""The tables that are only looked at: their columns, what finds a row, and what not everybody sees."""

from dataclasses import dataclass
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.db.models import CompositePrimaryKey

from coordinator import models as m

from .reading import ReadOnly


@dataclass(frozen=True, slots=True)
class Table:
    """Names of columns, apart by blanks. A row is found by its key and by the exact words of `found_by`."""

    columns: str
    found_by: str = ""
    payloads: str = ""  # for who may see payloads
    secrets: str = ""  # for nobody


TABLES: Final[dict[Any, Table]] = {
    m.Approval: Table(
        "approval_id effect_id dispatch_number state requested_by requested_at expires_at",
        found_by="effect__effect_id",
    ),
    m.Attempt: Table(
        "attempt_id task_id claim_generation scheduler_epoch owner pool state started_at "
        "ended_at end_reason",
        found_by="task__task_id",
    ),
    m.Blob: Table(
        "id attempt_id name size_bytes content_type created_at",
        found_by="attempt__attempt_id",
        secrets="path",
    ),
    m.BreakGlass: Table(
        "id opened_by reason opened_at expires_at closed_at writes",
        found_by="opened_by",
    ),
    m.CandidateDecision: Table(
        "id incident_id staged_id decision actor at",
        found_by="incident__incident_id",
    ),
    m.CanonicalCommit: Table(
        "result_commit_id task_id attempt_id claim_generation scheduler_epoch committed_at",
        found_by="task__task_id",
        payloads="result",
    ),
    m.CountedAttempt: Table("attempt_id input_tokens output_tokens compute_seconds cost_usd"),
    m.CountedRefusal: Table("event_id counted"),
    m.Credential: Table(
        "name pool_id queues scopes prefix created_by last_used_at revoked_at",
        found_by="name credential_id prefix",
        secrets="token_sha256",
    ),
    m.Decision: Table(
        "id approval_id operator_id decision at",
        found_by="approval__approval_id",
    ),
    m.Dispatch: Table(
        "dispatch_id effect_id number outcome accepted_at call_deadline redeemed_at closed_at",
        found_by="effect__effect_id",
    ),
    m.Downstream: Table(
        "name kind guarantee call_timeout_seconds settle_seconds refuses_late required_approvers",
        found_by="name",
    ),
    m.DrillRun: Table("id queue_id asked_by started_at finished_at passed"),
    m.EffectSlot: Table(
        "effect_id task_id slot downstream guarantee state dispatches prepared_at settled_at",
        found_by="task__task_id",
        payloads="payload condition receipt",
    ),
    m.Event: Table(
        "id at kind actor queue_id task_id attempt_id state_version repeats",
        found_by="task__task_id",
    ),
    m.Evidence: Table(
        "id effect_id dispatch_id kind actor at",
        found_by="effect__effect_id",
    ),
    m.Incident: Table("incident_id state version covers_all opened_by opened_at ended_at"),
    m.IncidentEffect: Table(
        "id incident_id effect_id state changed",
        found_by="incident__incident_id",
    ),
    m.IncidentHold: Table(
        "id incident_id attempt_id lease_expires_at",
        found_by="incident__incident_id",
    ),
    m.IncidentQueue: Table(
        "id incident_id queue_id is_open intake_before epoch_before epoch_after "
        "pool_before pool_after",
        found_by="incident__incident_id",
    ),
    m.IncidentStep: Table(
        "id incident_id step version actor at",
        found_by="incident__incident_id",
    ),
    m.Installation: Table(
        "database system_identifier timeline held_because held_since confirmed_by confirmed_at",
        secrets="sealed_by",
    ),
    m.LookUp: Table(
        "lookup_id effect_id dispatches actor started_at",
        found_by="effect__effect_id",
    ),
    m.MemoryFact: Table(
        "id memory_key_id version result_commit_id created_at",
        found_by="result_commit__result_commit_id",
        payloads="value",
    ),
    m.MemoryKey: Table(
        "id namespace key version",
        found_by="namespace",
    ),
    m.OperatorToken: Table(
        "user_id name prefix created_at expires_at last_used_at revoked_at",
        found_by="prefix",
        secrets="token_sha256",
    ),
    m.Pool: Table("name min_contract created_at"),
    m.PruneCursor: Table("kind after_time after_id"),
    m.RefusedWrites: Table("id seen"),
    m.Restore: Table("id begun_at begun_by reason epochs finished_at"),
    m.RestoreHold: Table(
        "id restore_id task_id held_at released_at released_by",
        found_by="task__task_id",
    ),
    m.RollUp: Table("id event_id rolled_until closed_until rolled_at"),
    m.Run: Table(
        "run_id name queue_id state node_count submitted_by created_at finished_at",
        found_by="run_id",
        payloads="metadata",
    ),
    m.SerialScope: Table("id queue_id token"),
    m.ShadowEvent: Table("id source event_id task_key event"),
    m.ShadowExplanation: Table("id queue_id round_id verdict is_of_class triage owner"),
    m.ShadowRound: Table(
        "round_id queue_id source task_key number verdict opened_at settled_at explained_at",
        payloads="legacy_result claim_result",
    ),
    m.ShadowSource: Table("name queue_id events duplicates conflicts too_late lost last_at"),
    m.StagedResult: Table(
        "id attempt_id result_digest canonical_candidate staged_at",
        found_by="attempt__attempt_id",
        payloads="result",
    ),
    m.StoredAnswer: Table(
        "id scope key created_at",
        payloads="answer",
    ),
    m.UncoveredWrite: Table("id at point written_to rows missing session"),
}


#: Hidden wherever they stand, unless a table says more: what workers wrote, and what opens doors.
PAYLOADS: Final = frozenset({"input", "result", "payload", "receipt", "value", "answer", "body"})
SECRETS: Final = frozenset({"token_sha256"})
#: A table that isn't listed above shows its first columns.
FIRST_COLUMNS: Final = 8


def has_a_page(model: Any) -> bool:
    """Django's admin can't show a table whose key is several columns, nor one that isn't there."""
    return model._meta.managed and not isinstance(model._meta.pk, CompositePrimaryKey)


def _plain(model: Any) -> Table:
    names = [field.attname for field in model._meta.concrete_fields]
    shown = [name for name in names if name not in PAYLOADS | SECRETS]
    return Table(
        " ".join(shown[:FIRST_COLUMNS]),
        payloads=" ".join(name for name in names if name in PAYLOADS),
        secrets=" ".join(name for name in names if name in SECRETS),
    )


def register_tables() -> None:
    """Each table that the admin can show; one that has come anew is never left out."""
    for model in apps.get_app_config("coordinator").get_models():
        if admin.site.is_registered(model) or not has_a_page(model):
            continue
        table = TABLES.get(model) or _plain(model)
        admin.site.register(
            model,
            type(
                f"{model.__name__}Table",
                (ReadOnly,),
                {
                    "list_display": tuple(table.columns.split()),
                    "found_by": tuple(table.found_by.split()),
                    "payloads": tuple(table.payloads.split()),
                    "secrets": tuple(table.secrets.split()),
                },
            ),
        )
