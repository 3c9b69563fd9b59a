"""Room on each page for one renewal of every row: a batch renews all of them in one transaction (contract 4)."""

from django.db import migrations

# Versions that one transaction leaves behind are pruned by a later one only, so that a page needs
# room for as many new ones as it has rows. With less, a renewal moves to another page and is no HOT update.
ROOM = """
ALTER TABLE coordinator_task SET (fillfactor = 50);
ALTER TABLE coordinator_attempt SET (fillfactor = 45);
"""
LESS_ROOM = """
ALTER TABLE coordinator_task SET (fillfactor = 70);
ALTER TABLE coordinator_attempt SET (fillfactor = 80);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0018_audits"),
    ]

    operations = [
        migrations.RunSQL(ROOM, LESS_ROOM),
    ]
