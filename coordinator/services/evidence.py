"""Evidence: what somebody said about an effect, kept whether or not it counted (contract 8.3, 8.4)."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.rounds import Statement

_INSERT: Final = """
INSERT INTO coordinator_evidence (effect_id, dispatch_id, kind, said, late, actor, at, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s::jsonb)
"""


def keep(
    *,
    effect_id: str,
    dispatch_id: UUID | None,
    kind: str,
    said: str,
    actor: Actor,
    at: datetime,
    detail: Any,
    late: bool = False,
) -> Statement:
    """Append one piece of evidence; nothing ever changes or removes it."""
    told = orjson.dumps(detail, default=str).decode()
    return Statement(_INSERT, (effect_id, dispatch_id, kind, said, late, actor.label, at, told))
