"""Blobs that nobody names: rows first, then their bytes; what a crash leaves between is found later (contract 7)."""

from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.files.storage import storages

from coordinator.clock import read_clock
from coordinator.models import Blob
from coordinator.rounds import Statement, name_point, run_round

from .transactions import in_transaction

BATCH: Final = 200
#: So many folders of the storage are looked through in one go, the oldest attempts first.
MAX_FOLDERS: Final = 2_000
#: An upload is on its way for no longer than this; younger bytes without a row are left alone.
UPLOAD_HOURS: Final = 24

#: Its attempt is over, its task too, and no canonical commit names it.
_DUE: Final = """
SELECT b.id FROM coordinator_blob b
JOIN coordinator_attempt a ON a.attempt_id = b.attempt_id JOIN coordinator_task t ON t.task_id = a.task_id
WHERE b.created_at < clock_timestamp() - make_interval(days => %s) AND a.ended_at IS NOT NULL
  AND t.state IN ('COMMITTED', 'SUPERSEDED', 'CANCELLED', 'FAILED')
  AND NOT EXISTS (SELECT FROM coordinator_canonicalcommit c WHERE c.task_id = t.task_id AND c.blob_id = b.id)
ORDER BY b.id LIMIT %s
"""
_DELETE: Final = f"DELETE FROM coordinator_blob WHERE id IN ({_DUE}) RETURNING path"  # noqa: S608 (constants of ours)
_COUNT: Final = f"SELECT count(*) FROM ({_DUE}) due"  # noqa: S608


def prune_blobs() -> int:
    """Take away up to BATCH blobs that are due; how many."""
    paths = _delete() if settings.KEEP_BLOBS_DAYS else []
    for path in paths:
        storages["blobs"].delete(path)
    return len(paths)


@in_transaction
def _delete() -> list[str]:
    _, rows = run_round(name_point("prune"), Statement(_DELETE, (settings.KEEP_BLOBS_DAYS, BATCH)))
    return [path for (path,) in rows]


def count_blobs(most: int) -> int:
    """How many are due, counted up to `most`; in the caller's transaction."""
    if not settings.KEEP_BLOBS_DAYS:
        return 0
    (((count,),),) = run_round(Statement(_COUNT, (settings.KEEP_BLOBS_DAYS, most)))
    return int(count)


def prune_strays() -> int:
    """Take away bytes that no row names, a day after they were written; how many files.

    They are what a broken upload or a cut-off pruning left. Looks through MAX_FOLDERS folders at most, and through
    none where the storage can't list.
    """
    storage = storages["blobs"]
    try:
        folders, _ = storage.listdir("")
    except (FileNotFoundError, NotImplementedError):
        return 0
    limit = read_clock() - timedelta(hours=UPLOAD_HOURS)
    ours = [name for name in islice(sorted(folders), MAX_FOLDERS) if _is_attempt(name)]
    return sum(_strays_of(name, limit) for name in ours)


def _is_attempt(name: str) -> bool:
    """The folder of an attempt; anything else in the storage isn't ours."""
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _strays_of(attempt: str, limit: datetime) -> int:
    storage = storages["blobs"]
    known = set(Blob.objects.filter(attempt_id=attempt).values_list("path", flat=True))
    _, files = storage.listdir(attempt)
    strays = [path for path in (f"{attempt}/{name}" for name in files) if path not in known]
    old = [path for path in strays if storage.get_modified_time(path) < limit]
    for path in old:
        storage.delete(path)
    if not known and len(old) == len(files):
        storage.delete(attempt)
    return len(old)
