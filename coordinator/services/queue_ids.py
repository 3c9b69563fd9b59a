"""A queue's integer id by its name: it never changes while the queue is there, so it is remembered.

Whoever uses a remembered id compares the name once the queue's row has been read.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.models import Queue

MAX_REMEMBERED: Final = 10_000
_ids: dict[str, int] = {}


def candidates(name: str) -> Iterator[int]:
    """The remembered id first, then the one that the database knows."""
    remembered = _ids.get(name)
    if remembered is not None:
        yield remembered
    found = Queue.lanes.filter(name=name).values_list("id", flat=True).first()
    if found is None:
        _ids.pop(name, None)
        return
    if len(_ids) >= MAX_REMEMBERED:
        _ids.clear()
    _ids[name] = found
    if found != remembered:
        yield found


def forget() -> None:
    """For tests, where the next database has the same names under other ids."""
    _ids.clear()
