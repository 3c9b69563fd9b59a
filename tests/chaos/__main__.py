"""Chaos by hand: `python -m tests.chaos --seconds 600 --seed 7`, or `--bugs` to see the checks at work."""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.chaos import figures
from tests.chaos.bugs import BUGS
from tests.chaos.story import Told, tell

#: Of the long run; a shorter one is asked for less, in proportion.
LONG_SECONDS = 600.0
OUTCOMES, RACES = 50, 20
#: A storm in which a seeded bug did no harm is followed by one that is so many times as long.
BUG_SECONDS, AS_LONG = 60.0, (1, 4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=LONG_SECONDS, help="of storm (600)")
    parser.add_argument(
        "--seed", type=int, help="of everything that is drawn; printed, if left out"
    )
    parser.add_argument(
        "--bug", choices=sorted(BUGS), help="break the product so; it must be noticed"
    )
    parser.add_argument("--bugs", action="store_true", help="every seeded bug, one after the other")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    if options.bugs or options.bug:
        names = [options.bug] if options.bug else sorted(BUGS)
        return max(_with_bug(name, seed, min(options.seconds, BUG_SECONDS)) for name in names)
    told = tell(seconds=options.seconds, seed=seed)
    share = min(1.0, options.seconds / LONG_SECONDS)
    few = figures.too_few(
        told.counts, outcomes=max(1, int(OUTCOMES * share)), races=max(1, int(RACES * share))
    )
    _print(told)
    for line in [*told.complaints, *few]:
        print("WRONG", line)
    return 1 if told.complaints or few else 0


def _with_bug(name: str, seed: int, seconds: float) -> int:
    for times in AS_LONG:
        told = tell(seconds=times * seconds, seed=seed, bug=name)
        noticed = {check: len(found) for check, found in told.wrong.items() if found}
        print(f"{name}: {noticed or f'NOT NOTICED in {times * seconds:.0f} s'}", flush=True)
        for line in told.complaints[:3]:
            print("   ", line[:600])
        if set(noticed) & {"events", "clients", "outside"}:
            return 0
    return 1


def _print(told: Told) -> None:
    print(f"seed {told.seed}")
    for title, counts in (("done", told.deeds), ("weather", told.befell), ("seen", told.counts)):
        print(title + ":", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    sys.exit(main())
