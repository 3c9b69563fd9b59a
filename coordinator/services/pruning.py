"""Taking away what is over and nobody asks for any more, in bounded batches (contract 5, 7, 17).

Never an unsettled row: an open task, an effect that may be out, an approval that is asked for. A database that may be
a copy takes nothing away: its blobs may be the original's.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import Refusal
from coordinator.rounds import Statement, name_point, run_round

from .events import EventKind, Fact, record
from .identity import held, standing_hold
from .prune_cursors import Batch
from .pruned_blobs import count_blobs, prune_blobs, prune_strays
from .pruned_runs import count_runs, prune_runs
from .pruned_shadow import count_shadow, prune_shadow
from .transactions import in_transaction

#: So many rows in one transaction.
BATCH: Final = 1_000
#: A dry run looks at no more of each kind.
MAX_COUNTED: Final = 100_000

#: By the route that ends the scope. A repeat after the answer has gone is judged anew and can do no harm: a claim is
#: another grant, an acceptance finds the effect as it stands. Every other key stays on file without its answer: it has
#: expired, and is never used again.
_FORGOTTEN: Final = "scope ~ ':(claim_tasks|claim_task|accept_effect):[^:]*$'"
#: In a sub-select, so that an index can be entered by it.
_OLD: Final = "created_at < (SELECT clock_timestamp() - make_interval(hours => %s))"

_FORGET: Final = f"""
DELETE FROM coordinator_storedanswer WHERE id = ANY (ARRAY(
  SELECT id FROM coordinator_storedanswer WHERE {_OLD} AND answer <> '' AND {_FORGOTTEN} ORDER BY created_at LIMIT %s))
RETURNING 1
"""  # noqa: S608 (constants of ours)
_EXPIRE: Final = f"""
UPDATE coordinator_storedanswer SET answer = '', request_digest = '' WHERE id = ANY (ARRAY(
  SELECT id FROM coordinator_storedanswer WHERE {_OLD} AND answer <> '' AND NOT {_FORGOTTEN}
  ORDER BY created_at LIMIT %s))
RETURNING 1
"""  # noqa: S608
_COUNT: Final = f"""
SELECT count(*) FILTER (WHERE forgotten), count(*) FILTER (WHERE NOT forgotten) FROM (
  SELECT {_FORGOTTEN} AS forgotten FROM coordinator_storedanswer WHERE {_OLD} AND answer <> ''
  LIMIT %s) a
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard a round works. It ends after so many seconds, resting for as many times as long as each batch took.

    `batches`: of one kind, at the most. `in_vain`: a kind's turn is over after so many batches in a row that took
    nothing; the next round goes on there. `strays`: files that no row names are looked for, folder by folder.
    """

    seconds: float = float("inf")
    rest: float = 0.0
    batches: int = 2**31
    in_vain: int = 2**31
    strays: bool = True


#: In the background, each minute: half of the time belongs to the others, and what came to its end meanwhile goes as
#: fast as it comes (docs/capacity.md).
JOB: Final = Pace(seconds=20.0, rest=1.0, in_vain=4, strays=False)
#: The command goes on until nothing is left.
ALL: Final = Pace()


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was taken away, or would be (`dry_run`: of the first MAX_COUNTED of each kind)."""

    answers_forgotten: int = 0
    keys_expired: int = 0
    blobs: int = 0
    stray_files: int = 0
    runs: int = 0
    dry_run: bool = False
    complete: bool = True  # everything was looked at, and nothing that is due is left
    shadow_rounds: int = 0


def prune(*, actor: Actor, dry_run: bool = False, pace: Pace = ALL) -> Pruned | Refusal:
    """Take away what the settings no longer keep. Safe to repeat, to cut off, and to run twice at once.

    TENURE_KEEP_ANSWERS_HOURS, TENURE_KEEP_BLOBS_DAYS, TENURE_KEEP_RUNS_DAYS, TENURE_KEEP_SHADOW_DAYS (0: for ever).
    Refused: INTAKE_STOPPED while the database may not be the one that it says it is.
    """
    hold = standing_hold()
    if hold:
        return held(hold)
    if dry_run:
        return _would_prune()
    stray_files = prune_strays() if pace.strays else 0
    taken, complete = _in_turn(_KINDS, pace)
    counts: dict[str, Any] = {**taken, "stray_files": stray_files, "complete": complete}
    pruned = Pruned(**counts)
    if pruned.runs or pruned.blobs:
        _tell(pruned, actor)
    return pruned


def prune_stray_files() -> int:
    """Take away the files that no row names; how many. None by a database that may be a copy."""
    return 0 if standing_hold() else prune_strays()


def _in_turn(kinds: Mapping[str, Callable[[], Batch]], pace: Pace) -> tuple[dict[str, int], bool]:
    """A batch of each kind in turn, so that none waits for another's end; what was taken, and whether all of it was."""
    over_at = time.monotonic() + pace.seconds
    taken, in_vain, left = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0), dict(kinds)
    complete = True
    batches = 0
    while left and time.monotonic() < over_at and batches < pace.batches:
        batches += 1
        for name, batch in list(left.items()):
            begin = time.monotonic()
            count, more = batch()
            taken[name] += count
            in_vain[name] = 0 if count else in_vain[name] + 1
            is_over = not more or in_vain[name] >= pace.in_vain
            if is_over:
                del left[name]
                complete &= not more
            time.sleep(pace.rest * (time.monotonic() - begin))
            if time.monotonic() >= over_at:
                break
    return taken, complete and not left


@in_transaction
def _answers(sql: str) -> Batch:
    _, rows = run_round(
        name_point("prune", by_id=True), Statement(sql, (settings.KEEP_ANSWERS_HOURS, BATCH))
    )
    return Batch(len(rows), more=len(rows) >= BATCH)


@in_transaction
def _would_prune() -> Pruned:
    ((forgotten, expired),) = run_round(
        Statement(_COUNT, (settings.KEEP_ANSWERS_HOURS, MAX_COUNTED))
    )[0]
    blobs, runs = count_blobs(MAX_COUNTED), count_runs(MAX_COUNTED)
    shadow_rounds = count_shadow(MAX_COUNTED)
    return Pruned(
        answers_forgotten=forgotten,
        keys_expired=expired,
        blobs=blobs.taken,
        runs=runs.taken,
        shadow_rounds=shadow_rounds,
        dry_run=True,
        complete=not (blobs.more or runs.more)
        and max(forgotten + expired, shadow_rounds) < MAX_COUNTED,
    )


@in_transaction
def _tell(pruned: Pruned, actor: Actor) -> None:
    told = {"runs": pruned.runs, "blobs": pruned.blobs, "kept": _kept()}
    _, clock = run_round(name_point("prune"), CLOCK)
    run_round(record([Fact(EventKind.PRUNED, data=told)], actor=actor, at=clock_of(clock)))


def _kept() -> dict[str, str]:
    return {
        "answers": str(timedelta(hours=settings.KEEP_ANSWERS_HOURS)),
        "blobs": str(timedelta(days=settings.KEEP_BLOBS_DAYS)),
        "runs": str(timedelta(days=settings.KEEP_RUNS_DAYS))
        if settings.KEEP_RUNS_DAYS
        else "for ever",
    }


_KINDS: Final[Mapping[str, Callable[[], Batch]]] = {
    "answers_forgotten": lambda: _answers(_FORGET),
    "keys_expired": lambda: _answers(_EXPIRE),
    "blobs": prune_blobs,
    "runs": prune_runs,
    "shadow_rounds": prune_shadow,
}
