"""A task that waited for an approval may have to wait for reconciliation next (contract 7).

Another of its effects may be out by then: sent by the same attempt before it asked, or known by a late receipt.
"""

from importlib import import_module

from django.db import migrations

from ._triggers import arrows

before: list[str] = import_module("coordinator.migrations.0002_refusals").TASK_ARROWS
create_before, drop = arrows("task", before)
create, _ = arrows("task", [*before, "AWAITING_APPROVAL>AWAITING_RECONCILIATION"])


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0004_effect_refusals")]

    operations = [migrations.RunSQL([drop, create], [drop, create_before])]
