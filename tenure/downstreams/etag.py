"""A REST resource with ETags: written only while it is as it was when the effect was prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tenure.canonical import canonical, digest
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Present,
    Sent,
    overdue,
    receipt_about,
)
from tenure.downstreams.exchange import Answered, exchange, new_client, verdict
from tenure.downstreams.fields import Fields
from tenure.downstreams.headers import headers_of
from tenure.records import Json


class EtagResource(Adapter):
    """Payload `{"path", "body"}`, condition `{"if_match": etag}` or `{"if_none_match": "*"}`.

    `marker` is the member of the resource that says which effect wrote it last. Without one a resource that has
    changed can't be told from one that somebody else changed, and only an unchanged one settles anything.
    """

    kind: ClassVar[str] = "etag"
    limits: ClassVar[str] = (
        "ETags must be strong and never return: a resource that is deleted and made again with the same tag takes a "
        "late call. A later writer that drops the marker hides that ours came first; a person decides then."
    )

    can_present = True

    def __init__(
        self,
        base_url: str,
        *,
        method: str = "PUT",
        marker: str | None = "tenure_effect",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(Guarantee.CONDITIONAL_WRITE)
        self._base = base_url.rstrip("/")
        self._method = method
        self._marker = marker
        self._client = new_client(headers)

    def check(self, payload: Json, condition: Json) -> None:
        """A path, a body that leaves the marker to us, and exactly one of the two conditions."""
        fields = Fields(payload, "/payload", known={"path", "body"})
        if not fields.text("path", meaning="the resource, beginning with /").startswith("/"):
            raise fields.wrong("path", "it has to begin with /")
        if self._marker is not None and self._marker in fields.object("body", meaning="as written"):
            raise fields.wrong(f"body/{self._marker}", "this member is the marker; leave it out")
        _precondition(condition)

    def send(self, call: Call) -> Sent:
        """One conditional write."""
        if late := overdue(call):
            return late
        name, value = _precondition(call.condition)
        body = call.payload["body"]
        if self._marker is not None:
            body = {**body, self._marker: call.effect_id}
        answer = exchange(
            self._client,
            self._method,
            self._base + call.payload["path"],
            deadline=call.deadline,
            headers={"Content-Type": "application/json", **headers_of(call), name: value},
            content=canonical(body),
        )
        return verdict(answer) if isinstance(answer, Answered) else answer

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Read the resource: its marker says that it happened, an unchanged tag that it did not."""
        name, value = _precondition(effect.condition)
        answer = exchange(
            self._client, "GET", self._base + effect.payload["path"], deadline=deadline
        )
        if not isinstance(answer, Answered):
            return DontKnow(detail=answer.detail)
        etag = answer.headers.get("ETag")
        if answer.status == 404 and name == "If-None-Match":
            return Absent(detail="the resource is not there, as before")
        if answer.status != 200:
            return DontKnow(detail=f"the resource answered HTTP {answer.status}")
        if name == "If-Match" and etag == value:
            return Absent(detail="the resource is unchanged")
        if self._marker is not None and _member(answer, self._marker) == effect.effect_id:
            return Happened(receipt=receipt_about(effect, path=effect.payload["path"]), etag=etag)
        return DontKnow(
            detail="the resource has changed, and nothing in it says whether by this effect"
        )

    def present(self, effect: Bound, *, deadline: float) -> Present | DontKnow:
        """The resource as it answers now, without the marker; its tag, and whose effect the marker names."""
        name, value = _precondition(effect.condition)
        path, body = effect.payload["path"], effect.payload["body"]
        answer = exchange(self._client, "GET", self._base + path, deadline=deadline)
        if not isinstance(answer, Answered):
            return DontKnow(detail=answer.detail)
        if answer.status not in {200, 404}:
            return DontKnow(detail=f"the resource answered HTTP {answer.status}")
        is_there, etag = answer.status == 200, answer.headers.get("ETag")
        present, writer = self._unmarked(answer) if is_there else (None, None)
        return Present(
            there={"path": path, "body": present} if is_there else None,
            instead={"path": path, "body": body},
            facts={"etag": etag, "written_by_effect": writer} if is_there else {},
            condition_holds=etag == value if name == "If-Match" else not is_there,
        )

    def _unmarked(self, answer: Answered) -> tuple[Json, Json]:
        """The body without the marker, and the marker; what is no JSON by its size and digest."""
        try:
            body = answer.json()
        except (ValueError, RecursionError):
            return {"bytes": len(answer.content), "digest": digest(answer.content)}, None
        if self._marker is None or not isinstance(body, Mapping):
            return body, None
        return {name: each for name, each in body.items() if name != self._marker}, body.get(
            self._marker
        )


def _precondition(condition: Json) -> tuple[str, str]:
    """The header that carries the pre-state."""
    fields = Fields(condition, "/condition", known={"if_match", "if_none_match"})
    tag = fields.optional_text("if_match", meaning="the resource's strong ETag, with its quotes")
    if (tag is None) == (fields.get("if_none_match") is None):
        raise fields.wrong("", "exactly one of 'if_match' and 'if_none_match' is wanted")
    if tag is not None:
        if tag.startswith("W/") or not tag.startswith('"'):
            raise fields.wrong("if_match", "a strong ETag is wanted, with its quotes")
        return "If-Match", tag
    if fields.get("if_none_match") != "*":
        raise fields.wrong("if_none_match", "only '*' says that it must not exist")
    return "If-None-Match", "*"


def _member(answer: Answered, name: str) -> Json:
    try:
        body = answer.json()
    except ValueError:
        return None
    return body.get(name) if isinstance(body, Mapping) else None
