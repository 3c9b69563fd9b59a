"""The twin of the model, claim.pml, searched by spin: another language, real numbers, and waits that are not atomic.

python -m tests.protocol.twin          the bounds of the test suite: under a minute
python -m tests.protocol.twin --full   one more generation: some minutes, and two GiB of memory
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODEL: Final = Path(__file__).with_name("claim.pml")
MEMORY_MIB: Final = 6_000
#: Deeper than any story; spin says so where it is not, and that counts as unfinished.
DEPTH: Final = 100_000

CLASSES: Final = ("KEYED", "CONDITIONAL", "GATED", "REFUSES_LATE", "KEYED APPROVED")

#: The contract with one rule broken, and the assertion that finds it.
MUTANTS: Final = {
    "KEYED NO_GENERATION_CHECK": "g==holder",
    "KEYED NO_EPOCH_CHECK": "known==epoch",
    "KEYED EPOCH_BY_JOIN": "known==epoch",
    "KEYED APPROVED NOW_FOR_THE_CLOCK": "approval_expired",
    "REFUSES_LATE BLIND_RESEND": "performed==1",
    "GATED BLIND_RESEND": "performed==1",
    "KEYED RECEIPT_UNFENCES": "g==holder",
    "KEYED DOUBLE_GRANT": "granted[generation]",
    "KEYED COMMIT_WITH_UNKNOWN": "performed==0",
    "KEYED GENERATION_IN_KEY": "performed==1",
    "KEYED ONE_STATE": "performed==0",
    "CONDITIONAL ONE_STATE": "performed==0",
}
#: Broken alone it changes nothing: each cancel ends the attempt in its own transaction, and the generation check
#: refuses what the cancel check would have refused.
SPARE: Final = ("KEYED NO_CANCEL_CHECK",)

#: What must be seen to happen, else a clean search would say little.
REACHED: Final = {
    "a taker-over commits with the effect happened": (
        "KEYED",
        "task == DONE && slot == HAPPENED && generation == 2",
    ),
    "a call is sent again under its key, and commits": (
        "KEYED",
        "task == DONE && slot == HAPPENED && dispatches == 2 && performed == 1",
    ),
    "a zombie's call lands after the cancel": (
        "CONDITIONAL",
        "task == CANCELLED && performed == 1 && slot == UNKNOWN",
    ),
    "a gated call that nobody let in is closed": ("GATED", "outcome[0] == CLOSED"),
    "a gated call waits for a person": ("GATED", "task == WAITING"),
    "a call is refused for being late, and made anew": (
        "REFUSES_LATE",
        "dispatches == 2 && slot == HAPPENED && outcome[0] == CLOSED",
    ),
    "work goes on after a bump": (
        "KEYED",
        "bump_returned && task == DONE && slot == HAPPENED && epoch == 2",
    ),
}


@dataclass(frozen=True, slots=True)
class Searched:
    """`broken` is the assertion that failed, or nothing; `states` is how many worlds were told apart."""

    broken: str
    states: int


class Unfinished(Exception):
    """The search met a bound of ours, or spin is missing: it proves nothing."""


def search(names: str, *, reached: str = "", generations: int = 2) -> Searched:
    """Search everything with these definitions, or up to the first assertion that fails.

    Raises Unfinished where depth, memory or spin itself gave out.
    """
    defines = [f"#define {name}" for name in (*names.split(), f"GENERATIONS {generations}")]
    if reached:
        defines.append(f"#define REACHED ({reached})")
    with tempfile.TemporaryDirectory() as folder:
        defined = Path(folder) / "defined.pml"
        defined.write_text("\n".join([*defines, MODEL.read_text()]))
        _run(folder, "spin", "-a", defined.name)
        _run(
            folder,
            *("gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}"),
            *("-o", "pan", "pan.c"),
        )
        told = _run(folder, "./pan", f"-m{DEPTH}", "-E")
    if re.search(r"max search depth too small|out of memory|memory limit", told):
        raise Unfinished(told[-400:])
    broken = re.search(r"assertion violated (.*) \(at depth", told)
    states = re.search(r"(\d+) states, stored", told)
    if states is None:
        raise Unfinished(told[-400:])
    return Searched(broken[1].strip() if broken else "", int(states[1]))


def _run(folder: str, *command: str) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unfinished(
            f"{command[0]} is not installed (Debian: apt-get install spin gcc)"
        ) from error
    if done.returncode:
        raise Unfinished((done.stdout + done.stderr)[-400:])
    return done.stdout


def main() -> int:
    """Exit code 0 only when every class was clean, every mutant was caught and every scene was reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.twin")
    parser.add_argument("--full", action="store_true", help="three generations instead of two")
    generations = 3 if parser.parse_args().full else 2
    fine = True
    print("| search | worlds | |\n|---|--:|---|")
    for names in (*CLASSES, *SPARE):
        found = search(names, generations=generations)
        fine &= not found.broken
        print(f"| {names} | {found.states:,} | {found.broken or 'clean'} |", flush=True)
    for names, assertion in MUTANTS.items():
        found = search(names, generations=generations)
        fine &= assertion in found.broken
        print(f"| {names} | {found.states:,} | caught: `{assertion}` |", flush=True)
    for scene, (names, condition) in REACHED.items():
        found = search(names, reached=condition, generations=generations)
        fine &= bool(found.broken)
        print(
            f"| {scene} | {found.states:,} | {'reached' if found.broken else 'NOT'} |", flush=True
        )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
