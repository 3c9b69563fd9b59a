"""Every page of the console by the chapter and the name under which it is photographed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Routes that are no page of their own: they send on, take a POST alone, answer with a file or a fragment, or are
#: the page of another route about something else (what is masked is revealed in one way everywhere).
NO_PAGES: Final = frozenset(
    {
        # The same page as `task-reveal`.
        "run-reveal",
        "event-reveal",
        *("find", "incident", "sign-out", "theme", "effect-settle", "effect-ask", "downstream-ask"),
        *(
            "bulk-review",
            "task-bulk-undo",
            "approval-pass",
            "approval-present",
            "promotion-withdraw",
            "task-facets",
        ),
        *("run-reveal", "event-reveal"),
        *("task-export", "download", "audit-export", "incident-report"),
    }
)

Album = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands on the pages: the worlds of the tests, and ids of what was made beside them."""

    scene: Any
    desk: Any
    round_id: Any
    shadowed: str
    request_id: Any
    audit_id: Any
    token_id: Any
    reader: Any


def before_the_incident(shown: Shown) -> Album:
    return {
        "Overview": {
            "sign-in": "/sign-in",
            "welcome": "/welcome?name=anna-lena",
            "overview": "/",
            "menu": "/more",
        },
        "Runs": _runs(shown.scene),
        "Tasks": _lists(shown.scene),
        "A task": _task(shown.scene),
        "Many at once": _bulks(shown.scene),
        "Approvals": _approvals(shown.desk),
        "Effects": _effects(shown.desk),
        "Queues": {
            "queues": "/queues",
            "queue": "/queues/nightly",
            "queue-intake": "/queues/review/intake",
        },
        "Shadow and rollout": _rollout(shown),
        "Numbers": {
            "numbers": "/numbers",
            "figure": "/numbers/ready_to_commit",
            "figure-coverage": "/numbers/coverage",
        },
        "Audit": {
            "audit": "/audit",
            "audit-refused": "/audit?refused=only&queue=review",
            "audit-chain": "/audit/chain",
            "integrity": "/audit/integrity",
            "integrity-run": "/audit/integrity/run",
            "integrity-pass": f"/audit/integrity/{shown.audit_id}",
        },
        "Set-up": _set_up(shown),
    }


def during_an_incident(incident_id: Any) -> Album:
    here = f"/incidents/{incident_id}"
    return {
        "Incidents": {
            "incidents": "/incidents",
            "incident-new": "/incidents/new",
            "incident-declared": f"{here}/step/1",
            "incident-preview": f"{here}/step/2",
            "incident-bump": f"{here}/step/3",
            "incident-locked": f"{here}/step/5",
            "incident-abort": f"{here}/abort",
        }
    }


def _runs(scene: Any) -> dict[str, str]:
    run = f"/runs/{scene.review.run_id}"
    return {
        "runs": "/runs",
        "run": run,
        "run-unfolded": f"{run}?unfold=1",
        "run-lineage": f"{run}/lineage",
        "run-cancel": f"{run}/cancel",
    }


def _lists(scene: Any) -> dict[str, str]:
    columns = "state,run,kind,epoch,lease,owner,submitted"
    return {
        "tasks": "/tasks",
        "tasks-columns": f"/tasks?queue=review&cols={columns}",
        "tasks-faulty": "/tasks?q=stat:ready",
        "tasks-none": "/tasks?owner=nobody",
        "views": "/tasks/views",
        "view-new": "/tasks/views/new?state=FAILED",
        "view-rename": f"/tasks/views/{scene.view}",
        "view-delete": f"/tasks/views/{scene.view}/delete",
        "not-found": "/tasks/00000000-0000-0000-0000-000000000000",
    }


def _task(scene: Any) -> dict[str, str]:
    task, held = f"/tasks/{scene.fenced}", f"/tasks/{scene.held}"
    return {
        "task-timeline": task,
        "task-candidates": f"{task}/candidates",
        "task-effects": f"{task}/effects",
        "task-graph": f"{task}/graph",
        "task-events": f"{task}/events",
        "task-input": f"{task}/input",
        "task-raw": f"{task}/raw",
        "task-held": held,
        "task-failed": f"/tasks/{scene.failed}",
        "task-bumped": f"/tasks/{scene.bumped}",
        "task-cancelled": f"/tasks/{scene.cancelled}",
        "task-cancel": f"{held}/cancel",
        "task-revise": f"{held}/revise",
        "task-reopen": f"/tasks/{scene.failed}/reopen",
        "task-release": f"{held}/release",
        "task-reveal": f"{held}/reveal/input",
    }


def _bulks(scene: Any) -> dict[str, str]:
    return {
        "bulks": "/tasks/bulk",
        "bulk-review": f"/tasks/bulk/{scene.bulk_review}",
        "bulk-snooze": f"/tasks/bulk/{scene.bulk_snooze}",
        "bulk-done": f"/tasks/bulk/{scene.bulk_job}",
        "bulk-stop": f"/tasks/bulk/{scene.bulk_review}/stop",
    }


def _approvals(desk: Any) -> dict[str, str]:
    return {
        "approvals": "/approvals",
        "approvals-decided": "/approvals?turn=decided",
        "approval": f"/approvals/{desk.refund}",
        "approval-superseded": f"/approvals/{desk.superseded}?turn=decided",
        "approval-expired": f"/approvals/{desk.expired}",
        "approval-reveal": f"/approvals/{desk.refund}/reveal",
    }


def _effects(desk: Any) -> dict[str, str]:
    return {
        "unknown": "/effects/unknown",
        "effect": f"/effects/{desk.mail}",
        "effect-unsealable": f"/effects/{desk.fax}",
        "effect-settled": f"/effects/{desk.settled}",
        "effect-reveal": f"/effects/{desk.mail}/reveal/payload",
    }


def _rollout(shown: Shown) -> dict[str, str]:
    here = f"/shadow/{shown.shadowed}"
    return {
        "shadow": "/shadow",
        "shadow-queue": here,
        "shadow-rounds": f"{here}/rounds",
        "shadow-round": f"/shadow/rounds/{shown.round_id}",
        "shadow-promote": f"{here}/promote",
        "shadow-promotion": f"/shadow/promotions/{shown.request_id}",
        "shadow-demote": "/shadow/review/demote",
    }


def _set_up(shown: Shown) -> dict[str, str]:
    credential = f"/credentials/{shown.scene.credential}"
    person = f"/people/{shown.scene.approver}"
    return {
        "workers": "/workers",
        "pools": "/pools",
        "downstreams": "/downstreams",
        "downstream": "/downstreams/letters",
        "downstream-new": "/downstreams/new",
        "downstream-change": "/downstreams/letters/change",
        "credentials": "/credentials",
        "credential": credential,
        "credential-new": "/credentials/new",
        "credential-revoke": f"{credential}/revoke",
        "credential-rotate": f"{credential}/rotate",
        "people": "/people",
        "person": person,
        "person-new": "/people/new",
        "person-code": f"{person}/code",
        "person-role": f"{person}/role",
        "person-token": f"/people/{shown.reader}/tokens/new",
        "person-token-revoke": f"{person}/tokens/{shown.token_id}/revoke",
        "profile": "/profile",
        "password": "/profile/password",
        "shortcuts": "/shortcuts",
    }
