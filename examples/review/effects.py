"""What goes outside: the report is committed to a repository, stored, and mailed — each once, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from examples.review.handlers import REPORT
from examples.review.outside import GIT, MAIL, STORE
from tenure import Claim, Downstream, Fatal, Worker
from tenure.downstreams import EtagResource, GitRemote, Smtp

PUBLISH, ARCHIVE, NOTIFY = "publish", "archive", "notify"
#: Kinds of nodes with the slot and the downstream of their one effect, as the plan declares them.
SLOTS: dict[str, dict[str, str]] = {
    PUBLISH: {"commit": "review-git"},
    ARCHIVE: {"object": "review-store"},
    NOTIFY: {"mail": "review-mail"},
}
AUTHOR = {"name": "Review fleet", "email": "fleet@example.org"}
READERS = ["readers@example.org"]
MOST_MAILED = 8


def register_effects(worker: Worker, places: Mapping[str, str]) -> None:
    """Give a worker the three kinds. `places` says where the outside is, as `Outside.environment` does."""
    repository = GitRemote(places[GIT]) if places.get(GIT) else None
    store = EtagResource(places[STORE]) if places.get(STORE) else None
    host, _, port = places.get(MAIL, "").rpartition(":")
    mail = Smtp(host, int(port)) if host else None

    @worker.handler(PUBLISH)
    def publish(claim: Claim) -> dict[str, Any]:
        if repository is None:
            return {"left_out": "git is not installed on this machine"}
        outside = Downstream(SLOTS[PUBLISH]["commit"], repository)
        payload = commit_of(_report(claim), run_id=claim.run_id, at=datetime.now(UTC))
        # A branch of its own, so that no other review can come in between. The first attempt's date is the one.
        intent = claim.effect("commit", outside, payload, condition={"old": None})
        receipt = intent.perform(adopt=True)
        return {"ref": payload["ref"], "receipt": receipt}

    @worker.handler(ARCHIVE)
    def archive(claim: Claim) -> dict[str, Any]:
        if store is None:
            raise Fatal(f"there is no object store: {STORE} is not set")
        outside = Downstream(SLOTS[ARCHIVE]["object"], store)
        payload = object_of(_report(claim), run_id=claim.run_id)
        intent = claim.effect("object", outside, payload, condition={"if_none_match": "*"})
        intent.perform(adopt=True)
        return {"object": payload["path"]}

    @worker.handler(NOTIFY)
    def notify(claim: Claim) -> dict[str, Any]:
        if mail is None:
            raise Fatal(f"there is no mail server: {MAIL} is not set")
        outside = Downstream(SLOTS[NOTIFY]["mail"], mail)
        results = {name: parent.result for name, parent in claim.parents.items()}
        # What a person has approved is what goes out, even if this code would word it differently by now.
        receipt = claim.effect("mail", outside, mail_of(results)).perform(adopt=True)
        return {"receipt": receipt}


def commit_of(report: dict[str, Any], *, run_id: str, at: datetime) -> dict[str, Any]:
    """The commit of a report, on a branch named after its run."""
    return {
        "ref": f"refs/heads/review/{run_id}",
        "message": _subject(report),
        "author": AUTHOR,
        "date": at.isoformat(timespec="seconds"),
        "files": {"report.md": {"text": report["markdown"]}},
    }


def object_of(report: dict[str, Any], *, run_id: str) -> dict[str, Any]:
    """The report as an object of the store: its numbers, and all of it to read."""
    kept = ("headline", "finding_count", "first", "markdown")
    return {"path": f"/reviews/{run_id}.json", "body": {name: report[name] for name in kept}}


def mail_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """The mail about a report: the first findings, and where the whole is. `results` are those of the nodes before."""
    report, published = results[REPORT], results[PUBLISH]
    commit = member_of(published.get("receipt"), "commit")
    lines = [f"{one['where']} {one['what']}" for one in report["first"][:MOST_MAILED]] or [
        "There is nothing to complain about."
    ]
    where = [f"Stored as {results[ARCHIVE]['object']}"]
    where += [f"Committed as {commit} on {published['ref']}"] if commit else []
    return {
        "from": AUTHOR["email"],
        "to": READERS,
        "subject": _subject(report),
        "text": "\n".join([*lines, "", *where, ""]),
    }


def member_of(receipt: Any, name: str) -> str | None:
    """What a receipt says. One that a person gave for an effect that they have settled may say anything."""
    return receipt.get(name) if isinstance(receipt, dict) else None


def _subject(report: dict[str, Any]) -> str:
    return f"Review: {report['finding_count']} findings in {report['headline']['lines']:,} lines"


def _report(claim: Claim) -> dict[str, Any]:
    report: dict[str, Any] = claim.parents[REPORT].result
    return report
