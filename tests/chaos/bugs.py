"""Seeded bugs: ways to break the product, each of which the checks must notice.

Only the entry points of this folder ask for one (CHAOS_BUG); no code of the product knows of them. Where the database
itself would refuse what a bug writes, that net is taken away too: the checks have to stand alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

BUGS: dict[str, Callable[[], None]] = {}
#: Taken away from the database under a bug, so that it is not the database alone that notices.
NETS: dict[str, tuple[str, ...]] = {}


def bug(name: str, *nets: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def register(breaks: Callable[[], None]) -> Callable[[], None]:
        BUGS[name] = breaks
        NETS[name] = nets
        return breaks

    return register


def apply_named() -> None:
    """Break this process as CHAOS_BUG says, if it says anything."""
    name = os.environ.get("CHAOS_BUG")
    if name:
        BUGS[name]()


def prepare_named() -> None:
    """Take away from the database what would refuse the named bug's writes."""
    from django.db import connection

    for net in NETS.get(os.environ.get("CHAOS_BUG", ""), ()):
        with connection.cursor() as cursor:
            cursor.execute(net)


def _swap(owner: Any, name: str, value: Any) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} to break"
    setattr(owner, name, value)


# --- the fence ----------------------------------------------------------------------------------


def _judge_otherwise(change: Callable[[Any, Any, Any, int], tuple[Any, Any, int]]) -> None:
    """Have every judgement made of a call, a task and an epoch that `change` has falsified."""
    from coordinator import fence
    from coordinator.services import effect_hearings, hearings

    real = fence.judge

    def judge(call: Any, *, task: Any, attempt: Any, epoch: int) -> Any:
        call, seen, epoch = change(call, task, attempt, epoch)
        return real(call, task=seen, attempt=attempt, epoch=epoch)

    for module in (hearings, effect_hearings):
        _swap(module, "judge", judge)


@bug("the generation is not compared")
def _generation() -> None:
    def change(call: Any, task: Any, attempt: Any, epoch: int) -> tuple[Any, Any, int]:
        seen = task._replace(
            attempt_id=call.fence.attempt_id, claim_generation=call.fence.claim_generation
        )
        return call, seen, epoch

    _judge_otherwise(change)


@bug("the epoch is not compared")
def _epoch() -> None:
    from coordinator import fence
    from coordinator.services import claims

    def judge_epoch(told: int, *, epoch: int) -> None:
        """Every epoch is as good as the queue's."""

    _swap(fence, "judge_epoch", judge_epoch)
    _swap(claims, "judge_epoch", judge_epoch)


@bug("a cancel is not noticed")
def _cancel() -> None:
    def change(call: Any, task: Any, attempt: Any, epoch: int) -> tuple[Any, Any, int]:
        if task.state != "CANCELLED":
            return call, task, epoch
        seen = task._replace(
            state="CLAIMED",
            cancel_generation=call.fence.cancel_generation,
            attempt_id=call.fence.attempt_id,
        )
        return call, seen, epoch

    _judge_otherwise(change)


@bug("a repeat of a commit is judged anew")
def _replay() -> None:
    def change(call: Any, task: Any, attempt: Any, epoch: int) -> tuple[Any, Any, int]:
        return replace(call, digest=""), task, epoch

    _judge_otherwise(change)


# --- effects ------------------------------------------------------------------------------------


@bug("a task commits while an effect is unknown")
def _commit_unknown() -> None:
    from coordinator.services.effect_books import EffectBook

    def reconcile_first(self: Any, task: Any) -> None:
        """Nothing ever keeps a task from ending."""

    _swap(EffectBook, "reconcile_first", reconcile_first)


@bug("absence counts at once")
def _seal() -> None:
    from coordinator import seals
    from coordinator.services import reconciliation

    def absence_seal(*_: Any, **__: Any) -> Any:
        return seals.Seal.FINAL

    _swap(reconciliation, "absence_seal", absence_seal)


@bug("a dispatch is redeemed again and again")
def _redeem() -> None:
    from coordinator.services import gate

    real = gate._refusal

    def refusal(hearing: Any, dispatch: Any, *words: Any, is_repeat: bool) -> Any:
        fresh = dispatch._replace(redeem_id=None)
        return real(hearing, fresh, *words, is_repeat=is_repeat)

    _swap(gate, "_refusal", refusal)


@bug("an accepted call is prepared again after a take-over")
def _take_over() -> None:
    from coordinator import seals
    from coordinator.services import holds

    real = seals.after_hold

    def after_hold(effect: Any, dispatches: Sequence[Any]) -> Any:
        state = real(effect, dispatches)
        return "PREPARED" if effect.state == "ACCEPTED" else state

    _swap(holds, "after_hold", after_hold)


# --- scheduling ---------------------------------------------------------------------------------


@bug("a serial key is ignored", "DROP INDEX task_serial_holder")
def _serial() -> None:
    from coordinator.services import claims

    def free_scopes(tasks: Sequence[Any], clock: datetime) -> tuple[list[Any], list[Any]]:
        return list(tasks), []

    _swap(claims, "free_scopes", free_scopes)


@bug("a parent counts twice")
def _release() -> None:
    from coordinator.services import commits

    real = commits._Release.children_of

    def children_of(self: Any, parent: Any) -> list[str]:
        released = real(self, parent)
        waiting = [
            child
            for child in self.edges.get(parent, ())
            if self.hearing.tasks[child].pending_dependencies > 0
        ]
        kept, self.edges = self.edges, {parent: waiting}
        released += real(self, parent)
        self.edges = kept
        return released

    _swap(commits._Release, "children_of", children_of)
