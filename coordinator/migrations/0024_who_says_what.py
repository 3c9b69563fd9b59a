"""A no has a reason code, and a request may be passed to somebody (contract 9)."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from coordinator.states import ApprovalState, RejectionCode

_CODES = [
    "WRONG_CONTENT",
    "WRONG_RECIPIENT",
    "NOT_NEEDED",
    "NOT_ALLOWED",
    "SUSPICIOUS",
    "OTHER",
    "CHANGES_ASKED",
]


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0023_pruning_goes_on"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("approval", "assigned_at", models.DateTimeField(null=True)),
        migrations.AddField("approval", "assigned_by", models.TextField(null=True)),
        migrations.AddField("approval", "assigned_note", models.TextField(null=True)),
        migrations.AddField(
            "approval",
            "assignee",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            "approval",
            "reason_code",
            models.TextField(choices=[(c, c) for c in map(RejectionCode, _CODES)], null=True),
        ),
        migrations.AddConstraint(
            "approval",
            models.CheckConstraint(
                name="approval_reason_code",
                condition=models.Q(reason_code__isnull=True)
                | models.Q(
                    state=ApprovalState.REJECTED, reason_code__in=list(map(RejectionCode, _CODES))
                ),
            ),
        ),
        migrations.AddConstraint(
            "approval",
            models.CheckConstraint(
                name="approval_passed_by_somebody",
                condition=models.Q(
                    assignee__isnull=True, assigned_by__isnull=True, assigned_at__isnull=True
                )
                | models.Q(
                    assignee__isnull=False, assigned_by__isnull=False, assigned_at__isnull=False
                ),
            ),
        ),
    ]
