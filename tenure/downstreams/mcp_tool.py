"""A tool of an MCP server, over streamable HTTP. Unless proved otherwise a second call acts twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tenure.canonical import canonical, digest
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Refused,
    Sent,
    Unknown,
    overdue,
)
from tenure.downstreams.exchange import LARGEST_QUOTED_BYTES
from tenure.downstreams.fields import Fields, no_condition
from tenure.downstreams.headers import TURNED_AWAY, headers_of
from tenure.errors import NotEncodable
from tenure.records import Json

if TYPE_CHECKING:
    from mcp.types import CallToolResult, RequestParamsMeta

#: Members of a call's `_meta`; the same words as the HTTP headers.
META = "tenure/"
#: In a gate's own result.
GATE = "tenure/gate"
#: JSON-RPC: no such method, wrong parameters. The tool was not reached.
_NOT_REACHED = frozenset({-32601, -32602})


class McpTool(Adapter):
    """Payload `{"tool", "arguments"}`.

    `guarantee` is an operator's decision about this server, after a contract test; its own annotations are hints at
    most (`tenure.downstreams.mcp_hints`). `look_up_tool` is a read-only tool that takes `{"key"}` and answers
    `{"found": true or false, "receipt"?}`.
    """

    kind: ClassVar[str] = "mcp"
    limits: ClassVar[str] = (
        "MCP knows no idempotency key: ours travels in _meta, and a server that ignores it acts again. A tool that "
        "answers with an error may have acted before it failed."
    )

    def __init__(
        self,
        url: str,
        *,
        guarantee: Guarantee = Guarantee.NONE,
        look_up_tool: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(guarantee)
        self._url = url
        self._look_up_tool = look_up_tool
        self.can_be_asked = look_up_tool is not None
        self._headers = dict(headers or {})

    def check(self, payload: Json, condition: Json) -> None:
        """A tool's name and its arguments."""
        fields = Fields(payload, "/payload", known={"tool", "arguments"})
        fields.text("tool", meaning="the tool's name")
        fields.object("arguments", meaning="the tool's arguments")
        no_condition(condition, "a tool")

    def send(self, call: Call) -> Sent:
        """One call of the tool, in a session of its own."""
        if late := overdue(call):
            return late
        meta = {f"{META}{name.lower()}": value for name, value in headers_of(call).items()}
        session = _Session(self._url, self._headers, deadline=call.deadline)
        try:
            result = session.call(call.payload["tool"], call.payload["arguments"], meta)
        except _Failed as failed:
            if not failed.begun:
                return Refused(detail=f"not sent: no session ({failed})", sent=False)
            if failed.code in _NOT_REACHED:
                return Refused(detail=f"the server said: {failed}")
            return Unknown(detail=str(failed))
        return _verdict(result)

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Ask the look-up tool by the key."""
        if self._look_up_tool is None:
            return super().look_up(effect, deadline=deadline)
        session = _Session(self._url, self._headers, deadline=deadline)
        try:
            result = session.call(self._look_up_tool, {"key": effect.effect_id}, {})
        except _Failed as failed:
            return DontKnow(detail=str(failed))
        said = _structured(result)
        if result.is_error or not isinstance(said, Mapping):
            return DontKnow(detail=f"the look-up tool said: {_quoted(result)}")
        match said.get("found"):
            case True:
                return Happened(receipt=said.get("receipt") or dict(said))
            case False:
                return Absent(detail="the server knows nothing under this key")
            case _:
                return DontKnow(detail="the look-up tool's answer has no 'found'")


class _Failed(Exception):
    """`begun` once the call's own request may have gone out; `code` where the server answered by JSON-RPC."""

    def __init__(self, message: str, *, begun: bool, code: int | None = None) -> None:
        super().__init__(message)
        self.begun = begun
        self.code = code


class _Session:
    """One connection, one call, all within the deadline."""

    def __init__(self, url: str, headers: Mapping[str, str], *, deadline: float) -> None:
        self._url = url
        self._headers = headers
        self._deadline = deadline
        self._begun = False
        self._result: CallToolResult | None = None

    def call(
        self, tool: str, arguments: Mapping[str, Json], meta: Mapping[str, str]
    ) -> CallToolResult:
        """The tool's result. Raises _Failed."""
        from mcp import MCPError

        left = self._deadline - time.monotonic()
        try:
            with ThreadPoolExecutor(
                1
            ) as own:  # the caller's thread may already have a running loop
                own.submit(
                    asyncio.run, asyncio.wait_for(self._talk(tool, arguments, meta), max(0.0, left))
                ).result()
        except Exception as error:
            cause = _innermost(error)
            if self._result is None:
                code = cause.error.code if isinstance(cause, MCPError) else None
                raise _Failed(_said(cause), begun=self._begun, code=code) from error
        assert self._result is not None, "a talk that ended well has a result"
        return self._result

    async def _talk(
        self, tool: str, arguments: Mapping[str, Json], meta: Mapping[str, Any]
    ) -> None:
        import httpx2
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=None) as client,
            streamable_http_client(self._url, http_client=client) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            self._begun = True
            self._result = await session.call_tool(
                tool, dict(arguments), meta=cast("RequestParamsMeta", dict(meta))
            )


def _verdict(result: CallToolResult) -> Sent:
    gate = (result.meta or {}).get(GATE)
    if gate is not None:
        detail = f"the gate answered {gate}"
        return Refused(detail=detail) if gate in TURNED_AWAY else Unknown(detail=detail)
    if result.is_error:
        return Unknown(detail=f"the tool failed, perhaps after it had acted: {_quoted(result)}")
    said = _structured(result)
    if said is not None:
        try:
            text = canonical(said)
        except NotEncodable:
            return Happened(receipt={"text": _quoted(result)})
        if len(text) <= LARGEST_QUOTED_BYTES:
            return Happened(receipt=said)
        return Happened(receipt={"digest": digest(text), "bytes": len(text)})
    return Happened(receipt={"text": _quoted(result)})


def _structured(result: CallToolResult) -> Json:
    """What the tool answered as JSON; from its text where it has no structured content."""
    if result.structured_content is not None:
        return result.structured_content
    try:
        return json.loads(_quoted(result))
    except ValueError:
        return None


def _quoted(result: CallToolResult) -> str:
    texts = [getattr(block, "text", "") for block in result.content]
    return "\n".join(text for text in texts if text)[:LARGEST_QUOTED_BYTES]


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
