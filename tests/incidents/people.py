"""People who run an incident over HTTP alone, against a server that is really there."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx


@dataclass
class Person:
    """Somebody with a token. Each call gives the answer's status and body."""

    url: str
    token: str

    def get(self, path: str) -> Any:
        reply = self._send("GET", path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        reply = self._send("POST", path, json=body)
        return reply.status_code, reply.json()

    def must(self, path: str, body: dict[str, Any]) -> Any:
        """A call that has to be granted."""
        status, answer = self.post(path, body)
        assert status in (200, 201), answer
        return answer

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": str(uuid4())}
        return httpx.request(
            method, f"{self.url}/api/v1{path}", headers=headers, timeout=60, **content
        )
