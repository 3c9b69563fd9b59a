"""An MCP server over streamable HTTP whose tools keep a log of what they really did."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations
from pydantic import BaseModel


class Paid(BaseModel):
    payment: str


class Looked(BaseModel):
    found: bool
    receipt: dict[str, Any] | None = None


class Tools:
    """`pay` acts each time that it is called; `look` tells whether a key was paid; `fail` acts and then fails."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.reject = False
        server = MCPServer("tools")
        key = "tenure/idempotency-key"

        @server.tool(annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=False))
        def pay(amount: int, ctx: Context[Any, Any]) -> Paid:
            """Pay."""
            self.paid.append(str((ctx.request_context.meta or {}).get(key, "")))
            return Paid(payment=f"p{len(self.paid)}")

        @server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def look(key: str) -> Looked:
            """Look up."""
            if key not in self.paid:
                return Looked(found=False)
            return Looked(found=True, receipt={"payment": f"p{self.paid.index(key) + 1}"})

        @server.tool()
        def fail(ctx: Context[Any, Any]) -> Paid:
            """Pay, then break."""
            self.paid.append(str((ctx.request_context.meta or {}).get(key, "")))
            raise RuntimeError("broke after it had acted")

        self.server = server
        self._web = Web(server.streamable_http_app(json_response=True, stateless_http=True))
        self.address = self._web.address

    def __enter__(self) -> Self:
        self._web.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()


class Web:
    """An ASGI app on loopback, in a thread."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = ("127.0.0.1", self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.address[1]}"
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
