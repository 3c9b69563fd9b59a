"""What an attempt used: cumulative, kept for refused attempts too (contract 2, 3, 5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from coordinator.rounds import Statement


@dataclass(frozen=True, slots=True)
class Usage:
    """Cumulative per attempt: a later report never lowers an earlier one."""

    input_tokens: int = 0
    output_tokens: int = 0
    compute_seconds: float = 0.0
    cost_usd: float = 0.0


_RAISE: Final = """
UPDATE coordinator_attempt a SET
  input_tokens = greatest(a.input_tokens, u.input_tokens),
  output_tokens = greatest(a.output_tokens, u.output_tokens),
  compute_seconds = greatest(a.compute_seconds, u.compute_seconds),
  cost_usd = greatest(a.cost_usd, u.cost_usd::numeric)
FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[])
  AS u(attempt_id, input_tokens, output_tokens, compute_seconds, cost_usd)
WHERE a.attempt_id = u.attempt_id AND a.attempt_id = ANY(%s::uuid[])
"""


def raise_usage(reported: Mapping[UUID, Usage]) -> Statement:
    """One UPDATE for all the attempts that reported; their task rows are locked."""
    usages = list(reported.values())
    return Statement(
        _RAISE,
        (
            list(reported),
            [usage.input_tokens for usage in usages],
            [usage.output_tokens for usage in usages],
            [usage.compute_seconds for usage in usages],
            [usage.cost_usd for usage in usages],
            list(reported),
        ),
    )
