"""A mail server on loopback that keeps what it takes."""

from __future__ import annotations

import email
import socket
from typing import Any, Self

from aiosmtpd.controller import Controller


class Mailbox:
    """aiosmtpd, and every message that it has taken; `reject` makes it refuse them."""

    def __init__(self, **options: Any) -> None:
        self.messages: list[email.message.Message] = []
        self.recipients: list[list[str]] = []
        self.reject = ""
        self.reject_recipient = ""
        # It connects to its own port to see whether it has started, so 0 will not do.
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address: tuple[str, int] = ("127.0.0.1", free.getsockname()[1])
        self._controller = Controller(
            self, hostname="127.0.0.1", port=self.address[1], ready_timeout=60, **options
        )

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    def count(self, effect_id: str) -> int:
        return sum(1 for one in self.messages if one["Tenure-Effect"] == effect_id)

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.reject_recipient and address == self.reject_recipient:
            return "550 nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        if self.reject:
            return self.reject
        self.messages.append(email.message_from_bytes(envelope.content))
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 taken"
