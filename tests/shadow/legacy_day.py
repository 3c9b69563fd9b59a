"""A day of a legacy scheduler, made up: 100 000 events with planted faults of every class.

Each task is one small story of a kind that is known to agree, or to part in one way; what is planted is
known by the task's key. The same seed gives the same day. Then the feed does to it what feeds do: some
events come late, some twice, some in another order.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from coordinator.services.shadow_events import Told
from coordinator.shadow.words import RoundVerdict

from .stories import told

DAY_SECONDS: Final = 86_400.0
SOURCES: Final = 4
#: Of a thousand tasks, so many are planted of each class.
PLANTED_A_THOUSAND: Final = 5
#: Of a hundred events, so many are sent twice; and so many in another order than they happened.
TWICE: Final = 3
SHUFFLED_WITHIN: Final = 400  # events

Lines = list[str]
Plot = Callable[[random.Random], Lines]

# --- what a healthy scheduler does ------------------------------------------------------------


def _plain(luck: random.Random) -> Lines:
    return ["A claims 0 i", f"A commits {luck.uniform(1, 55)} r i"]


def _long(luck: random.Random) -> Lines:
    beats = [f"A renews {at}" for at in range(30, luck.choice([90, 150, 210]), 30)]
    return ["A claims 0", *beats, f"A commits {30 * len(beats) + luck.uniform(1, 55)} r"]


def _taken_over(luck: random.Random) -> Lines:
    at = luck.uniform(60.5, 200)
    zombie = [f"A renews {at + 1}"] if luck.random() < 0.3 else []
    return ["A claims 0", f"B claims {at}", *zombie, f"B commits {at + 5} r"]


def _retried(luck: random.Random) -> Lines:
    at = luck.uniform(1, 50)
    verb = luck.choice(["releases", "fails"])
    return [
        "A claims 0",
        f"A {verb} {at}",
        f"B claims {at + luck.uniform(0, 100)}",
        f"B commits {at + 150} r",
    ]


def _failed(luck: random.Random) -> Lines:
    return ["A claims 0", f"A fails {luck.uniform(1, 50)}"]


def _cancelled(luck: random.Random) -> Lines:
    at = luck.uniform(1, 50)
    return [
        "A claims 0",
        f"X cancels {at}",
        *([f"A fails {at + 3}"] if luck.random() < 0.5 else []),
    ]


def _revised(luck: random.Random) -> Lines:
    return ["A claims 0 i1", "B claims 20 i2", f"B commits {luck.uniform(21, 70)} r2 i2"]


def _repeated(luck: random.Random) -> Lines:
    return ["A claims 0", "A commits 10 r", f"A commits {luck.uniform(10, 30)} r"]


def _lapsed(luck: random.Random) -> Lines:
    return ["A claims 0", f"A commits {luck.uniform(61, 250)} r"]


HEALTHY: Final[tuple[Plot, ...]] = (
    *[_plain] * 8, *[_long] * 4, *[_taken_over] * 2, _retried, _failed, _cancelled, _revised, _repeated, _lapsed,
)  # fmt: skip

# --- what goes wrong ----------------------------------------------------------------------------


def _double_claim(luck: random.Random) -> Lines:
    at = luck.uniform(1, 59)
    second = [f"B commits {at + 30} {luck.choice(['r', 'other'])}"] if luck.random() < 0.5 else []
    return ["A claims 0", f"B claims {at}", f"A commits {at + 20} r", *second]


def _late_commit(luck: random.Random) -> Lines:
    at = luck.uniform(60.5, 150)
    ends = [f"B commits {at + 10} r", f"A commits {at + 20} {luck.choice(['r', 'other'])}"]
    return ["A claims 0", f"B claims {at}", *(ends if luck.random() < 0.5 else _swapped(ends))]


def _swapped(lines: Lines) -> Lines:
    """The other one first, at its own time."""
    (first, second) = lines
    a, b = first.split(), second.split()
    a[2], b[2] = b[2], a[2]
    return [" ".join(b), " ".join(a)]


def _winner_differs(luck: random.Random) -> Lines:
    return ["A claims 0", "A commits 10 one", f"A commits {luck.uniform(11, 100)} two"]


def _cancel_ignored(luck: random.Random) -> Lines:
    at = luck.uniform(1, 50)
    after = (
        [f"A commits {at + 5} r"]
        if luck.random() < 0.5
        else [f"B claims {at + 5}", f"B fails {at + 9}"]
    )
    return ["A claims 0", f"X cancels {at}", *after]


def _stale_input(luck: random.Random) -> Lines:
    at = luck.uniform(21, 50)
    return ["A claims 0 i1", "B claims 20 i2", f"A commits {at} r1 i1", f"B commits {at + 5} r2 i2"]


def _lost(luck: random.Random) -> Lines:
    if luck.random() < 0.5:
        return ["A claims 0", f"A renews {luck.uniform(1, 50)}"]
    return [f"A commits {luck.uniform(0, 9)} r"]  # the claim never reached the feed


PLANTED: Final[dict[RoundVerdict, Plot]] = {
    RoundVerdict.DOUBLE_CLAIM: _double_claim,
    RoundVerdict.LATE_COMMIT: _late_commit,
    RoundVerdict.WINNER_DIFFERS: _winner_differs,
    RoundVerdict.CANCEL_IGNORED: _cancel_ignored,
    RoundVerdict.STALE_INPUT: _stale_input,
    RoundVerdict.LOST: _lost,
}


@dataclass(frozen=True)
class Day:
    """What happened, in the order in which it arrives; what must be found, by task key."""

    events: Sequence[Told]
    expected: dict[str, RoundVerdict]

    @property
    def planted(self) -> "Counter[RoundVerdict]":
        return Counter(self.expected.values())


def legacy_day(count: int, *, ends_at: datetime, seed: int) -> Day:
    """So many events, spread over the day that ends then; each class is planted often."""
    luck = random.Random(seed)
    events: list[Told] = []
    expected: dict[str, RoundVerdict] = {}
    while len(events) < count:
        verdict, plot = _choose(luck)
        key = f"{verdict.lower()}-{len(expected)}"
        expected[key] = verdict
        begins = ends_at - timedelta(seconds=luck.uniform(900, DAY_SECONDS))
        events.extend(_tell(key, plot(luck), begins, source=f"legacy-{len(expected) % SOURCES}"))
    return Day(list(_as_they_arrive(events, luck)), expected)


def _choose(luck: random.Random) -> tuple[RoundVerdict, Plot]:
    place = luck.randrange(1_000) // PLANTED_A_THOUSAND
    if place < len(PLANTED):
        return list(PLANTED.items())[place]
    return RoundVerdict.AGREE, luck.choice(HEALTHY)


def _tell(key: str, lines: Lines, begins: datetime, *, source: str) -> Iterator[Told]:
    for index, line in enumerate(lines):
        event = told(line, f"{key}:{index}", begins=begins)
        yield Told(source, key, event)


def _as_they_arrive(events: list[Told], luck: random.Random) -> Iterator[Told]:
    """By time, shaken: each may be overtaken by others, and some are sent again later on."""
    ordered = sorted(events, key=lambda one: one.event.at)
    arriving = sorted(
        ((place + luck.uniform(0, SHUFFLED_WITHIN), one) for place, one in enumerate(ordered)),
        key=lambda pair: pair[0],
    )
    again = [
        (place + luck.uniform(1, 10 * SHUFFLED_WITHIN), one)
        for place, one in arriving
        if luck.randrange(100) < TWICE
    ]
    for _, one in sorted([*arriving, *again], key=lambda pair: pair[0]):
        yield one


def wrong(day: Day, found: dict[str, str | None]) -> dict[str, tuple[RoundVerdict, str | None]]:
    """The tasks on which the judge said something else than was planted."""
    return {
        key: (verdict, found.get(key))
        for key, verdict in day.expected.items()
        if found.get(key) != verdict
    }
