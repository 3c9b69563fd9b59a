"""The ledger against the outside services' own logs: each effect at most once, and where the ledger says so."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.chaos.downstream import KINDS
from tests.chaos.rig import Rig

#: In these states the ledger says that it has not happened.
_NOT_HAPPENED = ("PREPARED", "VOID")


def judge_outside(rig: Rig) -> list[str]:
    """What the services' logs say against the ledger, in words."""
    performed: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kind in KINDS:
        for entry in rig.performed(kind):
            performed[entry["key"]].append({**entry, "kind": kind})
    wrong = []
    rows = rig.rows(
        "SELECT effect_id, downstream, state, payload_digest FROM coordinator_effectslot"
    )
    for effect_id, kind, state, digest in rows:
        entries = performed.pop(effect_id, [])
        name = f"effect {effect_id[:12]} at {kind} ({state})"
        if len(entries) > 1:
            wrong.append(f"{name} was performed {len(entries)} times")
        if any(each["digest"] != digest or each["kind"] != kind for each in entries):
            wrong.append(f"{name} was performed with another payload, or elsewhere")
        if state == "COMMITTED" and not entries:
            wrong.append(f"{name} never happened")
        if state in _NOT_HAPPENED and entries:
            wrong.append(f"{name} has happened all the same")
    wrong += [f"{key[:12]} was performed and stands in no ledger" for key in performed]
    return wrong
