"""One worker process of the fleet: `python -m examples.review.member --name ada`.

What happens to it goes to standard output, one JSON object a line, for whoever started it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from examples.review.effects import register_effects
from examples.review.handlers import ANALYSE, register
from tenure import Claim, Report, TenureError, Worker

#: How long a member that is to be frozen waits in the middle of an analysis for it to happen.
WAIT_FOR_FREEZE_SECONDS = 10.0
TICK_SECONDS = 0.05
#: Between two ticks, nobody but a stopped process loses this much.
FROZEN_SECONDS = 2.0
PR_SET_PDEATHSIG = 1

_speaking = threading.Lock()


def main() -> int:
    """Work until told to stop."""
    args = _arguments()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format=f"{args.name}: %(message)s")
    _die_with_parent()
    worker = Worker(
        os.environ["TENURE_URL"],
        os.environ["TENURE_TOKEN"],
        args.queue,
        owner=f"{args.name}-{os.getpid()}",
        ttl_seconds=args.ttl,
        grace_seconds=5.0,
        observer=tell,
    )
    register(worker, pause=Pause(args.pace, hold_first=args.hold_first))
    register_effects(worker, os.environ)
    try:
        worker.run()
    except TenureError as error:
        _say({"what": "gave_up", "detail": str(error)})
        return 1
    return 0


class Pause:
    """Stretches each analysis a little; the first one, where asked to, until the process has been frozen in it."""

    def __init__(self, seconds: float, *, hold_first: bool) -> None:
        self._seconds = seconds
        self._hold = hold_first

    def __call__(self, claim: Claim) -> None:
        time.sleep(self._seconds)
        if self._hold and claim.kind == ANALYSE:
            self._hold = False
            _say({"what": "halfway", **_about(claim)})
            _wait_until_frozen()


def _wait_until_frozen() -> None:
    """Ends when the clock has jumped: this process stood still in between."""
    before = began = time.monotonic()
    while before - began < WAIT_FOR_FREEZE_SECONDS:
        time.sleep(TICK_SECONDS)
        now = time.monotonic()
        if now - before > FROZEN_SECONDS:
            return
        before = now


def tell(report: Report) -> None:
    """One line for one happening."""
    line: dict[str, Any] = {"what": report.what.value}
    if report.claim is not None:
        line |= _about(report.claim)
    problem = report.detail.get("problem")
    if problem is not None:
        line |= {
            "point": report.detail.get("point"),
            "outcome": getattr(problem, "outcome", None),
            "reason": getattr(problem, "reason", None),
            "detail": str(problem),
        }
    if "error" in report.detail:
        line["detail"] = report.detail["error"]["message"]
    _say(line)


def _say(line: dict[str, Any]) -> None:
    """In one write: `print` takes two, and what two threads say at once would be no JSON to whoever reads it."""
    with _speaking:
        sys.stdout.write(f"{json.dumps(line)}\n")
        sys.stdout.flush()


def _about(claim: Claim) -> dict[str, Any]:
    return {
        "node_id": claim.node_id,
        "kind": claim.kind,
        "run_id": claim.run_id,
        "task_id": claim.task_id,
        "attempt": claim.attempt_number,
        "generation": claim.fence.claim_generation,
    }


def _die_with_parent() -> None:
    """A frozen process would not hear of its parent's end; the kernel tells it (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.review.member", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--queue", default="reviews")
    parser.add_argument("--ttl", type=int, default=5, help="seconds of lease")
    parser.add_argument(
        "--pace", type=float, default=0.2, help="seconds that each analysis is stretched by"
    )
    parser.add_argument(
        "--hold-first", action="store_true", help="wait in the first analysis to be frozen"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
