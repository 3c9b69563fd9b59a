"""A commit that every attempt makes alike: same parent, same files, same words, same date, so the same id."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tenure.downstreams.base import Bound
from tenure.downstreams.fields import Fields, content_of
from tenure.downstreams.git_process import Git, lines
from tenure.records import Json

FULL_ID = re.compile(r"^[0-9a-f]{40}$")
_REF = re.compile(r"^refs/(heads|tags|notes)/[A-Za-z0-9._/-]+$")
_NOTHING = "0" * 40
_KNOWN = frozenset({"ref", "message", "author", "date", "files"})
MOST_FILES = 10_000


@dataclass(frozen=True, kw_only=True)
class Intended:
    """What a payload and its condition ask for."""

    ref: str
    #: The full id that the ref must have; None where the ref must not exist.
    old: str | None
    message: str
    name: str
    email: str
    seconds: int
    #: Content by path; None removes the file.
    files: Mapping[str, bytes | None]

    def commit(self, git: Git, effect_id: str, *, deadline: float) -> str:
        """Make the commit in our own repository; its id. The parent's objects have to be there."""
        stamp = f"@{self.seconds} +0000"
        who = {
            "GIT_AUTHOR_NAME": self.name,
            "GIT_AUTHOR_EMAIL": self.email,
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_NAME": self.name,
            "GIT_COMMITTER_EMAIL": self.email,
            "GIT_COMMITTER_DATE": stamp,
            # The commit must not depend on anybody's configuration.
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        tree = self._tree(git, deadline=deadline)
        parent = ("-p", self.old) if self.old else ()
        text = f"{self.message.rstrip()}\n\nTenure-Effect: {effect_id}\n".encode()
        out = git.run("commit-tree", tree, *parent, stdin=text, env=who, deadline=deadline)
        return out.decode().strip()

    def _tree(self, git: Git, *, deadline: float) -> str:
        with tempfile.TemporaryDirectory(prefix="tenure-index-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            start = (self.old,) if self.old else ("--empty",)
            git.run("read-tree", *start, env=env, deadline=deadline)
            entries = []
            for path, content in sorted(self.files.items()):
                if content is None:
                    entries.append(f"0 {_NOTHING}\t{path}")
                else:
                    blob = git.run("hash-object", "-w", "--stdin", stdin=content, deadline=deadline)
                    entries.append(f"100644 {blob.decode().strip()}\t{path}")
            git.run(
                "update-index", "-z", "--index-info",
                stdin=lines(entries), env=env, deadline=deadline,
            )  # fmt: skip
            return git.run("write-tree", env=env, deadline=deadline).decode().strip()


def intended(payload: Json, condition: Json) -> Intended:
    """Read them; NotEncodable names what is wrong."""
    fields = Fields(payload, "/payload", known=_KNOWN)
    ref = fields.text("ref", meaning="a full name such as refs/heads/main")
    if not _REF.match(ref) or ".." in ref or ref.endswith(("/", ".lock")):
        raise fields.wrong("ref", "a full name is wanted, such as refs/heads/main")
    author = Fields(
        fields.object("author", meaning="name and email"),
        "/payload/author",
        known={"name", "email"},
    )
    return Intended(
        ref=ref,
        old=_old(condition),
        message=fields.text("message", meaning="the commit's message"),
        name=author.text("name", meaning="who made this"),
        email=author.text("email", meaning="their address"),
        seconds=_seconds(fields),
        files=_files(fields),
    )


def intended_by(effect: Bound) -> Intended:
    """What a bound effect asks for."""
    return intended(effect.payload, effect.condition)


def _old(condition: Json) -> str | None:
    fields = Fields(condition, "/condition", known={"old"})
    if "old" not in condition:
        raise fields.wrong(
            "old", "the full id that the ref has now, or null where it must not exist"
        )
    old = fields.optional_text("old", meaning="40 hex digits")
    if old is not None and not FULL_ID.match(old):
        raise fields.wrong("old", "a full id is wanted: 40 hex digits, never shortened")
    return old


def _seconds(fields: Fields) -> int:
    text = fields.text("date", meaning="an instant such as 2026-11-30T09:00:00Z")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at.timestamp() < 0:
        raise fields.wrong("date", "an instant with its offset is wanted: 2026-11-30T09:00:00Z")
    return int(at.timestamp())


def _files(fields: Fields) -> dict[str, bytes | None]:
    given = fields.object("files", meaning='{path: {"text"}, {"base64"} or null to remove it}')
    if not 1 <= len(given) <= MOST_FILES:
        raise fields.wrong("files", f"1 to {MOST_FILES} files")
    files: dict[str, bytes | None] = {}
    for path, content in given.items():
        where = f"files/{path}"
        parts = path.split("/")
        if any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts) or "\0" in path:
            raise fields.wrong(where, "a relative path is wanted, without '..' and '.git'")
        if content is None:
            files[path] = None
        elif isinstance(content, Mapping):
            files[path] = content_of(content, f"/payload/{where}")
        else:
            raise fields.wrong(where, "an object with 'text' or 'base64', or null to remove it")
    return files
