"""What is there now, as git, S3 and a resource with ETags tell it: beside what would be, in the payload's own form."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tenure.downstreams import (
    S3,
    Adapter,
    Bound,
    ChatPost,
    DontKnow,
    EtagResource,
    GitRemote,
    Happened,
    HttpKey,
    Present,
    Smtp,
)
from tenure.downstreams.showing import LARGEST_SHOWN_BYTES
from tests.downstreams import parts
from tests.downstreams.parts import Part

LONG = "x" * (LARGEST_SHOWN_BYTES + 1)


def look(adapter: Adapter, effect: Bound, *, seconds: float = 60) -> Present | DontKnow:
    return adapter.present(effect, deadline=time.monotonic() + seconds)


def seen(adapter: Adapter, effect: Bound) -> Present:
    found = look(adapter, effect)
    assert isinstance(found, Present), found
    return found


def sent(part: Part, **of: Any) -> Any:
    """The receipt of what somebody else has put there."""
    answer = part.adapter.send(part.call(**of))
    assert isinstance(answer, Happened), answer
    return answer.receipt


def commit(part: Part, files: dict[str, Any], old: str | None, **more: Any) -> Any:
    return part.call(payload={**part.payload, "files": files, **more}, condition={"old": old})


# --- git -----------------------------------------------------------------------------------------------------------


def test_a_branch_tells_what_it_has_under_the_paths_of_the_payload() -> None:
    with parts.git_remote() as part:
        call = part.call()
        before = seen(part.adapter, call)
        assert before.condition_holds is True
        assert before.facts == {"tip": part.condition["old"]}
        nothing = {"ref": "refs/heads/main", "files": {"old.txt": None, "report/a b.md": None}}
        assert before.there == nothing
        assert before.instead["files"]["report/a b.md"] == {"text": "# Report\n"}
        assert before.instead["files"]["old.txt"] is None
        theirs = sent(part)["commit"]
        after = seen(part.adapter, call)
        assert after.condition_holds is False
        assert after.facts == {"tip": theirs}
        assert after.there == after.instead
        assert part.count(call) == 0


def test_files_that_are_large_or_no_text_are_told_by_what_names_them() -> None:
    with parts.git_remote() as part:
        files = {
            "a.bin": {"base64": "/wA="},
            "bytes.txt": {"base64": "/wA="},
            "folder/b.txt": {"text": "b"},
            "long.txt": {"text": LONG},
        }
        call = commit(part, files, part.condition["old"])
        assert isinstance(part.adapter.send(call), Happened)
        tip = seen(part.adapter, call)
        assert tip.there == tip.instead
        assert tip.there["files"]["a.bin"] == {"base64": "/wA="}
        assert set(tip.there["files"]["long.txt"]) == {"bytes", "blob"}
        other = {"bytes.txt": {"text": "t"}, "folder": {"text": "f"}, "long.txt": {"text": "short"}}
        told = seen(part.adapter, commit(part, other, tip.facts["tip"])).there["files"]
        # Never in another form than the payload's: a place that is registered as secret names a form.
        assert set(told["bytes.txt"]) == {"bytes", "sha256"}
        assert told["folder"] == {"type": "tree"}
        assert told["long.txt"]["bytes"] == len(LONG)


def test_more_files_than_a_person_reads_are_counted() -> None:
    with parts.git_remote() as part:
        files = {f"f{number:03}": {"text": "t"} for number in range(60)} | {"a\nb": {"text": "t"}}
        told = seen(part.adapter, commit(part, files, part.condition["old"]))
        assert len(told.there["files"]) == len(told.instead["files"]) == 50
        assert told.facts["files_left_out"] == 11


def test_a_branch_that_is_to_be_made_is_not_there_yet() -> None:
    with parts.git_remote() as part:
        new = commit(part, {"a": {"text": "t"}}, None, ref="refs/heads/new")
        told = seen(part.adapter, new)
        assert (told.there, told.condition_holds) == (None, True)
        gone = commit(part, {"a": {"text": "t"}}, "0" * 39 + "1", ref="refs/heads/new")
        assert seen(part.adapter, gone).condition_holds is False


def test_a_remote_that_can_not_be_reached_tells_nothing(tmp_path: Path) -> None:
    with parts.git_remote() as part:
        call = part.call()
    told = look(GitRemote(str(tmp_path / "nothing.git"), folder=tmp_path / "ours.git"), call)
    assert isinstance(told, DontKnow)
    assert isinstance(look(part.adapter, call, seconds=0), DontKnow)


# --- objects -------------------------------------------------------------------------------------------------------


def test_an_object_tells_its_tag_and_its_content_where_that_is_small() -> None:
    with parts.s3() as part:
        call = part.call()
        before = seen(part.adapter, call)
        assert (before.there, before.facts, before.condition_holds) == (None, {}, True)
        theirs = part.call(payload={**part.payload, "text": "# Before"})
        answer = part.adapter.send(theirs)
        assert isinstance(answer, Happened)
        after = seen(part.adapter, call)
        assert after.condition_holds is False
        assert after.there == {**part.payload, "text": "# Before"}
        assert after.instead == part.payload
        assert after.facts["etag"] == answer.etag
        assert after.facts["written_by_effect"] == theirs.effect_id
        bound = seen(part.adapter, part.call(condition={"if_match": answer.etag}))
        assert bound.condition_holds is True
        assert part.count(call) == 0


def test_an_object_that_is_large_or_no_text_is_told_by_its_digest() -> None:
    with parts.s3() as part:
        direct, bucket = part.log["direct"], part.adapter._bucket  # type: ignore[attr-defined]
        long = part.call(payload={**part.payload, "text": LONG})
        assert isinstance(part.adapter.send(long), Happened)
        told = seen(part.adapter, long)
        assert told.there == told.instead
        assert told.there["bytes"] == len(LONG)
        direct.put_object(Bucket=bucket, Key=part.payload["key"], Body=b"\xff\x00")
        assert set(seen(part.adapter, long).there) == {"key", "bytes", "sha256", "content_type"}
        in_base64 = {"key": part.payload["key"], "base64": "/wA="}
        same = seen(part.adapter, part.call(payload=in_base64))
        assert same.there["base64"] == same.instead["base64"] == "/wA="


def test_a_store_that_can_not_be_reached_tells_nothing() -> None:
    with parts.s3() as part:
        call = part.call()
        closed = {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-east-1"}
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        assert isinstance(look(S3("reports", **closed, **keys), call), DontKnow)


# --- resources -----------------------------------------------------------------------------------------------------


def test_a_resource_answers_as_it_is_now_and_who_wrote_it_stands_apart() -> None:
    with parts.etag() as part:
        call = part.call()
        before = seen(part.adapter, call)
        assert before.condition_holds is True
        assert before.there == {"path": "/documents/a", "body": {"title": "before"}}
        assert before.instead == part.payload
        assert before.facts == {"etag": '"v0"', "written_by_effect": None}
        theirs = part.call(payload={"path": "/documents/a", "body": {"title": "theirs"}})
        assert isinstance(part.adapter.send(theirs), Happened)
        after = seen(part.adapter, call)
        assert after.condition_holds is False
        assert after.there["body"] == {"title": "theirs"}
        assert after.facts["written_by_effect"] == theirs.effect_id
        assert part.count(call) == 0


def test_a_resource_that_is_to_be_made_is_not_there_yet() -> None:
    with parts.etag() as part:
        payload = {"path": "/documents/new", "body": {}}
        told = seen(part.adapter, part.call(payload=payload, condition={"if_none_match": "*"}))
        assert (told.there, told.facts, told.condition_holds) == (None, {}, True)
        gone = seen(part.adapter, part.call(payload=payload))
        assert (gone.there, gone.condition_holds) == (None, False)


def test_a_service_that_fails_tells_nothing() -> None:
    with parts.etag() as part:
        part.log["world"].settings.look_up = False
        assert isinstance(look(part.adapter, part.call()), DontKnow)
    assert isinstance(look(part.adapter, part.call()), DontKnow)  # and one that is gone


def test_who_can_not_tell_says_so_and_asks_nobody() -> None:
    with parts.http_key() as part:
        call = part.call()
        nobody = [
            Smtp("127.0.0.1", 9),
            ChatPost("http://127.0.0.1:9", look_up_url="http://127.0.0.1:9/{key}"),
            HttpKey("http://127.0.0.1:9"),
        ]
        for adapter in (part.adapter, *nobody):
            assert not adapter.can_present
            assert isinstance(look(adapter, call), DontKnow)
        assert part.log["world"].arrived == []
        assert EtagResource.can_present
        assert GitRemote.can_present
        assert S3.can_present
