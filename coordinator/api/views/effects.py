"""Effects: prepared, accepted, reported, looked up, reconciled, redeemed (contract 8)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from coordinator.access import Operation, has_permission, sees_payloads
from coordinator.actors import Actor, Worker
from coordinator.api.bodies.effects import (
    AcceptBody,
    LookUpBody,
    PrepareBody,
    ReconcileBody,
    RedeemBody,
    ReportBody,
)
from coordinator.api.bodies.fields import LaneWord, Word
from coordinator.api.endpoint import Answer, Call, Endpoint, operation
from coordinator.api.masking import for_caller, places_for
from coordinator.api.pages import Page, PageQuery, page_of, whole
from coordinator.api.paths import effect_id_of, uuid_of
from coordinator.api.problems import Refused
from coordinator.api.views.runs import queues_of
from coordinator.api.views.tasks import seen_task
from coordinator.evidence_masks import mask_evidence
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.downstreams import secret_pointers
from coordinator.selectors.effects import (
    EffectDetail,
    EffectFilters,
    EffectGroup,
    EffectRecord,
    EvidenceRecord,
    effect_detail,
    effect_record,
    effects_of_task,
    find_effect,
    group_effects,
    list_effects,
)
from coordinator.services.acceptances import Accepted, accept_effect
from coordinator.services.effects import Prepared, prepare_effect
from coordinator.services.gate import Redeemed, redeem_dispatch
from coordinator.services.reconciliation import (
    LookUpStarted,
    Settled,
    reconcile_effect,
    start_look_up,
)
from coordinator.services.refused_callers import record_forbidden
from coordinator.services.reports import Recorded, report_by_gate, report_effect
from coordinator.states import EffectState

_FENCED: Final = (
    Outcome.FENCED,
    Outcome.STALE_INPUT,
    Outcome.CANCELLED,
    Outcome.FORBIDDEN,
    Outcome.NOT_FOUND,
)


class EffectQuery(PageQuery):
    queue: LaneWord | None = None
    downstream: Word | None = None
    state: EffectState | None = None
    may_be_out: Annotated[bool | None, Field(description="ACCEPTED, UNKNOWN or RESENDABLE.")] = None


class AttemptEffects(Endpoint):
    @operation(
        Operation.PREPARE_EFFECT,
        "Bind a declared slot to one payload; again, read it as it stands",
        body=PrepareBody,
        answer=Prepared,
        status=201,
        refusals=(*_FENCED, Outcome.PAYLOAD_CONFLICT, Outcome.INTAKE_STOPPED),
    )
    def post(self, call: Call[PrepareBody], attempt_id: str) -> Answer | Refusal:
        body = call.body
        answer = prepare_effect(
            attempt_id=uuid_of(attempt_id, "attempt"),
            fence=body.fence.fence(),
            slot=body.slot,
            downstream=body.downstream,
            payload=body.payload,
            condition=body.condition,
            worker=call.worker,
        )
        return (
            answer
            if isinstance(answer, Refusal)
            else Answer(answer, 201 if answer.created else 200)
        )


class EffectAccept(Endpoint):
    @operation(
        Operation.ACCEPT_EFFECT,
        "Ask for permission to send once; only a 200 ever permits it",
        body=AcceptBody,
        answer=Accepted,
        keyed=True,
        refusals=(
            *_FENCED,
            Outcome.PAYLOAD_CONFLICT,
            Outcome.APPROVAL_REQUIRED,
            Outcome.RECONCILE_FIRST,
            Outcome.ALREADY_SETTLED,
            Outcome.SERIAL_BUSY,
            Outcome.STAGE_FORBIDS,
            Outcome.INTAKE_STOPPED,
            Outcome.IDEMPOTENCY_CONFLICT,
        ),
    )
    def post(self, call: Call[AcceptBody], effect_id: str) -> Accepted | Refusal:
        return accept_effect(
            effect_id=effect_id_of(effect_id),
            fence=call.body.fence.fence(),
            payload_digest=call.body.payload_digest,
            worker=call.worker,
            request=call.request_key(owner=str(call.body.fence.attempt_id)),
        )


class EffectReport(Endpoint):
    @operation(
        Operation.REPORT_EFFECT,
        "Tell what came of a call: by its attempt, or by the gate that redeemed it",
        body=ReportBody,
        answer=Recorded,
        refusals=(*_FENCED, Outcome.STALE_EVIDENCE),
    )
    def post(self, call: Call[ReportBody], effect_id: str) -> Recorded | Refusal:
        body, wanted = call.body, effect_id_of(effect_id)
        if body.fence is not None and body.redeem_id is None:
            if "work" not in call.worker.scopes:
                return _needs_scope(call, "work")
            return report_effect(
                effect_id=wanted, fence=body.fence.fence(), report=body.report(), worker=call.worker
            )
        if body.redeem_id is not None and body.fence is None:
            if "gate" not in call.worker.scopes:
                return _needs_scope(call, "gate")
            return report_by_gate(
                effect_id=wanted, redeem_id=body.redeem_id, report=body.report(), gate=call.worker
            )
        return invalid(
            FieldError(
                "/fence", "Send the attempt's `fence`, or a gate's `redeem_id`; one of them."
            )
        )


def _needs_scope(call: Call[ReportBody], scope: str) -> Refusal:
    refusal = Refusal(Outcome.FORBIDDEN, f"This credential's scopes don't include `{scope}`.")
    record_forbidden(
        refusal=refusal,
        operation=f"{Operation.REPORT_EFFECT} ({scope})",
        target=call.request.path,
        actor=call.caller,
    )
    return refusal


class EffectLookUps(Endpoint):
    @operation(
        Operation.START_LOOK_UP,
        "Stamp a look-up before it is made",
        body=LookUpBody,
        answer=LookUpStarted,
        status=201,
        refusals=_FENCED,
    )
    def post(self, call: Call[LookUpBody], effect_id: str) -> LookUpStarted | Refusal:
        fence = call.body.fence
        return start_look_up(
            effect_id=effect_id_of(effect_id),
            actor=call.caller,
            fence=fence.fence() if fence else None,
        )


class EffectReconcile(Endpoint):
    @operation(
        Operation.RECONCILE_EFFECT,
        "Settle an effect by what was found",
        body=ReconcileBody,
        answer=Settled,
        refusals=(
            *_FENCED,
            Outcome.STALE_EVIDENCE,
            Outcome.ALREADY_SETTLED,
            Outcome.ABSENCE_NOT_SEALED,
        ),
    )
    def post(self, call: Call[ReconcileBody], effect_id: str) -> Settled | Refusal:
        fence = call.body.fence
        return reconcile_effect(
            effect_id=effect_id_of(effect_id),
            verdict=call.body.verdict(),
            actor=call.caller,
            fence=fence.fence() if fence else None,
            may_assert_absence=has_permission(call.caller, "assert_absence"),
        )


class EffectRedeem(Endpoint):
    @operation(
        Operation.REDEEM_DISPATCH,
        "The tool's gate: let one call through, once, while its attempt is current",
        body=RedeemBody,
        answer=Redeemed,
        keyed=True,
        refusals=(*_FENCED, Outcome.ALREADY_REDEEMED, Outcome.PAYLOAD_CONFLICT),
    )
    def post(self, call: Call[RedeemBody], effect_id: str) -> Redeemed | Refusal:
        body = call.body
        return redeem_dispatch(
            effect_id=effect_id_of(effect_id),
            dispatch_id=body.dispatch_id,
            redeem_id=body.redeem_id,
            fencing_token=body.fencing_token,
            payload_digest=body.payload_digest,
            gate=call.worker,
        )


class Effects(Endpoint):
    @operation(
        Operation.LIST_EFFECTS,
        "List effects; `may_be_out=true` is the reconciliation list",
        answer=Page[EffectRecord],
        query=EffectQuery,
    )
    def get(self, call: Call[None]) -> Page[EffectRecord]:
        query: EffectQuery = call.query
        filters = EffectFilters(
            query.state, query.downstream, query.queue, query.may_be_out, queues_of(call.caller)
        )
        return page_of(
            call.request,
            query,
            list_effects(filters),
            _told_to(call.caller),
            key="effect_id",
            newest_first=False,
        )


class EffectGroups(Endpoint):
    @operation(
        Operation.GROUP_EFFECTS,
        "What may be out, grouped by cause, the oldest first",
        answer=Page[EffectGroup],
    )
    def get(self, call: Call[None]) -> Page[EffectGroup]:
        return whole(group_effects(queues=queues_of(call.caller)))


class OneEffect(Endpoint):
    @operation(
        Operation.READ_EFFECT,
        "One effect with its dispatches, and everything on file about it",
        answer=EffectDetail,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], effect_id: str) -> EffectDetail | Refusal:
        effect = find_effect(effect_id_of(effect_id), queues=queues_of(call.caller))
        if effect is None:
            return not_found("effect")
        detail = effect_detail(effect, with_payload=sees_payloads(call.caller))
        places = secret_pointers(effect.downstream)
        return replace(
            detail,
            effect=for_caller(call.caller, detail.effect, places),
            evidence=[_evidence_to(call.caller, each, places) for each in detail.evidence],
        )


class TaskEffects(Endpoint):
    @operation(
        Operation.LIST_TASK_EFFECTS,
        "The effects of a task",
        answer=Page[EffectRecord],
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], task_id: str) -> Any:
        task = seen_task(call, task_id)
        if task is None:
            raise Refused(not_found("task"))
        told = _told_to(call.caller)
        return whole([told(each) for each in effects_of_task(task.task_id)])


def _evidence_to(caller: Actor, record: EvidenceRecord, places: Sequence[str]) -> EvidenceRecord:
    """What is there now has the payload's form, and is masked as that is."""
    if isinstance(caller, Worker):
        return record
    return replace(record, detail=mask_evidence(record.detail, places)[0])


def _told_to(caller: Actor) -> Callable[[Any], EffectRecord]:
    """How a row of a list is told to this caller."""
    shows, places = sees_payloads(caller), places_for(caller)

    def told(effect: Any) -> EffectRecord:
        record = effect_record(effect, with_payload=shows)
        return for_caller(caller, record, places.get(record.downstream, ()))

    return told
