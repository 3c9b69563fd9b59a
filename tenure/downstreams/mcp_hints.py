"""What an MCP tool says about itself, read as what it is: an untrusted hint.

A hint may make a node stricter. It never makes one laxer, unless an operator vouches for the server: a tool that
calls itself idempotent and is not would act twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: From lax to strict (contract 2).
_ORDER = ("READ_ONLY", "REPLAYABLE", "NON_REPLAYABLE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hints:
    """A tool's annotations; None where it says nothing."""

    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None

    @property
    def replay(self) -> str:
        """What the tool claims for itself. Without a word it is as the protocol assumes: it writes, and not again."""
        if self.read_only:
            return "READ_ONLY"
        if self.idempotent and self.destructive is False:
            return "REPLAYABLE"
        return "NON_REPLAYABLE"


def hints_of(tool: Any) -> Hints:
    """From a tool as the client library lists it, or as it stands in JSON."""
    given = tool.get("annotations") if isinstance(tool, Mapping) else tool.annotations
    if given is None:
        return Hints()
    values = given if isinstance(given, Mapping) else given.model_dump(by_alias=True)
    return Hints(
        read_only=_yes_or_no(values.get("readOnlyHint")),
        idempotent=_yes_or_no(values.get("idempotentHint")),
        destructive=_yes_or_no(values.get("destructiveHint")),
    )


def replay_with(hints: Hints, *, registered: str, vouched: bool = False) -> str:
    """The node's replay class: the stricter of what is registered and what is hinted; where vouched for, the hint.

    `registered` is what the downstream's guarantee allows.
    """
    if vouched:
        return hints.replay
    return max(registered, hints.replay, key=_ORDER.index)


def _yes_or_no(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
