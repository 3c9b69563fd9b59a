"""A bank behind a gate, as a process: `python -m tests.races.gated_bank`, with a gate's token. Prints its address.

POST /payments pays, once the gate lets it, and dedupes nothing; GET /log tells what arrived and what was performed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tenure.gate import Gate
from tenure.gate.wsgi import WsgiGate


@dataclass
class Bank:
    """What stands behind the gate, and everything that it knows."""

    arrived: list[str] = field(default_factory=list)
    performed: list[dict[str, str]] = field(default_factory=list)

    def act(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        if environ["REQUEST_METHOD"] == "GET":
            answer: Any = {"arrived": self.arrived, "performed": self.performed}
        else:
            key, digest = environ["HTTP_IDEMPOTENCY_KEY"], environ["HTTP_TENURE_PAYLOAD_DIGEST"]
            self.performed.append({"key": key, "digest": digest})
            answer = {"payment": f"p{len(self.performed)}"}
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Quiet."""


def main() -> None:
    bank = Bank()
    with Gate(os.environ["TENURE_URL"], os.environ["TENURE_TOKEN"], downstream="bank") as gate:
        gated = WsgiGate(bank.act, gate)

        def application(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            if environ["REQUEST_METHOD"] == "POST":
                bank.arrived.append(f"POST {environ['PATH_INFO']}")
            return gated(environ, start)

        server = make_server("127.0.0.1", 0, application, WSGIServer, _Quiet)
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
