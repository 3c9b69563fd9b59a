"""Which commands each page shows: by the name of its route (console design, 3.11)."""

from collections.abc import Callable
from typing import Any, Final

from console.commands import (
    WHY,
    Kwargs,
    Shown,
    Terminal,
    manage,
    path_of,
    read,
    send,
    tenure,
    terminal,
)
from console.incident_commands import incident_step


def _task(k: Kwargs, *part: str) -> list[Shown]:
    return [read("tasks", k["task_id"], *part)]


def _explained(k: Kwargs) -> list[Shown]:
    task = k["task_id"]
    return [read("tasks", task, "explain", cli=tenure("explain", task))]


def _decide(verb: str, cli: str, **seen: str) -> Callable[[Kwargs], list[Shown]]:
    """`seen`: what the call must be told that was looked at; the command reads it by itself."""

    def shown(k: Kwargs) -> list[Shown]:
        task = k["task_id"]
        told: dict[str, Any] = {**seen, "reason": WHY}
        line = tenure(cli, task, "--reason", WHY)
        return [send("POST", "tasks", task, *verb.split("/"), cli=line, **told)]

    return shown


def _revise(k: Kwargs) -> list[Shown]:
    task = k["task_id"]
    cli = tenure("revise", task, "input.json", "--reason", WHY)
    told: dict[str, Any] = {"expected_state_version": WHY, "input": WHY, "reason": WHY}
    return [send("POST", "tasks", task, "revise", cli=cli, keyed=True, **told)]


def _cancel_run(k: Kwargs) -> list[Shown]:
    run = k["run_id"]
    return [send("POST", "runs", run, "cancel", cli=tenure("cancel", run, "--reason", WHY), reason=WHY)]  # fmt: skip


def _queue(k: Kwargs) -> list[Shown]:
    return [read("queues", k["name"])]


def _intake(k: Kwargs) -> list[Shown]:
    return [send("POST", "queues", k["name"], "intake", intake="STOPPED", reason=WHY)]


def _new_credential(k: Kwargs) -> list[Shown]:  # noqa: ARG001 - one signature for all
    told: dict[str, Any] = {"name": WHY, "pool": WHY, "queues": [WHY], "scopes": ["work"]}
    on_the_server = manage(
        "create_credential", WHY, "--pool", WHY, "--queue", WHY, "--scope", "work"
    )
    return [send("POST", "credentials", keyed=True, **told), on_the_server]


def _revoke(k: Kwargs) -> list[Shown]:
    return [send("DELETE", "credentials", k["credential_id"])]


def _shadow(k: Kwargs) -> list[Shown]:
    return [read("queues", k["name"], "shadow", cli=tenure("shadow", "status", k["name"]))]


def _rounds(k: Kwargs) -> list[Shown]:
    cli = tenure("shadow", "rounds", "--queue", k["name"])
    return [read("shadow", "rounds", cli=cli, queue=k["name"])]


def _round(k: Kwargs) -> list[Shown]:
    of = k["round_id"]
    explain = tenure("shadow", "explain", of, "--reason", WHY)
    return [
        read("shadow", "rounds", of, cli=tenure("shadow", "round", of)),
        send("POST", "shadow", "rounds", of, "explain", cli=explain, reason=WHY),
    ]


def _promote(k: Kwargs) -> list[Shown]:
    name = k["name"]
    cli = tenure("queue", "promote", name, "--confirm", name, "--reason", WHY)
    return [
        read("queues", name, "promotion", cli=tenure("queue", "gate", name)),
        send(
            "POST", "queues", name, "promote", cli=cli, expected_stage=WHY, confirm=name, reason=WHY
        ),
    ]


def _demote(k: Kwargs) -> list[Shown]:
    name = k["name"]
    cli = tenure("queue", "demote", name, "--to", "SHADOW", "--reason", WHY)
    told: dict[str, Any] = {"expected_stage": WHY, "to_stage": "SHADOW", "reason": WHY}
    return [send("POST", "queues", name, "demote", cli=cli, **told)]


def _promotion(k: Kwargs) -> list[Shown]:
    return [
        read("promotions", k["request_id"]),
        Shown(tenure("queue", "confirm", k["request_id"], "--confirm", WHY)),
    ]


def _withdraw(k: Kwargs) -> list[Shown]:
    of = k["request_id"]
    cli = tenure("queue", "withdraw", of, "--reason", WHY)
    return [send("POST", "promotions", of, "withdraw", cli=cli, reason=WHY)]


def _audits(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    return [read("audit", "lines", cli=tenure("audit", "export"))]


def _chain(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    return [
        read("audit", "verification", cli=tenure("audit", "verify")),
        read("audit", "seal", cli=tenure("audit", "seal")),
    ]


def _new_downstream(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    return [send("POST", "downstreams", name=WHY, kind=WHY, guarantee="NONE")]


def _change_downstream(k: Kwargs) -> list[Shown]:
    return [send("PATCH", "downstreams", k["name"], call_timeout_seconds=30)]


def _approval(k: Kwargs) -> list[Shown]:
    of = k["approval_id"]
    return [
        read("approvals", of),
        *_present(k),
        Shown(tenure("approve", of)),
        Shown(tenure("ask-for-changes", of, "--reason", WHY)),
        Shown(tenure("reject", of, "--reason", WHY)),
    ]


#: What names one of several, by the part that is revealed: the command's option and the API's field.
_OF_SEVERAL: Final[dict[str, dict[str, str]]] = {
    "candidate": {"--attempt": "attempt_id", "--digest": "result_digest"},
    "error": {"--attempt": "attempt_id"},
    "evidence": {"--evidence": "evidence_id"},
}
_PARTS: Final = ("payload", "condition", "receipt", "input", "result", *_OF_SEVERAL)


def _reveal(of: str, key: str, part: str) -> Callable[[Kwargs], list[Shown]]:
    """`part` is what stands for the page's own where that names none."""

    def shown(k: Kwargs) -> list[Shown]:
        wanted = k["part"] if k.get("part") in _PARTS else part
        more = _OF_SEVERAL.get(wanted, {})
        options = [word for option in more for word in (option, WHY)]
        cli = tenure("reveal", k[key], "--part", wanted, *options, "--reason", WHY)
        body: dict[str, Any] = dict.fromkeys(more.values(), WHY) | {"part": wanted, "reason": WHY}
        return [send("POST", of, k[key], "reveal", cli=cli, **body)]

    return shown


def _reveal_whole(of: str, key: str, part: str) -> Callable[[Kwargs], list[Shown]]:
    def shown(k: Kwargs) -> list[Shown]:
        cli = tenure("reveal", k[key], "--part", part, "--reason", WHY)
        return [send("POST", of, k[key], "reveal", cli=cli, reason=WHY)]

    return shown


def _present(k: Kwargs) -> list[Shown]:
    of = k["approval_id"]
    return [send("POST", "approvals", of, "present", cli=tenure("present", of))]


def _reveal_approval(k: Kwargs) -> list[Shown]:
    return [Shown(tenure("approve", k["approval_id"], "--reveal", WHY))]


def _pass(k: Kwargs) -> list[Shown]:
    of = k["approval_id"]
    cli = tenure("pass", of, "--to", WHY, "--reason", WHY)
    return [send("POST", "approvals", of, "pass", cli=cli, to=WHY, reason=WHY)]


def _effect(k: Kwargs) -> list[Shown]:
    of = k["effect_id"]
    return [read("effects", of, cli=tenure("effect", of))]


def _ask(k: Kwargs) -> list[Shown]:
    of = k["effect_id"]
    return [send("POST", "effects", of, "lookups", cli=tenure("reconcile", of, "--begin"))]


def _settle(k: Kwargs) -> list[Shown]:
    of = k["effect_id"]
    return [
        read("effects", of, cli=tenure("effect", of)),
        Shown(tenure("reconcile", of, "not-happened", "--look-up", WHY, "--detail", WHY)),
    ]


def _new_incident(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    cli = tenure("incident", "open", "--queue", WHY, "--reason", WHY)
    return [send("POST", "incidents", cli=cli, keyed=True, queue=WHY, reason=WHY)]


def _step(k: Kwargs) -> list[Shown]:
    return incident_step(k["incident_id"], k["number"])


def _abort(k: Kwargs) -> list[Shown]:
    of = k["incident_id"]
    cli = tenure("incident", "abort", of, "--reason", WHY)
    return [send("POST", "incidents", of, "abort", cli=cli, reason=WHY)]


def _bulks(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    review = tenure("bulk", "review", "cancel", "--queue", WHY, "--state", "READY")
    asked = {"queue": WHY, "state": "READY"}
    return [
        read("bulk", cli=tenure("bulk", "list")),
        send("POST", "bulk", cli=review, verb="cancel", filter=asked),
    ]


def _bulk(k: Kwargs) -> list[Shown]:
    of = k["bulk_id"]
    start = tenure("bulk", "start", of, "--reason", WHY)
    return [
        read("bulk", of, cli=tenure("bulk", "status", of, "--items")),
        send("POST", "bulk", of, "start", cli=start, reason=WHY),
    ]


def _stop_bulk(k: Kwargs) -> list[Shown]:
    of = k["bulk_id"]
    cli = tenure("bulk", "stop", of, "--reason", WHY)
    return [send("POST", "bulk", of, "stop", cli=cli, reason=WHY)]


def _views(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    return [read("views", cli=tenure("views", "list", "--counts"), counts="true")]


def _new_view(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    cli = tenure("views", "save", WHY, "state=READY")
    return [send("POST", "views", cli=cli, name=WHY, query="state=READY")]


def _view(k: Kwargs) -> list[Shown]:
    of, cli = k["view_id"], tenure("views", "rename", WHY, WHY)
    return [send("POST", "views", of, "rename", cli=cli, name=WHY, expected_name=WHY)]


def _delete_view(k: Kwargs) -> list[Shown]:
    of, cli = k["view_id"], tenure("views", "delete", WHY)
    return [send("POST", "views", of, "delete", cli=cli, expected_name=WHY)]


def _review_bulk(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    cli = tenure("bulk", "review", "cancel", "--state", "READY")
    return [send("POST", "bulk", cli=cli, verb="cancel", filter={"state": "READY"})]


def _undo_bulk(k: Kwargs) -> list[Shown]:
    of = k["bulk_id"]
    return [Shown(tenure("bulk", "undo", of), "POST", path_of("bulk", of, "undo"))]


def _people(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    return [manage("create_operator", WHY, "--role", "viewer")]


def _token(k: Kwargs) -> list[Shown]:  # noqa: ARG001
    """Made and revoked by a person alone, in their session: no token makes another. This tells whose one is."""
    return [read("me")]


def _fixed(*shown: Shown) -> Callable[[Kwargs], list[Shown]]:
    return lambda _: list(shown)


_TASKS: Final = _fixed(read("tasks", cli=tenure("list", "tasks")))
#: By the name of a page's route. A page that is in neither table fails a test.
PAGES: Final[dict[str, Callable[[Kwargs], list[Shown]]]] = {
    "overview": _fixed(
        read("queues", cli=tenure("list", "queues")), read("effects", cli=tenure("effects"))
    ),
    "runs": _fixed(read("runs", cli=tenure("list", "runs"))),
    "run": lambda k: [read("runs", k["run_id"], cli=tenure("watch", k["run_id"]))],
    "run-lineage": lambda k: [read("runs", k["run_id"], "lineage")],
    "run-cancel": _cancel_run,
    "tasks": _TASKS,
    "task-views": _views,
    "task-view-new": _new_view,
    "task-view": _view,
    "task-view-delete": _delete_view,
    "bulk-review": _review_bulk,
    "task-bulk-undo": _undo_bulk,
    "task-bulks": _bulks,
    "task-bulk": _bulk,
    "task-bulk-stop": _stop_bulk,
    "task": _explained,
    "task-candidates": lambda k: _task(k, "candidates"),
    "task-effects": lambda k: _task(k, "effects"),
    "task-graph": _task,
    "task-events": lambda k: _task(k, "events"),
    "task-input": lambda k: [read("tasks", k["task_id"], cli=tenure("get", k["task_id"]))],
    "task-raw": lambda k: [read("tasks", k["task_id"], cli=tenure("get", k["task_id"]))],
    "task-reveal": _reveal("tasks", "task_id", "input"),
    "run-reveal": _reveal_whole("runs", "run_id", "metadata"),
    "event-reveal": _reveal_whole("events", "event_id", "event"),
    "task-cancel": _decide("cancel", "cancel"),
    "task-reopen": _decide("reopen", "reopen", expected_state_version=WHY),
    "task-revise": _revise,
    "task-release": _decide("restore-hold/release", "release-hold", expected_state_version=WHY),
    "queues": _fixed(read("queues", cli=tenure("list", "queues"))),
    "queue": _queue,
    "queue-intake": _intake,
    "credentials": _fixed(read("credentials")),
    "credential": _fixed(read("credentials")),
    "credential-new": _new_credential,
    "credential-revoke": _revoke,
    "credential-rotate": _new_credential,
    "shadows": _fixed(read("shadow", "rounds", cli=tenure("shadow", "rounds"))),
    "shadow-queue": _shadow,
    "shadow-rounds": _rounds,
    "shadow-round": _round,
    "shadow-promote": _promote,
    "shadow-demote": _demote,
    "promotion": _promotion,
    "promotion-withdraw": _withdraw,
    "numbers": _fixed(read("metrics", cli=tenure("read", "metrics", "--raw"))),
    "figure": _fixed(read("metrics", cli=tenure("read", "metrics", "--raw")), read("coverage")),
    "audit": _audits,
    "audit-chain": _chain,
    "audit-integrity": _fixed(read("audits")),
    "audit-run": _fixed(send("POST", "audits", reason=WHY), manage("audit", "--reason", WHY)),
    "audit-pass": lambda k: [read("audits", k["audit_id"])],
    "downstreams": _fixed(read("downstreams")),
    "downstream": _fixed(read("downstreams")),
    "downstream-new": _new_downstream,
    "downstream-change": _change_downstream,
    "downstream-ask": _fixed(read("downstreams")),
    "workers": _fixed(read("pools")),
    "pools": _fixed(read("pools")),
    "people": _people,
    "person": _people,
    "person-role": _people,
    "person-new": _people,
    "person-code": _fixed(manage("changepassword", WHY)),
    "person-token-new": _token,
    "person-token-revoke": _token,
    "approvals": _fixed(read("approvals", cli=tenure("approvals"), state="PENDING")),
    "approval": _approval,
    "approval-pass": _pass,
    "approval-present": _present,
    "approval-reveal": _reveal_approval,
    "effects-unknown": _fixed(
        read("effects", cli=tenure("effects", "--unknown"), may_be_out="true"),
        read("effects", "groups"),
    ),
    "effect": _effect,
    "effect-ask": _ask,
    "effect-reveal": _reveal("effects", "effect_id", "payload"),
    "effect-settle": _settle,
    "incidents": _fixed(read("incidents", cli=tenure("incident", "list"))),
    "incident-new": _new_incident,
    "incident-step": _step,
    "incident-abort": _abort,
    "profile": _fixed(read("me")),
}
#: Files, ways to another page, and what is about the console itself.
WITHOUT: Final = frozenset(
    {
        "find", "task-export", "audit-export", "download", "incident", "incident-report", "menu", "theme", "shortcuts",
        "sign-in", "sign-out", "task-facets", "password", "welcome",
    }
)  # fmt: skip


def commands_of(name: str, kwargs: Kwargs, origin: str) -> Terminal | None:
    """The page's lines; None for one that has none."""
    page = PAGES.get(name)
    return terminal(page(kwargs), origin) if page else None
