"""What a commit has under some paths, beside what they would have, for people to compare."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from tenure.downstreams.git_commit import Intended
from tenure.downstreams.git_process import Git
from tenure.downstreams.showing import LARGEST_SHOWN_BYTES, form_of, shown
from tenure.records import Json

#: So many files are shown; a commit of more is looked at elsewhere.
MOST_SHOWN: Final = 50
_FOUND: Final = re.compile(rb"([0-9a-f]{40,64}) (blob|tree|commit|tag) (\d+)")

Files = dict[str, Json]


def paths_shown(wanted: Intended) -> list[str]:
    """In order; git's batch commands take one name a line, so that no name with a line feed is among them."""
    return [path for path in sorted(wanted.files) if "\n" not in path][:MOST_SHOWN]


def files_at(git: Git, tip: str, forms: Mapping[str, str], *, deadline: float) -> Files:
    """By path: its content, None where there is no such file, its type where it is no file. Raises GitFailed."""
    names = "".join(f"{tip}:{path}\n" for path in forms).encode()
    told = git.run("cat-file", "--batch-check", stdin=names, deadline=deadline)
    files: Files = {}
    small: dict[str, str] = {}
    for path, line in zip(forms, told.splitlines(), strict=True):
        found = _FOUND.fullmatch(line)
        if found is None:
            files[path] = None
            continue
        blob, kind, size = found[1].decode(), found[2].decode(), int(found[3])
        if kind != "blob":
            files[path] = {"type": kind}
        elif size > LARGEST_SHOWN_BYTES:
            files[path] = {"bytes": size, "blob": blob}
        else:
            files[path], small[path] = None, blob
    contents = _contents(git, list(small.values()), deadline=deadline)
    return files | {path: shown(next(contents), forms[path]) for path in small}


def files_instead(wanted: Intended, forms: Mapping[str, str]) -> Files:
    """The same of what the effect would put there."""
    return {path: _told(wanted.files[path], form) for path, form in forms.items()}


def forms_of(payload: Json, paths: list[str]) -> dict[str, str]:
    """In which member the payload gives each content."""
    return {path: form_of(payload["files"][path]) for path in paths}


def _told(content: bytes | None, form: str) -> Json:
    if content is None:
        return None
    if len(content) > LARGEST_SHOWN_BYTES:
        return {"bytes": len(content), "blob": _blob_id(content)}
    return shown(content, form)


def _blob_id(content: bytes) -> str:
    """As git names a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _contents(git: Git, blobs: list[str], *, deadline: float) -> Iterator[bytes]:
    """Each blob's content, in order."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    out = git.run("cat-file", "--batch", stdin=asked, deadline=deadline) if blobs else b""
    at = 0
    for _ in blobs:
        head, at = out[at : out.index(b"\n", at)], out.index(b"\n", at) + 1
        size = int(head.rsplit(b" ", 1)[1])
        yield out[at : at + size]
        at += size + 1
