"""A git server over HTTP: git's own http-backend behind the smallest possible HTTP server."""

from __future__ import annotations

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self


class GitServer:
    """Serves the bare repositories in a folder, reading and writing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

        class Bound(_Backend):
            root = folder

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.address: tuple[str, int] = ("127.0.0.1", self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def make(self, name: str) -> Path:
        """An empty bare repository that takes pushes, and no forced ones."""
        path = self.folder / name
        git("init", "--quiet", "--bare", str(path))
        for setting in (
            "http.receivepack=true",
            "receive.denyNonFastForwards=true",
            "receive.denyDeletes=true",
        ):
            git("-C", str(path), "config", *setting.split("="))
        return path


class _Backend(BaseHTTPRequestHandler):
    root: Path

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [line.decode().split(": ", 1) for line in head.split(b"\r\n") if b": " in line]
        status = next((value.split()[0] for name, value in headers if name == "Status"), "200")
        try:
            self.send_response(int(status))
            for name, value in headers:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the caller has gone; what was done is done

    do_POST = do_GET  # noqa: N815 - the library's name

    def log_message(self, *_: object) -> None:
        """Quiet."""


def git(*words: str) -> str:
    """What git said; no configuration of the machine's comes in."""
    env = {
        **os.environ,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "LC_ALL": "C",
    }
    done = subprocess.run(["git", *words], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()
