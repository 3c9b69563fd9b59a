"""A branch of a git remote: moved from one full id to another by compare-and-swap, or not at all."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

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
    receipt_about,
)
from tenure.downstreams.git_commit import Intended, intended, intended_by
from tenure.downstreams.git_present import files_at, files_instead, forms_of, paths_shown
from tenure.downstreams.git_process import Git, GitFailed, shortened
from tenure.records import Json

#: The server's words for "the ref is not as you said": it may be by our own first push.
_MOVED = ("stale info", "fetch first", "non-fast-forward", "already exists", "cannot lock ref",
          "failed to update ref", "incorrect old value")  # fmt: skip


class GitRemote(Adapter):
    """Payload `{"ref", "message", "author": {"name", "email"}, "date", "files": {path: {"text"} | {"base64"} | null}}`;
    condition `{"old": full id}`, or `{"old": null}` where the ref must not exist yet.

    `folder` keeps objects between calls; without one a temporary folder lives as long as the adapter.
    """

    kind: ClassVar[str] = "git"
    limits: ClassVar[str] = (
        "An id is a value that can return: the guarantee holds where nobody may move the ref back or delete it "
        "(deny forced pushes and deletions on the server). What hooks on the server do after the push is theirs."
    )

    can_present = True

    def __init__(
        self, url: str, *, folder: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(Guarantee.CONDITIONAL_WRITE)
        self._url = url
        self._folder = folder
        self._env = env or {}
        self._made: Git | None = None
        self._making = threading.Lock()

    def check(self, payload: Json, condition: Json) -> None:
        """A full ref name, a full old id, an author, a date and files: everything that the commit's id is made of."""
        intended(payload, condition)

    def tip(self, ref: str, *, deadline: float) -> str | None:
        """The ref's full id now, for a condition; None where there is no such ref. Raises GitFailed."""
        return self._remote_tip(ref, deadline=deadline)

    def send(self, call: Call) -> Sent:
        """One push of one commit."""
        if late := overdue(call):
            return late
        wanted = intended_by(call)
        try:
            if wanted.old is not None:
                self._fetch(wanted.ref, call.effect_id, deadline=call.deadline)
            commit = wanted.commit(self._git, call.effect_id, deadline=call.deadline)
        except GitFailed as error:
            return Refused(detail=f"not sent: {error}", sent=False)
        return overdue(call) or self._push(wanted, commit, call)

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """It happened when the ref has our commit, or descends from it."""
        wanted = intended_by(effect)
        try:
            tip = self._remote_tip(wanted.ref, deadline=deadline)
            if tip == wanted.old:
                return Absent(detail="the ref is as it was")
            if tip is None:
                return DontKnow(detail="the ref is gone")
            self._fetch(wanted.ref, effect.effect_id, deadline=deadline)
            commit = wanted.commit(self._git, effect.effect_id, deadline=deadline)
            if self._descends(tip, commit, deadline=deadline):
                return Happened(receipt=receipt_about(effect, ref=wanted.ref, commit=commit))
            if wanted.old is not None and self._descends(tip, wanted.old, deadline=deadline):
                return Absent(detail="the ref went on from the old id without our commit")
        except GitFailed as error:
            return DontKnow(detail=str(error))
        return DontKnow(
            detail="the ref does not descend from the old id: its history was rewritten"
        )

    def present(self, effect: Bound, *, deadline: float) -> Present | DontKnow:
        """The ref's tip, and what it has now under the payload's paths."""
        wanted = intended_by(effect)
        paths = paths_shown(wanted)
        forms = forms_of(effect.payload, paths)
        try:
            tip = self._remote_tip(wanted.ref, deadline=deadline)
            there = None
            if tip is not None:
                self._fetch(wanted.ref, effect.effect_id, deadline=deadline)
                there = {
                    "ref": wanted.ref,
                    "files": files_at(self._git, tip, forms, deadline=deadline),
                }
        except GitFailed as error:
            return DontKnow(detail=str(error))
        left_out = len(wanted.files) - len(paths)
        return Present(
            there=there,
            instead={"ref": wanted.ref, "files": files_instead(wanted, forms)},
            facts={"tip": tip} | ({"files_left_out": left_out} if left_out else {}),
            condition_holds=tip == wanted.old,
        )

    def _push(self, wanted: Intended, commit: str, call: Call) -> Sent:
        words = [
            "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
            f"--force-with-lease={wanted.ref}:{wanted.old or ''}",
            self._url, f"{commit}:{wanted.ref}",
        ]  # fmt: skip
        try:
            status, out, err = self._git.attempt(*words, deadline=call.deadline)
        except GitFailed as error:
            return Unknown(detail=str(error))
        for line in out.decode(errors="replace").splitlines():
            flag, _, rest = line.partition("\t")
            if flag == "!":
                return _rejected(rest)
            if flag in {" ", "*", "=", "+"} and status == 0:
                receipt = receipt_about(call, ref=wanted.ref, commit=commit)
                return Happened(receipt=receipt)
        return Unknown(detail=f"git push ended with {status}: {shortened(err or out)}")

    def _remote_tip(self, ref: str, *, deadline: float) -> str | None:
        out = self._git.run("ls-remote", self._url, ref, deadline=deadline, inside=False)
        for line in out.decode().splitlines():
            full_id, _, name = line.partition("\t")
            if name == ref:
                return full_id
        return None

    def _fetch(self, ref: str, effect_id: str, *, deadline: float) -> None:
        """Into a name of this effect's own, so that threads never meet."""
        self._git.run(
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self._url,
            f"+{ref}:refs/tenure/{effect_id}", deadline=deadline,
        )  # fmt: skip

    def _descends(self, tip: str, from_id: str, *, deadline: float) -> bool:
        status, _, err = self._git.attempt(
            "merge-base", "--is-ancestor", from_id, tip, deadline=deadline
        )
        if status not in {0, 1}:
            raise GitFailed("merge-base", shortened(err))
        return status == 0

    @property
    def _git(self) -> Git:
        """Our own repository, made when it is first needed."""
        with self._making:
            if self._made is None:
                folder = self._folder
                if folder is None:
                    own = tempfile.mkdtemp(prefix="tenure-git-")
                    weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
                    folder = Path(own) / "objects.git"
                made = Git(folder, self._env)
                made.init()
                self._made = made
            return self._made


def _rejected(rest: str) -> Sent:
    """`<from>:<to>` TAB `[rejected] (reason)`, or `[remote rejected] (reason)`."""
    reason = rest.partition("\t")[2]
    if "[remote rejected]" in reason and not any(word in reason for word in _MOVED):
        return Refused(detail=f"the remote said: {reason}")
    return Unknown(detail=f"the ref is not at the old id: {reason}")
