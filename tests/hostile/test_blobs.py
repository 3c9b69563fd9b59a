"""Blobs under attack: bytes and names are a worker's, the disk and the reader's machine are not."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from django.core.files.storage import storages

from coordinator.models import Blob
from tests.api.callers import Api, Caller, Reply

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    """A disk of this test's own."""
    blobs = {**settings.STORAGES["blobs"], "OPTIONS": {"location": str(tmp_path / "blobs")}}
    settings.STORAGES = {**settings.STORAGES, "blobs": blobs}
    return tmp_path / "blobs"


def put(by: Caller, claim: dict[str, Any], name: str, data: bytes = b"x", **headers: Any) -> Reply:
    sent = {"Claim_Fence": orjson.dumps(claim["fence"]).decode(), **headers}
    path = f"/attempts/{claim['fence']['attempt_id']}/blobs/{quote(name, safe='')}"
    return by.send("PUT", path, raw=data, content_type="text/html", **sent)


def test_it_is_only_ever_a_download_whatever_the_worker_says_it_is(api: Api) -> None:
    claim = api.submitted_claim()
    assert put(api.worker, claim, "page.html", b"<script>alert(1)</script>").status == 200
    reply = api.operator.get(f"/attempts/{claim['fence']['attempt_id']}/blobs/page.html")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"].startswith("attachment;")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert "sandbox" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "name",
    ["a\r\nSet-Cookie: x=y", "a\nb", "\u202egpj.exe", "a\u200bb", "\x1b[2J", "\x7f", "a\u2028b"],
)
def test_a_name_with_what_can_not_be_seen_is_refused(api: Api, name: str) -> None:
    claim = api.submitted_claim()
    reply = put(api.worker, claim, name)
    if "\n" in name:
        assert reply.status == 404, reply  # it isn't even a route
    else:
        assert (reply.status, reply.pointers) == (422, {"/name"})
    assert not Blob.objects.exists()


@pytest.mark.parametrize(
    "name", ["../../../etc/passwd", "/etc/passwd", "..\\..\\boot.ini", 'a"; filename="b.exe', "."]
)
def test_a_name_is_never_a_place_on_the_disk(api: Api, folder: Path, name: str) -> None:
    claim = api.submitted_claim()
    assert put(api.worker, claim, name, b"mine").status == 200
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert len(kept) == 1
    assert kept[0].parent.name == claim["fence"]["attempt_id"]
    assert kept[0].name not in name
    reply = api.operator.get(
        f"/attempts/{claim['fence']['attempt_id']}/blobs/{quote(name, safe='')}"
    )
    assert reply.body == b"mine"
    told = reply.headers["Content-Disposition"]
    assert "\n" not in told
    assert told.count('"') - told.count('\\"') in (0, 2), told


def test_bytes_for_an_attempt_of_somebody_else_never_reach_the_disk(
    api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = api.submitted_claim()
    written: list[str] = []
    kind = type(storages["blobs"])
    save = kind.save

    def watched(self: Any, name: str, *rest: Any) -> str:
        written.append(name)
        return save(self, name, *rest)

    monkeypatch.setattr(kind, "save", watched)
    for by in (api.rival, api.stranger):
        assert put(by, claim, "mine").status in (403, 404)
    nowhere = {"fence": {**claim["fence"], "attempt_id": "0190b1c0-0000-7000-8000-000000000000"}}
    assert put(api.worker, nowhere, "mine").status == 404
    assert not written
    assert not Blob.objects.exists()
    assert put(api.worker, claim, "mine").status == 200
