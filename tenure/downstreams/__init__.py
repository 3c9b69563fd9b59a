"""Adapters for outside systems, each with what it guarantees and what it can't (contract 8; docs/downstreams.md).

| adapter | kind | guarantee | needs |
|---|---|---|---|
| `Smtp` | smtp | NONE | — |
| `GitRemote` | git | CONDITIONAL_WRITE | git |
| `S3` | s3 | CONDITIONAL_WRITE | `tenure[s3]` |
| `HttpKey` | http | IDEMPOTENT_KEY, or GATED | — |
| `EtagResource` | etag | CONDITIONAL_WRITE | — |
| `Sql` | sql | IDEMPOTENT_KEY | `tenure[sql]` |
| `McpTool` | mcp | NONE, unless an operator decides otherwise | `tenure[mcp]` |
| `Reservation` | reservation | RESERVATION | — |
| `ChatPost` | chat | QUERY_ONLY | — |
"""

from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Present,
    Refused,
    Sent,
    Unknown,
)
from tenure.downstreams.chat import ChatPost
from tenure.downstreams.etag import EtagResource
from tenure.downstreams.git import GitRemote
from tenure.downstreams.http import HttpKey
from tenure.downstreams.mcp_hints import Hints, hints_of, replay_with
from tenure.downstreams.mcp_tool import McpTool
from tenure.downstreams.reservation import Reservation
from tenure.downstreams.s3 import S3
from tenure.downstreams.smtp import Smtp
from tenure.downstreams.sql import Sql

__all__ = [
    "S3",
    "Absent",
    "Adapter",
    "Bound",
    "Call",
    "ChatPost",
    "DontKnow",
    "EtagResource",
    "Found",
    "GitRemote",
    "Guarantee",
    "Happened",
    "Hints",
    "HttpKey",
    "McpTool",
    "Present",
    "Refused",
    "Reservation",
    "Sent",
    "Smtp",
    "Sql",
    "Unknown",
    "hints_of",
    "replay_with",
]
