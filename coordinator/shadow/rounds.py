"""The rounds of one task key: which events belong together, and the verdict on each (docs/shadow.md).

Only the events' own times decide, so that the order in which they arrived, how often the judge
ran in between, and how many rounds were judged at once change nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from .play import Play
from .words import LegacyEvent, LegacyKind

#: What was given back and not handed out again for so long is not waited for any more.
PATIENCE_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a finished round stays open for late events, and a lease that its event doesn't tell."""

    settle_seconds: float
    default_lease_seconds: float


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """A round with its events in order. From `closes_at` on nothing belongs to it, by the legacy clock.

    `is_straggler`: it was begun by something else than a claim after another round had closed, and
    was judged by what that one had granted.
    """

    events: tuple[LegacyEvent, ...]
    play: Play
    closes_at: datetime
    is_straggler: bool


def play_rounds(
    events: Iterable[LegacyEvent], policy: Policy, *, history: Iterable[LegacyEvent] = ()
) -> Iterator[PlayedRound]:
    """Play a key's events, split into rounds. A round ends where the next event comes after `closes_at`.

    A claim that comes then opens a fresh round; anything else is a straggler of the round before.
    `history` are the events of the settled rounds before, back to the last fresh one.
    """
    settle = timedelta(seconds=policy.settle_seconds)
    patience = max(settle, timedelta(seconds=PATIENCE_SECONDS))
    play = Play(policy.default_lease_seconds)
    ordered = in_order(events)
    before: list[LegacyEvent] = []
    if ordered and ordered[0].event != LegacyKind.CLAIMED:
        before = in_order(history)
        for event in before:
            play.take(event)
    taken: list[LegacyEvent] = []
    is_straggler = False
    for event in ordered:
        if taken and event.at > play.closes_at(settle=settle, patience=patience):
            yield _close(taken, play, settle, patience, is_straggler=is_straggler)
            before, taken = taken, []
        if not taken:
            is_straggler = bool(before) and event.event != LegacyKind.CLAIMED
            play = play.carry_on() if is_straggler else Play(policy.default_lease_seconds)
        taken.append(event)
        play.take(event)
    if taken:
        yield _close(taken, play, settle, patience, is_straggler=is_straggler)


def _close(
    taken: Sequence[LegacyEvent],
    play: Play,
    settle: timedelta,
    patience: timedelta,
    *,
    is_straggler: bool,
) -> PlayedRound:
    """A snapshot that is compared at its end; the play itself may be carried on."""
    closes_at = play.closes_at(settle=settle, patience=patience)
    closed = play.snapshot()
    closed.close()
    return PlayedRound(tuple(taken), closed, closes_at, is_straggler)


def in_order(events: Iterable[LegacyEvent]) -> list[LegacyEvent]:
    """By time. At the same instant whoever held the task before goes first, then claims, then the rest."""
    by_time = sorted(events, key=lambda event: (event.at, event.event_id))
    ordered: list[LegacyEvent] = []
    for _, same in groupby(by_time, key=lambda event: event.at):
        together = list(same)
        if len(together) > 1:
            claimants = {one.owner for one in together if one.event == LegacyKind.CLAIMED}
            together.sort(key=lambda event: _rank(event, claimants))
        ordered.extend(together)
    return ordered


def _rank(event: LegacyEvent, claimants: set[str]) -> int:
    if event.event == LegacyKind.CLAIMED:
        return 1
    if event.event == LegacyKind.CANCELLED:
        return 2
    return 3 if event.owner in claimants else 0
