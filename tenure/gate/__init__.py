"""The gate: a tool asks the coordinator before it acts, once per permitted call (contract 8.5).

A worker that froze between its permission and its call can't be stopped by anything that it checks itself; only the
tool can refuse it. Put one of these before the tool, with a credential of scope `gate`:

- `tenure.gate.wsgi.WsgiGate` and `tenure.gate.asgi.AsgiGate` before a web application,
- `tenure.gate.mcp.gated` around a tool of an MCP server,
- `tenure.gate.egress.EgressProxy` before somebody else's service, which refuses calls that are late.
"""

from tenure.gate.redeeming import Gate, Pass, Turned

__all__ = ["Gate", "Pass", "Turned"]
