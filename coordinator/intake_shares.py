"""Which tasks a part of the intake lets in: always the same ones, and never fewer when the part grows (contract 12).

A task's place between 0 and 99 is made of the random end of its id. So one that was let in at
10 % is let in at 50 % too, its next attempt as well; and how many a worker asks for at a time
makes no difference.
"""

from typing import Final
from uuid import UUID

#: The whole intake. Only less than this is a part.
WHOLE: Final = 100


def place_of(task_id: UUID) -> int:
    """0 to 99."""
    return (task_id.int & 0xFFFF) % WHOLE


def is_let_in(task_id: UUID, share: int) -> bool:
    return place_of(task_id) < share


def place_sql(column: str) -> str:
    """`place_of` in SQL, of a column with the id."""
    return f"mod(('x' || right({column}::text, 4))::bit(16)::int, {WHOLE})"
