"""Effect slots, their dispatches, and what is known of them (contract 2, 8)."""

from django.db import models
from django.db.models import Q

from coordinator.states import MAY_BE_OUT, DispatchOutcome, EffectState, Guarantee

from .attempt import Attempt
from .task import Task


class EffectSlot(models.Model):
    """One outside effect of one task: declared by name, bound once to one payload."""

    effect_id = models.TextField(
        primary_key=True
    )  # digests.effect_id: no attempt, payload or time in it
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="effects", db_index=False)
    node_id = models.TextField()
    slot = models.TextField()
    downstream = models.TextField()
    payload = models.TextField()  # RFC 8785 text; handed to every later attempt
    payload_digest = models.TextField()  # over downstream, payload and condition
    condition = models.TextField(null=True)  # RFC 8785 text
    state = models.TextField(choices=[(s, s) for s in EffectState], default=EffectState.PREPARED)
    dispatches = models.IntegerField(default=0)
    receipt = models.TextField(null=True)  # RFC 8785 text
    etag = models.TextField(null=True)
    prepared_at = models.DateTimeField()
    first_accepted_at = models.DateTimeField(null=True)  # a key's validity counts from here
    accepted_at = models.DateTimeField(null=True)
    call_deadline = models.DateTimeField(null=True)  # the newest dispatch's
    unknown_since = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    # What the downstream guaranteed when the payload was bound (contract 8).
    guarantee = models.TextField(choices=[(g, g) for g in Guarantee])
    call_timeout_seconds = models.IntegerField()
    key_valid_seconds = models.IntegerField(null=True)
    settle_seconds = models.IntegerField()
    refuses_late = models.BooleanField()
    serial_scope = models.TextField(default="")
    required_approvers = models.IntegerField(default=1)
    #: Its task is NON_REPLAYABLE: serial at its downstream, each dispatch approved by a person.
    is_exclusive = models.BooleanField()
    #: A person asserted its absence: the next dispatch needs an approval, whatever the guarantee.
    needs_approval = models.BooleanField(default=False)
    #: A receipt turned up late: nobody may say any more that it did not happen.
    happened_on_file = models.BooleanField(default=False)
    duplicate_suspected = models.BooleanField(default=False)
    #: Nothing on file says that it is out: what would say so may have been lost with a restore (contract 12).
    out_on_suspicion = models.BooleanField(db_default=False)
    #: The last finding and the dispatch count it judged, so that a repeat is known.
    verdict = models.TextField(null=True)
    verdict_dispatches = models.IntegerField(null=True)
    #: Automatic look-ups: how often asked in vain, and when to ask next.
    probes = models.IntegerField(default=0)
    probe_after = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="effect_slot", fields=["task", "slot"]),
            models.UniqueConstraint(
                name="effect_one_out_per_scope",
                fields=["downstream", "serial_scope"],
                # A receipt that turns up late is known to have happened: it is taken whatever else is out. After a
                # restore every one of them may be out, and none is sent before all but it are settled.
                condition=Q(
                    is_exclusive=True,
                    happened_on_file=False,
                    out_on_suspicion=False,
                    state__in=sorted(MAY_BE_OUT),
                ),
            ),
            models.CheckConstraint(name="effect_state", condition=Q(state__in=list(EffectState))),
            models.CheckConstraint(
                name="effect_committed_has_receipt",
                condition=~Q(state=EffectState.COMMITTED)
                | Q(receipt__isnull=False, settled_at__isnull=False),
            ),
            models.CheckConstraint(
                name="effect_out_has_dispatch",
                condition=Q(state__in=[EffectState.PREPARED, EffectState.VOID])
                | Q(dispatches__gte=1),
            ),
        ]
        indexes = [
            models.Index(
                name="effect_unsettled",
                fields=["downstream", "unknown_since"],
                condition=Q(state__in=sorted(MAY_BE_OUT)),
            ),
            # Lists by state, in their order: what is not settled lies among however many that are.
            models.Index(
                name="effect_not_committed",
                fields=["effect_id"],
                condition=~Q(state=EffectState.COMMITTED),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.slot} → {self.downstream}"


class Dispatch(models.Model):
    """One acceptance: permission for one transmission, durable before any byte goes out."""

    dispatch_id = models.UUIDField(primary_key=True)
    effect = models.ForeignKey(
        EffectSlot, on_delete=models.PROTECT, related_name="ledger", db_index=False
    )
    number = models.IntegerField()
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="+", db_index=False)
    claim_generation = models.BigIntegerField()
    scheduler_epoch = models.BigIntegerField()
    request_id = models.TextField()
    accepted_at = models.DateTimeField()
    call_deadline = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)
    redeem_id = models.TextField(null=True)
    redeemed_by = models.IntegerField(null=True)  # the gate's credential
    closed_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True, choices=[(o, o) for o in DispatchOutcome])

    class Meta:
        verbose_name_plural = "dispatches"
        constraints = [
            models.UniqueConstraint(name="dispatch_number", fields=["effect", "number"]),
            models.CheckConstraint(
                name="dispatch_outcome",
                condition=Q(outcome=None) | Q(outcome__in=list(DispatchOutcome)),
            ),
            models.CheckConstraint(
                name="dispatch_redeemed_once",
                condition=Q(redeemed_at=None, redeem_id=None)
                | Q(redeemed_at__isnull=False, redeem_id__isnull=False),
            ),
        ]
        # Whoever takes an attempt away asks for its dispatches.
        indexes = [models.Index(name="dispatch_by_attempt", fields=["attempt"])]

    def __str__(self) -> str:
        return f"{self.effect_id}#{self.number}"


class LookUp(models.Model):
    """The start of a look-up, stamped before it is made; it judges so many dispatches."""

    lookup_id = models.UUIDField(primary_key=True)
    effect = models.ForeignKey(EffectSlot, on_delete=models.PROTECT, related_name="lookups")
    dispatches = models.IntegerField()
    actor = models.TextField()
    started_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.lookup_id)


class Evidence(models.Model):
    """What somebody said about an effect: reports, late receipts, look-ups, a person's word. Append-only."""

    id = models.BigAutoField(primary_key=True)
    effect = models.ForeignKey(EffectSlot, on_delete=models.PROTECT, related_name="evidence")
    dispatch = models.ForeignKey(
        Dispatch, null=True, on_delete=models.PROTECT, related_name="evidence", db_index=False
    )
    # report | late_report | query | operator | late_receipt | gate | present
    kind = models.TextField()
    # COMMITTED | UNKNOWN | REFUSED | HAPPENED | NOT_HAPPENED | DONT_KNOW | PRESENT
    said = models.TextField()
    late = models.BooleanField(default=False)
    actor = models.TextField()
    at = models.DateTimeField()
    detail = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "evidence"
        indexes = [
            models.Index(
                name="evidence_by_dispatch",
                fields=["dispatch"],
                condition=Q(dispatch__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.said} by {self.actor}"
