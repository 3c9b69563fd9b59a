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

from .prune_cursors import START, Batch, Place, move_to, read_place
from .transactions import in_transaction

#: One look goes over so many blobs, whether they may be taken or not.
LOOKED_AT: Final = 500
KIND: Final = "blobs"
#: So many folders of the storage are looked through in one go, the oldest attempts first.
MAX_FOLDERS: Final = 2_000
#: An upload is on its way for no longer than this; younger bytes without a row are left alone.
UPLOAD_HOURS: Final = 24

_IS_OLD: Final = "created_at < clock_timestamp() - make_interval(days => %s)"
#: Their ids rise with their age: behind the first that is young there is nothing to look for.
_PAGE: Final = """
SELECT id, attempt_id, created_at FROM coordinator_blob WHERE id > %s::bigint ORDER BY id LIMIT %s
"""
#: Its attempt is over, its task too, and no canonical commit names it. Each is looked up for the blob (`OFFSET 0`):
#: joined, the tables would be read whole wherever the statistics say so.
_DUE: Final = f"""
SELECT b.id FROM page b
CROSS JOIN LATERAL (
  SELECT a.task_id, a.ended_at FROM coordinator_attempt a WHERE a.attempt_id = b.attempt_id OFFSET 0) a
CROSS JOIN LATERAL (SELECT t.state FROM coordinator_task t WHERE t.task_id = a.task_id OFFSET 0) t
WHERE b.{_IS_OLD} AND a.ended_at IS NOT NULL
  AND t.state IN ('COMMITTED', 'SUPERSEDED', 'CANCELLED', 'FAILED')
  AND NOT EXISTS (
    SELECT FROM coordinator_canonicalcommit c WHERE c.task_id = a.task_id AND c.blob_id = b.id OFFSET 0)
"""  # noqa: S608 (constants of ours)
_TAKE: Final = f"""
WITH page AS MATERIALIZED ({_PAGE}),
  gone AS (DELETE FROM coordinator_blob WHERE id = ANY (ARRAY({_DUE})) RETURNING path)
SELECT (SELECT max(id) FROM page), (SELECT {_IS_OLD} FROM page ORDER BY id DESC LIMIT 1),
  (SELECT coalesce(array_agg(path), '{{}}') FROM gone)
"""  # noqa: S608
_COUNT: Final = f"""
WITH page AS MATERIALIZED ({_PAGE}) SELECT (SELECT count(*) FROM ({_DUE}) due), (SELECT count(*) FROM page)
"""  # noqa: S608


def prune_blobs() -> Batch:
    """Take away those of the next LOOKED_AT blobs that are due."""
    if not settings.KEEP_BLOBS_DAYS:
        return Batch(0, more=False)
    paths, more = _take()
    for path in paths:
        storages["blobs"].delete(path)
    return Batch(len(paths), more)


@in_transaction
def _take() -> tuple[list[str], bool]:
    place, days = read_place(KIND), settings.KEEP_BLOBS_DAYS
    asked = (place.after_id, LOOKED_AT, days, days)
    _, ((last, more, paths),) = run_round(name_point("prune", by_id=True), Statement(_TAKE, asked))
    run_round(move_to(KIND, Place(after_id=last) if more else START))
    return paths, bool(more)


def count_blobs(most: int) -> Batch:
    """How many of the first `most` are due; in the caller's transaction."""
    if not settings.KEEP_BLOBS_DAYS:
        return Batch(0, more=False)
    asked = (START.after_id, most, settings.KEEP_BLOBS_DAYS)
    ((due, seen),) = run_round(Statement(_COUNT, asked))[0]
    return Batch(due, more=seen >= most)


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
