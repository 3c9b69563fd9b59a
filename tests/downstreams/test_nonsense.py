"""Whatever a model may write into a payload: it is taken, or refused by name; nothing else ever comes out."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenure.downstreams.git_commit import intended
from tenure.downstreams.smtp import _compose
from tenure.errors import NotEncodable
from tests.downstreams.test_adapters import COMMIT, DOCUMENT, MAIL, NEW, OBJECT, OLD, _adapters

TEXT = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "",
            "\r\n.\r\n",
            "a\nBcc: x@example.org",
            "\x00",
            "../..",
            "\udc80",
            "é" * 300,
            "=?utf-8?q?x?=",
        ]
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)
GOOD: dict[str, tuple[Any, Any]] = {
    "smtp": (MAIL, None),
    "git": (COMMIT, OLD),
    "s3": (OBJECT, NEW),
    "etag": (DOCUMENT, NEW),
    "chat": ({"channel": "c", "text": "t"}, None),
    "mcp": ({"tool": "t", "arguments": {}}, None),
    "http": ({"amount": 1}, None),
    "reservation": ({"amount": 1}, None),
    "sql": ({"amount": 1}, None),
}
ADAPTERS = _adapters()
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", list(GOOD))
@QUICK
@given(data=st.data())
def test_a_payload_is_taken_or_refused_by_name(kind: str, data: st.DataObject) -> None:
    payload, condition = GOOD[kind]
    ADAPTERS[kind].check(payload, condition)
    if data.draw(st.booleans(), label="all of it"):
        payload, condition = data.draw(JSON), data.draw(JSON)
    else:
        name = data.draw(st.sampled_from(sorted(payload)))
        payload = {**payload, name: data.draw(JSON)}
    with contextlib.suppress(NotEncodable):
        ADAPTERS[kind].check(payload, condition)
        json.dumps([payload, condition], allow_nan=False).encode()


@QUICK
@given(
    values=st.fixed_dictionaries({"subject": TEXT, "text": TEXT, "html": TEXT, "reply_to": TEXT})
)
@example(values={"subject": "0", "text": "", "html": "", "reply_to": "0@"})
def test_no_text_ever_makes_a_header_or_a_recipient(values: dict[str, str]) -> None:
    with contextlib.suppress(NotEncodable):
        message, sender, recipients = _compose({**MAIL, **values}, effect_id="0" * 64)
        wire = message.as_bytes()
        head = wire.split(b"\r\n\r\n")[0].lower().split(b"\r\n")
        assert (sender, recipients) == (MAIL["from"], MAIL["to"])
        assert not any(line.startswith(b"bcc:") for line in head)
        assert wire.count(b"\n") == wire.count(b"\r\n")


@QUICK
@given(path=TEXT, text=TEXT)
def test_no_path_ever_leaves_the_repository(path: str, text: str) -> None:
    with contextlib.suppress(NotEncodable):
        wanted = intended({**COMMIT, "files": {path: {"text": text}}}, OLD)
        [kept] = wanted.files
        parts = kept.split("/")
        assert not {"", ".", "..", ".git"} & {part.lower() for part in parts}
        assert "\0" not in kept
