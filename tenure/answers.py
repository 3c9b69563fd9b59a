"""Telling a coordinator's refusal from a proxy's answer and from a stranger's."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from tenure.errors import Problem, problem_from


def problem_in(
    response: httpx.Response, *, after_seconds: float | None, tries: int
) -> Problem | None:
    """The refusal in an answer; None where it is something else."""
    if not response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return None
    try:
        body = response.json()
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    return problem_from(
        body, status=response.status_code, retry_after_seconds=after_seconds, tries=tries
    )


def decided(problem: Problem | None) -> bool:
    """INTAKE_STOPPED comes as a 503 and is an answer; a 503 without an outcome is a coordinator in trouble."""
    return problem is not None and problem.outcome is not None


def retry_after_seconds(value: str | None) -> float | None:
    """Seconds of a Retry-After header, given as a number or as a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def stranger(method: str, path: str, response: httpx.Response) -> str:
    """What to tell a person about an answer that no coordinator gives."""
    where = response.headers.get("Location")
    if where:
        return (
            f"{method} {path} was redirected to {where}; use that address as the coordinator's URL"
        )
    kind = response.headers.get("Content-Type", "no content type")
    return f"{method} {path}: HTTP {response.status_code} with {kind}, which is not an answer of claim.v1"
