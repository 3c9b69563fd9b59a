"""Brokers of their own for a test, started on a host: a system's own service is neither needed nor touched."""

import os
from pathlib import Path
from typing import Final

from tests.hosts.network import Hosts
from tests.hosts.programs import Program

PASSWORD: Final = "reminders"
RABBITMQ: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"


def redis(hosts: Hosts, host: str, folder: Path) -> tuple[Program, str]:
    """The program, and the CELERY_BROKER_URL that leads to it. It keeps nothing over a restart."""
    address, port = hosts.address(host), 6379
    folder.mkdir()
    program = Program(
        hosts, host,
        "redis-server", "--bind", address, "--port", str(port), "--requirepass", PASSWORD,
        "--save", "", "--appendonly", "no", "--dir", str(folder),
        log=folder / "out.log", environment=os.environ, port=port,
    )  # fmt: skip
    return program, f"redis://:{PASSWORD}@{address}:{port}/0"


def rabbitmq(hosts: Hosts, host: str, folder: Path) -> tuple[Program, str]:
    """As `redis`; what it was given stands on its disk."""
    address, port = hosts.address(host), 5672
    folder.mkdir()
    settings = folder / "rabbitmq.conf"
    settings.write_text(
        f"listeners.tcp.1 = {address}:{port}\ndefault_user = tenure\ndefault_pass = {PASSWORD}\n"
    )
    (folder / "plugins").write_text("[].\n")
    environment = {
        **os.environ,
        "HOME": str(folder),  # its nodes' secret
        "RABBITMQ_NODENAME": "tenure@localhost",
        "RABBITMQ_CONFIG_FILE": str(settings),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    program = Program(
        hosts, host, RABBITMQ, log=folder / "out.log", environment=environment, port=port
    )
    return program, f"amqp://tenure:{PASSWORD}@{address}:{port}//"


BROKERS: Final = {"redis": redis, "rabbitmq": rabbitmq}
