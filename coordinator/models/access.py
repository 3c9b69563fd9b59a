"""Who may call: worker credentials and operators' personal tokens (contract 15)."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from .queue import Pool


class Access(models.Model):  # noqa: DJ008 - it has no rows to name
    """Carries the permissions of contract 15; it has no table of its own."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [
            ("view", "See queues, runs, tasks, attempts and events"),
            ("view_payload", "See inputs, results and payloads"),
            ("reveal_secrets", "Reveal masked values in payloads, on record"),
            ("submit", "Submit runs and tasks"),
            ("cancel", "Cancel, revise and reopen tasks"),
            ("approve", "Approve or reject an effect"),
            ("reconcile", "Settle UNKNOWN effects"),
            ("assert_absence", "Assert without proof that an effect did not happen"),
            ("operate_incidents", "Stop and open intake, run incidents"),
            ("bump_epoch", "Raise a queue's epoch"),
            ("administer", "Manage queues, pools, downstreams and credentials"),
        ]


class Credential(models.Model):
    """A worker's bearer token, bound to one pool and a list of queues. Only its hash is kept."""

    id = models.AutoField(primary_key=True)
    credential_id = models.UUIDField(unique=True)
    name = models.TextField()
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="credentials")
    queues = ArrayField(models.TextField())
    scopes = ArrayField(models.TextField())
    prefix = models.TextField(unique=True)
    last4 = models.TextField(db_default="")  # to tell tokens apart; 240 random bits stay unknown
    token_sha256 = models.BinaryField(max_length=32)
    created_by = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.TextField(db_default="")  # address
    last_used_route = models.TextField(db_default="")
    last_contract = models.TextField(db_default="")  # its X-Claim-Contract header
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.TextField(null=True)

    def __str__(self) -> str:
        return self.name


class OperatorToken(models.Model):
    """A person's token for automation. It can do what the person can, no more."""

    id = models.AutoField(primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tenure_tokens"
    )
    name = models.TextField(default="")
    prefix = models.TextField(unique=True)
    last4 = models.TextField(db_default="")
    token_sha256 = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.TextField(db_default="")
    last_used_route = models.TextField(db_default="")
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.TextField(null=True)

    def __str__(self) -> str:
        return f"{self.user}: {self.name}"


class BreakGlass(models.Model):
    """A recorded permission to write protected tables past the guard (contract 16).

    A database session uses it by `SET tenure.break_glass = '<id>'`. While one is open every
    page says so; its writes are counted.
    """

    id = models.AutoField(primary_key=True)
    opened_by = models.TextField()
    reason = models.TextField()
    opened_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    writes = models.IntegerField(default=0)

    class Meta:
        verbose_name_plural = "break-glass sessions"

    def __str__(self) -> str:
        return f"{self.opened_by}: {self.reason}"
