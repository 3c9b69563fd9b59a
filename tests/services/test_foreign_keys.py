"""What refers to rows that are taken away is found by an index.

PostgreSQL asks for each row that goes, at the end of the transaction, whether another one refers to it. Without an
index it reads the whole table each time.
"""

import pytest
from django.db import connection

#: Rows of these stay for ever: nobody asks.
STAY = {
    "auth_user", "coordinator_pool", "coordinator_queue", "coordinator_restore", "coordinator_serialscope",
}  # fmt: skip

#: A partial index serves where it has all rows that refer to any.
_WITHOUT_INDEX = """
SELECT c.conrelid::regclass::text || '.' || a.attname || ' → ' || c.confrelid::regclass::text
FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
WHERE c.contype = 'f' AND c.conrelid::regclass::text ~ '^(coordinator|console)_'
  AND c.confrelid::regclass::text <> ALL (%s)
  AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND i.indisvalid
      AND coalesce(pg_get_expr(i.indpred, i.indrelid), format('(%%I IS NOT NULL)', a.attname))
          = format('(%%I IS NOT NULL)', a.attname))
ORDER BY 1
"""


@pytest.mark.django_db
def test_every_reference_to_a_row_that_may_go_has_an_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_INDEX, [sorted(STAY)])
        assert [name for (name,) in cursor.fetchall()] == []
