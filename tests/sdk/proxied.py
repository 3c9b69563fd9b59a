"""A proxy before the real coordinator that loses answers: the request has landed, and nobody hears of it."""

from __future__ import annotations

import threading
from collections import Counter

import httpx

from tests.sdk.scripted import Lost, Reply, Seen

_HOP = {"host", "connection", "content-length", "accept-encoding"}


class Proxy:
    """Forwards everything; of each logical call, spoils the first answers: one is lost, the next is a 502."""

    def __init__(self, upstream: str, *, spoil: tuple[str, ...] = ()) -> None:
        self._http = httpx.Client(base_url=upstream, timeout=30)
        self._spoil = spoil
        self._lock = threading.Lock()
        self._times: Counter[str] = Counter()

    def __call__(self, seen: Seen) -> Reply | Lost:
        headers = {name: value for name, value in seen.headers.items() if name.lower() not in _HOP}
        answer = self._http.request(seen.method, seen.path, content=seen.body, headers=headers)
        if seen.path.split("?")[0].endswith(self._spoil):
            with self._lock:
                self._times[f"{seen.path} {seen.key} {seen.body!r}"] += 1
                time = self._times[f"{seen.path} {seen.key} {seen.body!r}"]
            if time == 1:
                return Lost()
            if time == 2:
                return Reply(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"})
        kept = {
            name: answer.headers[name]
            for name in ("content-type", "retry-after")
            if name in answer.headers
        }
        return Reply(answer.status_code, answer.content, {"Content-Type": "", **_titled(kept)})

    def close(self) -> None:
        self._http.close()


def _titled(headers: dict[str, str]) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}
