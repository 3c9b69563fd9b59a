"""A worker with one outside effect, which stands still at a named moment: killed, frozen or let go there by a test.

    python -m tests.races.paying_worker QUEUE OUTSIDE GUARANTEE AMOUNT [MOMENT]

It pays AMOUNT at OUTSIDE. Where another amount is bound already it says so and performs what is bound. Moments, each
once: claimed, prepared, accepted, sent, reported. Prints `at MOMENT` and waits for a line on standard input; and what
it sent, what it was refused, and at the end its counts as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tenure import Claim, Downstream, PayloadConflict, Worker
from tenure.downstreams import Guarantee, HttpKey
from tenure.downstreams.base import Call, Sent
from tenure.effect_calls import EffectCalls
from tenure.records import Effect
from tests.sdk.program import tell


class Moments:
    """Where to stand still."""

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted

    def reached(self, moment: str) -> None:
        if moment == self._wanted:
            self._wanted = ""
            print("at", moment, flush=True)
            sys.stdin.readline()


class Outside(HttpKey):
    """Says what came of each call, and stands still around it."""

    def __init__(self, url: str, guarantee: Guarantee, moments: Moments) -> None:
        asked = None if guarantee is Guarantee.GATED else url + "/payments/{key}"
        super().__init__(url + "/payments", look_up_url=asked, guarantee=guarantee)
        self._moments = moments

    def send(self, call: Call) -> Sent:
        self._moments.reached("accepted")
        sent = super().send(call)
        print("sent", type(sent).__name__, json.dumps(call.payload), flush=True)
        self._moments.reached("sent")
        return sent


def main(queue: str, outside: str, guarantee: str, amount: str, moment: str = "") -> None:
    moments = Moments(moment)
    _stand_still_between_prepare_and_accept(moments)
    bank = Downstream("bank", Outside(outside, Guarantee(guarantee), moments))
    worker = Worker(
        os.environ["TENURE_URL"], os.environ["TENURE_TOKEN"], queue, ttl_seconds=5, observer=tell
    )

    @worker.handler("work")
    def pay(claim: Claim) -> dict[str, Any]:
        moments.reached("claimed")
        intent = claim.effect("out", bank, {"amount": int(amount)})
        try:
            receipt = intent.perform()
        except PayloadConflict as conflict:
            print("conflict", json.dumps(conflict.payload), flush=True)
            receipt = intent.perform(adopt=True)
        moments.reached("reported")
        return {"receipt": receipt}

    print(json.dumps(worker.run(until_empty=True)), flush=True)


def _stand_still_between_prepare_and_accept(moments: Moments) -> None:
    """The library has no seam there, and needs none but for this."""
    real = EffectCalls.prepare

    def prepare(
        self: EffectCalls, slot: str, downstream: str, payload: Any, condition: Any
    ) -> Effect:
        effect = real(self, slot, downstream, payload, condition)
        moments.reached("prepared")
        return effect

    EffectCalls.prepare = prepare  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
