"""`tenure incident …`: open one, and read where it stands; its steps are in incident_steps.py (contract 12)."""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from typing import Any

from tenure.cli.commands import LISTED, Command, positive
from tenure.cli.printing import print_json, print_table, say
from tenure.client import Client
from tenure.incident_steering import BumpPreview, IncidentGate

#: Rows of each kind that people are shown; the counts tell of all.
SHOWN = 10
EXAMPLE_ID = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"


def incident_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("incident", metavar="INCIDENT", help="the incident's id")


def told(answer: Any, args: argparse.Namespace) -> bool:
    if args.json:
        print_json(answer)
    else:
        again = " (taken before)" if answer.replayed else ""
        say(f"{answer.incident_id}  {answer.state}  version {answer.version}{again}")
    return True


def _open_arguments(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument(
        "--queue", action="append", metavar="QUEUE", help="its intake is stopped; may be repeated"
    )
    scope.add_argument("--all", action="store_true", help="every queue that there is")
    parser.add_argument("--reason", required=True, help="why; it stands in the report")
    parser.add_argument("--key", help="an Idempotency-Key: opening again with it gives the same")


def _open(client: Client, args: argparse.Namespace) -> bool:
    queues = None if args.all else args.queue
    return told(client.open_incident(queues=queues, reason=args.reason, key=args.key), args)


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue")
    parser.add_argument("--open", action="store_true", help="only those that are not over")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many rows (default {LISTED})"
    )


def _list(client: Client, args: argparse.Namespace) -> bool:
    filters = {"queue": args.queue, "open": "true" if args.open else None}
    given = {name: value for name, value in filters.items() if value}
    found = list(islice(client.incidents(**given), args.limit))
    if args.json:
        print_json(found)
    else:
        print_table(
            ("incident_id", "state", "queues", "opened_at", "opened_by", "reason"),
            (
                [
                    each.incident_id, each.state, ", ".join(queue.name for queue in each.queues),
                    each.opened_at, each.opened_by, each.reason,
                ]
                for each in found
            ),
        )  # fmt: skip
    return True


def _show(client: Client, args: argparse.Namespace) -> bool:
    incident = client.incident(args.incident)
    if args.json:
        print_json(incident)
        return True
    say(f"{incident.incident_id}  {incident.state}  version {incident.version}")
    say(f"reason  {incident.reason}")
    for queue in incident.queues:
        say(
            f"queue   {queue.name}: epoch {queue.scheduler_epoch}, intake {queue.intake}, pool {queue.active_pool}"
        )
    for canary in incident.canaries:
        what = "held by the server" if canary.held else f"{canary.share} % let in"
        say(
            f"{canary.at:%Y-%m-%d %H:%M:%S %Z}  CANARY  {canary.by}  {what}  {canary.reason}".rstrip()
        )
    for step in incident.steps:
        say(f"{step.at:%Y-%m-%d %H:%M:%S %Z}  {step.step}  {step.by}  {step.reason}".rstrip())
    return True


def _preview(client: Client, args: argparse.Namespace) -> bool:
    preview = client.preview_bump(args.incident)
    if args.json:
        print_json(preview)
    else:
        show_preview(preview)
    return True


def show_preview(preview: BumpPreview) -> None:
    for name, epoch in preview.epochs.items():
        say(f"{name}: epoch {epoch} → {epoch + 1}")
    say(f"claims to revoke: {preview.revoked}")
    _rows(preview.claims, "node_id", "owner", "lease_expires_at", "task_id")
    say(
        f"effects that become UNKNOWN: {preview.effects_unknown}; that are closed: {preview.effects_closed}"
    )
    _rows(preview.effects, "slot", "downstream", "becomes", "effect_id")
    say(f"approvals that become void: {preview.approvals_void}")
    _rows(preview.approvals, "node_id", "approval_id")
    say(f"results that will wait for a decision: {preview.staged_results}")
    say(
        f"used so far: {preview.cost.get('cost_usd')} USD in {preview.cost.get('attempts')} attempts"
    )


def _rows(rows: tuple[Any, ...], *columns: str) -> None:
    for row in rows[:SHOWN]:
        say("  " + "  ".join(str(row.get(column)) for column in columns))
    if len(rows) > SHOWN:
        say("  …")


def _gate(client: Client, args: argparse.Namespace) -> bool:
    gate = client.incident_gate(args.incident)
    if args.json:
        print_json(gate)
    else:
        _show_gate(gate)
    return gate.open


def _show_gate(gate: IncidentGate) -> None:
    say(f"{gate.incident_id}  {gate.state}  {'open' if gate.open else 'closed'}")
    until = f", the last until {gate.latest_expiry:%H:%M:%S %Z}" if gate.latest_expiry else ""
    say(f"leases of the old epoch: {gate.active_leases}{until}")
    say(f"effects that may be out: {gate.unknown_effects}")
    say(f"results to decide about: {gate.pending_results}")
    for row in gate.blocking[:SHOWN]:
        what = row.get("effect_id") or row.get("attempt_id")
        say(
            f"  {row.get('kind')}  {row.get('node_id')}  {row.get('owner') or row.get('state')}  {what}"
        )


def _report(client: Client, args: argparse.Namespace) -> bool:
    if args.json:
        print_json(client.incident_report(args.incident))
    else:
        sys.stdout.flush()
        client.write_incident_report(args.incident, sys.stdout.buffer)
    return True


READS = (
    Command(
        name="open",
        does="open an incident: intake stops at once",
        example='tenure incident open --queue orders --reason "deploy 42 loses orders"',
        arguments=_open_arguments,
        run=_open,
    ),
    Command(
        name="list",
        does="list incidents",
        example="tenure incident list --open",
        arguments=_list_arguments,
        run=_list,
    ),
    Command(
        name="show",
        does="show an incident with its steps",
        example=f"tenure incident show {EXAMPLE_ID}",
        arguments=incident_argument,
        run=_show,
    ),
    Command(
        name="preview",
        does="show what the bump would take back",
        example=f"tenure incident preview {EXAMPLE_ID}",
        arguments=incident_argument,
        run=_preview,
    ),
    Command(
        name="gate",
        does="show what of the old epoch is still out; exit code 0 once nothing is",
        example=f"tenure incident gate {EXAMPLE_ID}",
        arguments=incident_argument,
        run=_gate,
    ),
    Command(
        name="report",
        does="print the whole story: Markdown, or JSON with --json",
        example=f"tenure incident report {EXAMPLE_ID} > incident.md",
        arguments=incident_argument,
        run=_report,
    ),
)
