"""Private servers that peers need besides PostgreSQL: Redis, RabbitMQ, etcd, from the operating system's packages."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

READY_SECONDS = 60
STOP_SECONDS = 20
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Server:
    """A server process with a folder of its own; stopped when it is left."""

    def __init__(
        self, command: list[str], port: int, folder: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.command, self.port, self.folder = command, port, folder
        self.environment = os.environ | (environment or {})

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = (self.folder / "out.log").open("ab")
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            cwd=self.folder,
            env=self.environment,
        )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def _wait(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.command[0]} ended with {self.process.returncode}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"nothing listens on port {self.port}")


class Rabbit(Server):
    """The port mapper that the broker starts outlives it, and is stopped as well."""

    def stop(self) -> None:
        super().stop()
        mapper = ["epmd", "-port", str(self.port + 2), "-kill"]
        subprocess.run(mapper, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def redis(port: int, folder: Path) -> tuple[Server, str]:
    """An append-only file synced each second, the common durable choice."""
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes"]
    command += ["--appendfsync", "everysec", "--save", "", "--dir", str(folder)]
    return Server(command, port, folder), f"redis://127.0.0.1:{port}/0"


def etcd(port: int, folder: Path) -> tuple[Server, str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    command = ["etcd", "--data-dir", str(folder / "data"), "--log-level", "error"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    command += ["--initial-cluster", f"default={peer}"]
    return Server(command, port, folder), client


def rabbitmq(port: int, folder: Path) -> tuple[Server, str]:
    environment = {
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_DIST_PORT": str(port + 1),
        "ERL_EPMD_PORT": str(port + 2),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "HOME": str(folder),
    }
    address = f"amqp://guest:guest@127.0.0.1:{port}//"
    return Rabbit([str(RABBITMQ)], port, folder, environment), address


def is_installed(name: str) -> bool:
    """Whether the packages that a broker's peer needs are there."""
    match name:
        case "redis":
            return shutil.which("redis-server") is not None
        case "etcd":
            return shutil.which("etcd") is not None
        case _:
            return RABBITMQ.exists()
