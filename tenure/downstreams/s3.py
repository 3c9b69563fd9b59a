"""An object store that takes conditional writes: If-None-Match and If-Match (S3 and its kin)."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, ClassVar

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
    Refused,
    Sent,
    Unknown,
    overdue,
)
from tenure.downstreams.fields import Fields
from tenure.downstreams.showing import LARGEST_SHOWN_BYTES, form_of, shown
from tenure.records import Json

#: The object's own memory of who wrote it.
EFFECT = "tenure-effect"
CONTENT = "tenure-sha256"
_KNOWN = frozenset({"key", "text", "base64", "content_type"})
_FALSE_CONDITION = frozenset({409, 412})


class S3(Adapter):
    """Payload `{"key", "text" or "base64", "content_type"?}`.

    Condition `{"if_none_match": "*"}` or `{"if_match": etag}`. `options` go to boto3: `endpoint_url`, `region_name`,
    credentials.
    """

    kind: ClassVar[str] = "s3"
    limits: ClassVar[str] = (
        "The store must honour the conditions on PUT (not every kin of S3 does: prove it once), and nobody may delete "
        "the key while a call can still arrive. An object that somebody overwrote hides whether ours came first."
    )

    can_present = True

    def __init__(self, bucket: str, **options: Any) -> None:
        import boto3

        super().__init__(Guarantee.CONDITIONAL_WRITE)
        self._bucket = bucket
        self._session = boto3.session.Session()
        self._options = options
        self._making = threading.Lock()  # a session makes one client at a time

    def check(self, payload: Json, condition: Json) -> None:
        """A key, a content, and exactly one of the two conditions."""
        fields = Fields(payload, "/payload", known=_KNOWN)
        fields.text("key", meaning="the object's name in the bucket")
        fields.optional_text("content_type", meaning="a media type")
        fields.content()
        _precondition(condition)

    def send(self, call: Call) -> Sent:
        """One conditional PUT."""
        from botocore.exceptions import BotoCoreError, ClientError

        if late := overdue(call):
            return late
        content, kind = _object(call.payload)
        try:
            with closing(self._client(call.deadline)) as client:
                answer = client.put_object(
                    Bucket=self._bucket,
                    Key=call.payload["key"],
                    Body=content,
                    ContentType=kind,
                    Metadata={EFFECT: call.effect_id, CONTENT: hashlib.sha256(content).hexdigest()},
                    **_precondition(call.condition),
                )
        except ClientError as error:
            return _refused(error.response)
        except BotoCoreError as error:
            return _unanswered(error)
        return self._happened(call, answer)

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Ask for the object's head: it names its effect and the digest of its content."""
        from botocore.exceptions import BotoCoreError, ClientError

        condition = _precondition(effect.condition)
        try:
            with closing(self._client(deadline)) as client:
                head = self._head(client, effect.payload["key"])
        except ClientError as error:
            return DontKnow(detail=f"the look-up was answered with {error}")
        except BotoCoreError as error:
            return DontKnow(detail=f"{type(error).__name__}: {error}")
        if head is None:
            if "IfNoneMatch" in condition:
                return Absent(detail="no object has this key, as before")
            return DontKnow(detail="the object that was to be replaced is gone")
        if head["ETag"].strip('"') == condition.get("IfMatch"):
            return Absent(detail="the object is unchanged")
        if head.get("Metadata", {}).get(EFFECT) == effect.effect_id:
            return self._happened(effect, head)
        return DontKnow(
            detail="the key has another's object; whether ours was there before it, nobody can tell"
        )

    def present(self, effect: Bound, *, deadline: float) -> Present | DontKnow:
        """The object's tag, size and type; its content where that is small."""
        from botocore.exceptions import BotoCoreError, ClientError

        condition, key = _precondition(effect.condition), effect.payload["key"]
        content, kind = _object(effect.payload)
        form = form_of(effect.payload)
        head: Mapping[str, Any] | None = None
        there: dict[str, Json] | None = None
        try:
            with closing(self._client(deadline)) as client:
                head = self._head(client, key)
            if head is not None:
                there = self._content(key, head, form, deadline=deadline)
        except ClientError as error:
            return DontKnow(detail=f"the object could not be read: {error}")
        except BotoCoreError as error:
            return DontKnow(detail=f"{type(error).__name__}: {error}")
        return Present(
            there=there,
            instead={"key": key, **shown(content, form), "content_type": kind},
            facts=_facts(head) if head else {},
            condition_holds=head["ETag"].strip('"') == condition.get("IfMatch")
            if head
            else "IfNoneMatch" in condition,
        )

    def _head(self, client: Any, key: str) -> Mapping[str, Any] | None:
        """The object's head; None where the bucket is there and says that it has no such key.

        A HEAD has no body to say why it is answered with 404: the bucket may be gone, or another one be meant, and
        nothing is known of the key then. So a GET asks once more, and its error is named. Raises ClientError.
        """
        from botocore.exceptions import ClientError

        try:
            found: Mapping[str, Any] = client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if _status(error.response) != 404:
                raise
        else:
            return found
        try:
            answer = client.get_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "NoSuchKey":
                return None
            raise
        answer["Body"].close()  # somebody has written it in between
        written: Mapping[str, Any] = answer
        return written

    def _content(
        self, key: str, head: Mapping[str, Any], form: str, *, deadline: float
    ) -> dict[str, Json]:
        """The object that was looked at, and no other: it is read under the tag that it had."""
        size = head["ContentLength"]
        digest = head.get("Metadata", {}).get(CONTENT)
        told = {"bytes": size} | ({"sha256": digest} if digest else {})
        if size <= LARGEST_SHOWN_BYTES:
            with closing(self._client(deadline)) as client:
                answer = client.get_object(Bucket=self._bucket, Key=key, IfMatch=head["ETag"])
                told = shown(answer["Body"].read(), form)
        return {"key": key, **told, "content_type": head.get("ContentType")}

    def _happened(self, effect: Bound, answer: Mapping[str, Any]) -> Happened:
        etag = answer["ETag"].strip('"')
        receipt = {"bucket": self._bucket, "key": effect.payload["key"], "etag": etag}
        if answer.get("VersionId"):
            receipt["version_id"] = answer["VersionId"]
        return Happened(receipt={**receipt, "effect_id": effect.effect_id}, etag=etag)

    def _client(self, deadline: float) -> Any:
        """A client that sends once: boto3 would repeat by itself, and its time limits belong to the client."""
        from botocore.config import Config

        left = max(0.001, deadline - time.monotonic())
        config = Config(
            connect_timeout=left,
            read_timeout=left,
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        with self._making:
            return self._session.client("s3", config=config, **self._options)


def _object(payload: Json) -> tuple[bytes, str]:
    """The content that a payload puts there, and its media type."""
    content = Fields(payload, "/payload", known=_KNOWN).content()
    return content, payload.get("content_type") or "application/octet-stream"


def _facts(head: Mapping[str, Any]) -> dict[str, Json]:
    changed = head.get("LastModified")
    return {
        "etag": head["ETag"].strip('"'),
        "bytes": head["ContentLength"],
        "last_modified": changed.isoformat() if changed else None,
        "written_by_effect": head.get("Metadata", {}).get(EFFECT),
    }


def _precondition(condition: Json) -> dict[str, str]:
    fields = Fields(condition, "/condition", known={"if_match", "if_none_match"})
    tag = fields.optional_text("if_match", meaning="the object's ETag")
    if (tag is None) == (fields.get("if_none_match") is None):
        raise fields.wrong("", "exactly one of 'if_match' and 'if_none_match' is wanted")
    if tag is not None:
        return {"IfMatch": tag.strip('"')}
    if fields.get("if_none_match") != "*":
        raise fields.wrong("if_none_match", "only '*' says that it must not exist")
    return {"IfNoneMatch": "*"}


def _status(response: Mapping[str, Any]) -> int:
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _refused(response: Mapping[str, Any]) -> Sent:
    """412: the condition is false, perhaps by our own first write. 409: another write was under way."""
    status = _status(response)
    error = response.get("Error", {})
    detail = f"HTTP {status} {error.get('Code', '')}: {error.get('Message', '')}"
    if 400 <= status < 500 and status not in _FALSE_CONDITION and status != 408:
        return Refused(detail=detail)
    return Unknown(detail=detail)


def _unanswered(error: Exception) -> Sent:
    from botocore import exceptions

    not_sent = (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.NoCredentialsError,
        exceptions.ParamValidationError,
    )
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, not_sent):
        return Refused(detail=f"not sent: {detail}", sent=False)
    return Unknown(detail=detail)
