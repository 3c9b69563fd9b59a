"""The example's outside world keeps the promises that it is registered with, and its payloads can be sent."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.review.effects import commit_of, mail_of, object_of
from examples.review.report import make_report
from examples.review.store import LARGEST_BYTES, ObjectStore
from tenure.downstreams import EtagResource, GitRemote, Smtp

ONCE = {"If-None-Match": "*"}


@pytest.fixture
def outside() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60) as client:
        yield client


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "objects", lose_first=False, say=said.append) as running:
        yield running


def test_an_object_is_written_once_and_never_over_another(
    store: ObjectStore, outside: httpx.Client
) -> None:
    url = f"{store.url}/reviews/a.json"
    assert outside.get(url).status_code == 404
    assert outside.put(url, content=b"1").status_code == 428
    first = outside.put(url, content=b"1", headers=ONCE)
    assert first.status_code == 201
    assert outside.put(url, content=b"2", headers=ONCE).status_code == 412
    read = outside.get(url)
    assert (read.content, read.headers["ETag"]) == (b"1", first.headers["ETag"])
    assert [file.name for file in store.folder.rglob("*") if file.is_file()] == ["a.json"]


@pytest.mark.parametrize(
    "name", ["/", "/../a", "/a/../../b", "/.new", "/a//b", "/a?b", "/%2e%2e/a"]
)
def test_a_name_that_leads_elsewhere_names_nothing(name: str, store: ObjectStore) -> None:
    assert store.path(name) is None


def test_what_is_too_large_is_refused_unread(store: ObjectStore) -> None:
    line = http.client.HTTPConnection(*store.address)
    line.putrequest("PUT", "/a")
    line.putheader("Content-Length", str(LARGEST_BYTES + 1))
    line.endheaders()
    assert line.getresponse().status == 413
    line.close()


def test_one_answer_is_lost_and_what_it_was_about_is_there(
    tmp_path: Path, said: list[str], outside: httpx.Client
) -> None:
    with ObjectStore(tmp_path / "objects", lose_first=True, say=said.append) as store:
        with pytest.raises(httpx.TransportError):
            outside.put(f"{store.url}/a", content=b"1", headers=ONCE)
        assert outside.get(f"{store.url}/a").content == b"1"
        assert outside.put(f"{store.url}/b", content=b"1", headers=ONCE).status_code == 201
    assert len(said) == 1


@pytest.mark.parametrize(
    "commit", [{"left_out": "no git"}, {"ref": "refs/heads/x", "receipt": {"commit": "0" * 40}}]
)
def test_what_goes_outside_can_be_sent(commit: dict[str, Any]) -> None:
    report = make_report({}, root="r", left_out=0)
    made = commit_of(report, run_id="0198", at=datetime.now(UTC))
    GitRemote("/nowhere").check(made, {"old": None})
    stored = object_of(report, run_id="0198")
    EtagResource("http://127.0.0.1:1").check(stored, {"if_none_match": "*"})
    mail = mail_of({"report": report, "publish": commit, "archive": {"object": stored["path"]}})
    Smtp("127.0.0.1", 1).check(mail, None)
    assert ("Committed as" in mail["text"]) == ("receipt" in commit)
