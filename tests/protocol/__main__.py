"""Runs the model outside the test suite: `python -m tests.protocol [--full | --story NAME]`."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from .mutants import MUTANTS, SPARE
from .scenarios import PROMISED, UNKEPT, Failure, Promise
from .search import search
from .story import tell

EXAMPLE = """examples:
  python -m tests.protocol                          the bounds of the test suite, under a minute
  python -m tests.protocol --full                   one more dispatch for each slot, some minutes
  python -m tests.protocol --story "elapsed time"   the shortest counterexamples, step by step
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 only when every promise held and everything that must fail did."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.protocol",
        description="Searches every order in which the effect protocol can go, and says what it found.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="one more dispatch for each slot")
    parser.add_argument("--story", metavar="NAME", help="tell what breaks; any part of the name")
    options = parser.parse_args(arguments)
    if options.story is not None:
        return _tell(options.story)
    fine = [line for lines in (_promises(full=options.full), _failures()) for line in lines]
    return 0 if all(fine) else 1


def _promises(*, full: bool) -> Iterator[bool]:
    for title, promises in (("Promised", PROMISED), ("One of several rules broken", SPARE)):
        print(f"\n{title}: everything visited, nothing wrong")
        print(f"| {'search':74} | dispatches | worlds | steps | longest | seconds | |")
        print("|---|--:|--:|--:|--:|--:|---|")
        for promise in promises:
            yield _promise(promise, more=1 if full else 0)


def _promise(promise: Promise, *, more: int) -> bool:
    model, began = promise.model(more=more), time.process_time()
    found = search(model)
    clean = not found.stories
    print(
        f"| {promise.name:74} | {model.dispatches} | {found.states:,} | {found.transitions:,} | {found.depth} |"
        f" {time.process_time() - began:.1f} | {'clean' if clean else 'BROKEN'} |",
        flush=True,
    )
    for story in found.stories.values():
        print(tell(story))
    return clean


def _failures() -> Iterator[bool]:
    for title, failures in (("Downstreams that nobody can keep", UNKEPT), ("Mutants", MUTANTS)):
        print(f"\n{title}: each must fail")
        print(f"| {'search':62} | shortest stories | |")
        print("|---|---|---|")
        for failure in failures:
            yield _failure(failure)


def _failure(failure: Failure) -> bool:
    found = search(failure.model(), until=failure.finds)
    lengths = {v: len(story) for v, story in found.stories.items() if v in failure.finds}
    as_said = lengths == failure.finds
    told = ", ".join(f"{v.name} in {n}" for v, n in lengths.items()) or "none"
    print(f"| {failure.name:62} | {told} | {'fails' if as_said else 'NOT AS SAID'} |", flush=True)
    return as_said


def _tell(part: str) -> int:
    chosen = [f for f in (*UNKEPT, *MUTANTS) if part.lower() in f.name.lower()]
    if not chosen:
        print(f"--story: no search that must fail has {part!r} in its name. There are:")
        print("\n".join(f"  {f.name}" for f in (*UNKEPT, *MUTANTS)))
        return 2
    for failure in chosen:
        print(f"\n{failure.name}: {failure.why}")
        for violation, story in search(failure.model(), until=failure.finds).stories.items():
            if violation in failure.finds:
                print(f"\n{tell(story)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
