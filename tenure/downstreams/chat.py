"""A chat that can be asked for a message by our tag, and that dedupes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tenure.canonical import canonical
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Sent,
    overdue,
)
from tenure.downstreams.exchange import Answered, exchange, new_client, verdict
from tenure.downstreams.fields import Fields, no_condition
from tenure.downstreams.headers import headers_of
from tenure.records import Json


class ChatPost(Adapter):
    """Payload `{"channel", "text"}`. The tag travels with the message as `tag_field`; the look-up asks for exactly it.

    `look_up_url` has `{key}` where the tag goes and answers `{"messages": [...]}`.
    """

    kind: ClassVar[str] = "chat"
    limits: ClassVar[str] = (
        "A second arrival is a second message. Being absent proves nothing while a call may still arrive: the task is "
        "NON_REPLAYABLE unless our egress proxy refuses late calls."
    )

    def __init__(
        self,
        url: str,
        *,
        look_up_url: str,
        tag_field: str = "client_tag",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(Guarantee.QUERY_ONLY)
        if "{key}" not in look_up_url:
            raise ValueError("look_up_url needs {key} where the message's tag goes")
        self._url = url
        self._look_up_url = look_up_url
        self._tag_field = tag_field
        self._client = new_client(headers)

    def check(self, payload: Json, condition: Json) -> None:
        """A channel and a text; the tag is ours."""
        fields = Fields(payload, "/payload", known={"channel", "text"})
        fields.text("channel", meaning="where the message goes")
        fields.text("text", meaning="what it says")
        no_condition(condition, "a chat")

    def send(self, call: Call) -> Sent:
        """One post."""
        if late := overdue(call):
            return late
        answer = exchange(
            self._client,
            "POST",
            self._url,
            deadline=call.deadline,
            headers={"Content-Type": "application/json", **headers_of(call)},
            content=canonical({**call.payload, self._tag_field: call.effect_id}),
        )
        return verdict(answer) if isinstance(answer, Answered) else answer

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Ask for messages with our tag; anything else in the answer is not evidence."""
        url = self._look_up_url.format(key=effect.effect_id)
        answer = exchange(self._client, "GET", url, deadline=deadline)
        if not isinstance(answer, Answered):
            return DontKnow(detail=answer.detail)
        if answer.status != 200:
            return DontKnow(detail=f"the look-up was answered with HTTP {answer.status}")
        messages = _messages(answer)
        if messages is None:
            return DontKnow(detail="the look-up's answer has no list of messages")
        for message in messages:
            if isinstance(message, Mapping) and message.get(self._tag_field) == effect.effect_id:
                return Happened(receipt=dict(message))
        return Absent(detail="no message carries this tag")


def _messages(answer: Answered) -> list[Json] | None:
    try:
        body = answer.json()
    except ValueError:
        return None
    messages = body.get("messages") if isinstance(body, Mapping) else None
    return messages if isinstance(messages, list) else None
