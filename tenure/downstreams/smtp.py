"""Mail by SMTP: nobody can be asked afterwards, so a person approves each message, or it stands behind a gate."""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import partial
from typing import ClassVar

from tenure.downstreams.base import (
    Adapter,
    Call,
    Guarantee,
    Happened,
    Refused,
    Sent,
    Unknown,
    overdue,
)
from tenure.downstreams.fields import Fields, no_condition
from tenure.records import Json

#: A folded Message-ID is legal, and not everybody reads it; ours are longer than a line should be.
_POLICY = SMTP.clone(max_line_length=200)
_LINE_WITH_A_DOT = re.compile(rb"(?m)^\.")
_ADDRESS = re.compile(r"^[!-;=?A-~]+@[!-;=?A-~]+$")
_KNOWN = frozenset({"from", "to", "cc", "reply_to", "subject", "text", "html"})
MOST_RECIPIENTS = 100
#: "Service not available, closing": said in the middle of things, it proves nothing.
_CLOSING = 421


class Smtp(Adapter):
    """Payload `{"from", "to": [...], "subject", "text"}` and, if wanted, `cc`, `reply_to`, `html`.

    The Message-ID is made of the effect's id, so a duplicate can be told by whoever receives two. All recipients
    are taken by the server, or the message is sent to none.
    """

    kind: ClassVar[str] = "smtp"
    limits: ClassVar[str] = (
        "A mail server dedupes nothing and can't be asked: after a lost answer only a person can say whether it went "
        "out. That a server took it does not say that anybody received it."
    )
    can_be_asked = False

    def __init__(
        self,
        host: str,
        port: int = 25,
        *,
        starttls: bool = False,
        tls: ssl.SSLContext | None = None,
        user: str | None = None,
        password: str = "",
        local_name: str | None = None,
    ) -> None:
        super().__init__(Guarantee.NONE)
        self._address = (host, port)
        self._starttls = starttls
        self._tls = tls
        self._user = user
        self._password = password
        self._local_name = local_name

    def check(self, payload: Json, condition: Json) -> None:
        """Addresses, a subject and a text; no condition, because a mail server knows none."""
        no_condition(condition, "a mail server")
        _compose(payload, effect_id="0" * 64)

    def send(self, call: Call) -> Sent:
        """One message to all its recipients."""
        if late := overdue(call):
            return late
        message, sender, recipients = _compose(call.payload, effect_id=call.effect_id)
        message["Date"] = format_datetime(datetime.now(UTC))
        message["Tenure-Dispatch"] = call.dispatch_id
        try:
            link = self._connect(call)
        except (OSError, smtplib.SMTPException) as error:
            return Refused(detail=f"not sent: no mail server ({error})", sent=False)
        try:
            refused = _envelope(link, call, sender, recipients)
            return refused or _hand_over(link, call, message)
        finally:
            link.close()

    def _connect(self, call: Call) -> smtplib.SMTP:
        link = smtplib.SMTP(
            *self._address,
            local_hostname=self._local_name,
            timeout=max(0.001, call.remaining()),
        )
        try:
            if self._starttls:
                link.starttls(context=self._tls or ssl.create_default_context())
            if self._user is not None:
                link.login(self._user, self._password)
            link.ehlo_or_helo_if_needed()
        except BaseException:
            link.close()
            raise
        return link


def _envelope(link: smtplib.SMTP, call: Call, sender: str, recipients: list[str]) -> Refused | None:
    """Sender and recipients. Until DATA the server has no message, so nothing that fails here has sent one."""
    try:
        steps: list[Callable[[], tuple[int, bytes]]] = [lambda: link.mail(sender)]
        steps += [partial(link.rcpt, name) for name in recipients]
        for step in steps:
            if late := _hurry(link, call):
                return late
            code, reply = step()
            if not 200 <= code < 300:
                return Refused(detail=f"the mail server said {code} {_text(reply)}")
    except (OSError, smtplib.SMTPException) as error:
        return Refused(detail=f"not sent: the message had not begun ({error})", sent=False)
    return _hurry(link, call)


def _hand_over(link: smtplib.SMTP, call: Call, message: EmailMessage) -> Sent:
    """The message. Once its last line may be out, only the server's own word counts."""
    try:
        code, reply = link.docmd("DATA")
        if code != 354:
            return Refused(detail=f"the mail server said {code} {_text(reply)} before the message")
    except (OSError, smtplib.SMTPException) as error:
        return Refused(detail=f"not sent: the message had not begun ({error})", sent=False)
    if late := _hurry(link, call):
        return late
    try:
        body = message.as_bytes(policy=_POLICY)
        link.send(_LINE_WITH_A_DOT.sub(b"..", body).rstrip(b"\r\n") + b"\r\n.\r\n")
        code, reply = link.getreply()
    except (OSError, smtplib.SMTPException) as error:
        return Unknown(detail=f"no answer to the message: {type(error).__name__} {error}")
    said = f"{code} {_text(reply)}"
    if 200 <= code < 300:
        return Happened(
            receipt={
                "message_id": message["Message-ID"],
                "dispatch_id": call.dispatch_id,
                "reply": said,
            }
        )
    if code == _CLOSING or code < 400:
        return Unknown(detail=f"the mail server said {said}")
    return Refused(detail=f"the mail server said {said}")


def _hurry(link: smtplib.SMTP, call: Call) -> Refused | None:
    """Each step may take what is left; a message that has not begun by the deadline is not begun."""
    if late := overdue(call):
        return late
    if link.sock is not None:
        link.sock.settimeout(call.remaining())
    return None


def _compose(payload: Json, *, effect_id: str) -> tuple[EmailMessage, str, list[str]]:
    """The message, its sender and its recipients; the same for every dispatch but for Date and Tenure-Dispatch."""
    fields = Fields(payload, "/payload", known=_KNOWN)
    sender = _address(fields, "from", fields.text("from", meaning="the sender's address"))
    to = fields.texts("to", meaning="the recipients' addresses")
    cc = fields.texts("cc", meaning="further recipients") if fields.get("cc") is not None else []
    recipients = [_address(fields, "to", name) for name in (*to, *cc)]
    if len(recipients) > MOST_RECIPIENTS:
        raise fields.wrong("to", f"at most {MOST_RECIPIENTS} recipients in one message")
    message = EmailMessage(policy=_POLICY)
    headers = {
        "From": sender,
        "To": ", ".join(to),
        "Cc": ", ".join(cc),
        "Reply-To": fields.optional_text("reply_to", meaning="an address"),
        "Subject": fields.text("subject", meaning="one line"),
        "Message-ID": f"<{effect_id}@{sender.rpartition('@')[2]}>",
        "Tenure-Effect": effect_id,
    }
    for name, value in headers.items():
        if value:
            try:
                message[name] = value
            except (ValueError, IndexError) as error:
                # Python's parser trips over the end of "someone@".
                why = (
                    f"one line of a header: {error}"
                    if isinstance(error, ValueError)
                    else "an address like someone@example.org"
                )
                raise fields.wrong(name.lower().replace("-", "_"), f"not {why}") from error
    message.set_content(fields.text("text", meaning="the message"))
    html = fields.optional_text("html", meaning="the message as HTML")
    if html is not None:
        message.add_alternative(html, subtype="html")
        message.set_boundary(f"tenure-{effect_id[:32]}")
    return message, sender, recipients


def _address(fields: Fields, name: str, value: str) -> str:
    if not _ADDRESS.match(value):
        raise fields.wrong(name, f"{value!r} is not a plain address like someone@example.org")
    return value


def _text(reply: bytes) -> str:
    return reply.decode(errors="replace")
