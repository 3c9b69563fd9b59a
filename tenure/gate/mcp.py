"""The gate around a tool of an MCP server."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tenure.downstreams.mcp_tool import GATE, META
from tenure.gate.redeeming import Gate, Pass, Turned
from tenure.records import Json

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Tool = Callable[..., Any]


def gated(gate: Gate, *, reports: bool = True) -> Callable[[Tool], Tool]:
    """Let a tool act only once its call's dispatch is redeemed.

    The tool takes a keyword `ctx` (the server's `Context`) besides its arguments. The payload is the call as it came
    in, before the server has filled in defaults and converted types. A call that is turned away gets an error result
    that says so, and the tool is not entered::

        @server.tool()
        @gated(gate)
        def pay(amount: int, ctx: Context) -> Paid: ...
    """

    def wrap(tool: Tool) -> Tool:
        if "ctx" not in inspect.signature(tool).parameters:
            raise ValueError(
                f"{tool.__name__} needs a parameter `ctx: Context`: the call's pass is in it"
            )

        @functools.wraps(tool)
        async def guarded(*args: Any, **arguments: Any) -> Any:
            shown = _shown(gate, arguments["ctx"].request_context)
            turned = (
                shown if isinstance(shown, Turned) else await asyncio.to_thread(gate.redeem, shown)
            )
            if turned is not None:
                return _refusal(turned)
            assert isinstance(shown, Pass), "whoever shows no pass is turned"
            return await _act(gate, shown, tool, args, arguments, reports=reports)

        return guarded

    return wrap


def _shown(gate: Gate, request: Any) -> Pass | Turned:
    meta, params = request.meta or {}, request.params or {}
    payload = {"tool": params.get("name"), "arguments": params.get("arguments") or {}}

    def header(header_name: str) -> str | None:
        value = meta.get(META + header_name.lower())
        return value if isinstance(value, str) else None

    return gate.shown(header, payload)


async def _act(
    gate: Gate,
    shown: Pass,
    tool: Tool,
    args: tuple[Any, ...],
    arguments: dict[str, Any],
    *,
    reports: bool,
) -> Any:
    try:
        result = tool(*args, **arguments)
        if inspect.isawaitable(result):
            result = await result
    except Exception as error:
        if reports:
            detail = f"the tool failed: {type(error).__name__}: {error}"
            await asyncio.to_thread(gate.report, shown, "UNKNOWN", detail=detail)
        raise
    if reports:
        await asyncio.to_thread(gate.report, shown, "COMMITTED", receipt=_receipt(result))
    return result


def _receipt(result: Any) -> Json:
    dump = getattr(result, "model_dump", None)
    value = dump(mode="json") if dump is not None else result
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return {"text": str(value)}
    return {"result": value} if not isinstance(value, dict) else value


def _refusal(turned: Turned) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    text = json.dumps(turned.body)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        is_error=True,
        _meta={GATE: turned.outcome},
    )
