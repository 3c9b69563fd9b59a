"""What the command line can do about outside effects: read them, settle them, and decide on their payloads."""

from __future__ import annotations

import argparse
import json
from itertools import islice

from tenure.cli.commands import LISTED, Command, positive
from tenure.cli.printing import complain, confirmed, print_json, print_record, print_table, say
from tenure.cli.settings import UsageError, document
from tenure.client import Client
from tenure.digests import payload_digest
from tenure.effect_steering import Approval
from tenure.records import Json

FINDINGS = {"happened": "HAPPENED", "not-happened": "NOT_HAPPENED"}


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue")
    parser.add_argument("--downstream")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many rows (default {LISTED})"
    )


def _effects_arguments(parser: argparse.ArgumentParser) -> None:
    _list_arguments(parser)
    state = parser.add_mutually_exclusive_group()
    state.add_argument(
        "--unknown", action="store_true", help="those of which nobody knows whether they happened"
    )
    state.add_argument("--state", help="such as PREPARED or COMMITTED")


def _effects(client: Client, args: argparse.Namespace) -> bool:
    state = "UNKNOWN" if args.unknown else args.state
    asked = {"queue": args.queue, "downstream": args.downstream, "state": state}
    found = list(islice(client.effects(**_given(asked)), args.limit))
    if args.json:
        print_json(found)
    else:
        columns = ("effect_id", "state", "downstream", "slot", "node_id", "unknown_since")
        print_table(columns, ([getattr(one, column) for column in columns] for one in found))
    return True


def _effect_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("effect", metavar="EFFECT", help="the effect's id, 64 hex digits")


def _effect(client: Client, args: argparse.Namespace) -> bool:
    detail = client.effect_detail(args.effect)
    if args.json:
        print_json(detail)
        return True
    print_record(detail.effect)
    for one in detail.evidence:
        say(f"{one['at']}  {one['actor']}: {one['said']} ({one['kind']}) {_short(one['detail'])}")
    for approval_id in detail.approval_ids:
        say(f"approval {approval_id}")
    return True


def _reconcile_arguments(parser: argparse.ArgumentParser) -> None:
    _effect_argument(parser)
    parser.add_argument("finding", choices=FINDINGS, nargs="?", help="what was found")
    parser.add_argument(
        "--begin",
        action="store_true",
        help="stamp a look-up, before you ask the downstream by the exact id; prints the look-up's id",
    )
    parser.add_argument("--look-up", metavar="ID", help="what was found by this stamped look-up")
    parser.add_argument("--detail", help="how it is known; it is kept as evidence")
    parser.add_argument(
        "--receipt", metavar="FILE|-", help="what the downstream gave, as JSON; for happened"
    )
    parser.add_argument(
        "--dispatches",
        type=positive,
        metavar="N",
        help="how many dispatches you have judged (default: as many as there are now)",
    )


def _reconcile(client: Client, args: argparse.Namespace) -> bool:
    if args.begin:
        started = client.begin_look_up(args.effect)
        if args.json:
            print_json(started)
        else:
            say(f"{started.lookup_id} (dispatches: {started.dispatches})")
        return True
    if args.finding is None or not args.detail:
        raise UsageError("say what was found and how: tenure reconcile EFFECT happened --detail …")
    if args.finding == "happened" and args.receipt is None:
        raise UsageError("happened needs --receipt FILE|-: what the downstream gave to prove it")
    settled = client.reconcile(
        args.effect,
        "HAPPENED" if args.finding == "happened" else "NOT_HAPPENED",
        dispatches=args.dispatches or client.effect(args.effect).dispatch_count or 0,
        detail=args.detail,
        method="query" if args.look_up else "operator",
        receipt=None if args.receipt is None else document(args.receipt),
        lookup_id=args.look_up,
    )
    if args.json:
        print_json(settled)
    else:
        say(settled.state)
    return True


def _approvals_arguments(parser: argparse.ArgumentParser) -> None:
    _list_arguments(parser)
    parser.add_argument(
        "--state", default="PENDING", help="PENDING unless told otherwise; ALL for every state"
    )


def _approvals(client: Client, args: argparse.Namespace) -> bool:
    state = None if args.state == "ALL" else args.state
    asked = {"queue": args.queue, "downstream": args.downstream, "state": state}
    found = list(islice(client.approvals(**_given(asked)), args.limit))
    if args.json:
        print_json(found)
    else:
        columns = ("approval_id", "state", "downstream", "slot", "node_id", "expires_at")
        print_table(columns, ([getattr(one, column) for column in columns] for one in found))
    return True


def _approval_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("approval", metavar="APPROVAL", help="the approval's id")


def _approve_arguments(parser: argparse.ArgumentParser) -> None:
    _approval_argument(parser)
    parser.add_argument("--comment", default="", help="kept with the decision")
    parser.add_argument("--yes", action="store_true", help="do not ask: the payload has been read")


def _approve(client: Client, args: argparse.Namespace) -> bool:
    if args.json and not args.yes:
        raise UsageError("--json asks nobody: read the payload, then give --yes")
    approval = client.approval(args.approval)
    if not _is_what_is_bound(client, approval):
        complain(
            "the payload that is shown has not the digest that is bound; nothing was approved. "
            "(Whoever may not see payloads is shown none.)"
        )
        return False
    if not args.json:
        _show(approval)
    asks = approval.state == "PENDING" and not args.yes
    if asks and not confirmed("Approve exactly this? (yes/no)"):
        complain("nothing was approved")
        return False
    decided = client.approve(
        args.approval, payload_digest=approval.payload_digest, comment=args.comment
    )
    _report(decided, args)
    return True


def _reject_arguments(parser: argparse.ArgumentParser) -> None:
    _approval_argument(parser)
    parser.add_argument("--reason", required=True, help="why; the task fails with it")


def _reject(client: Client, args: argparse.Namespace) -> bool:
    digest = client.approval(args.approval).payload_digest
    decided = client.reject(args.approval, payload_digest=digest, reason=args.reason)
    _report(decided, args)
    return True


def _report(decided: Json, args: argparse.Namespace) -> None:
    if args.json:
        print_json(decided)
    else:
        say(decided.state)


def _is_what_is_bound(client: Client, approval: Approval) -> bool:
    """Whether the payload that a person is shown has the digest that they are about to approve."""
    condition = client.effect(approval.effect_id).condition
    shown = payload_digest(
        downstream=approval.downstream, payload=approval.payload, condition=condition
    )
    return shown == approval.payload_digest


def _show(approval: Approval) -> None:
    rows = {
        "approval": f"{approval.approval_id} ({approval.state}, until {approval.expires_at:%Y-%m-%d %H:%M %Z})",
        "effect": approval.effect_id,
        "slot": f"{approval.slot} of {approval.node_id}",
        "downstream": approval.downstream,
        "digest": approval.payload_digest,
    }
    for name, value in rows.items():
        say(f"{name:<10}  {value}")
    for one in approval.decisions:
        say(f"{one.decision.lower():<10}  {one.operator} {one.comment}".rstrip())
    say(exact(approval.payload))


def exact(payload: Json) -> str:
    """JSON for eyes: what would not be seen, or would turn the line around, is escaped as JSON has it."""
    text = json.dumps(payload, indent=2, ensure_ascii=False)
    return "".join(
        char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text
    )


def _given(filters: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}


def _short(detail: Json) -> str:
    return json.dumps(detail, ensure_ascii=False) if detail else ""


_EFFECT = "30ed5768d4b2e1b845270f17f0b5ad98635de2ee9c5f4aa66c2c091fb1867a8a"
_APPROVAL = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"

EFFECT_COMMANDS = (
    Command(
        name="effects",
        does="list outside effects",
        example="tenure effects --unknown --downstream payments",
        arguments=_effects_arguments,
        run=_effects,
    ),
    Command(
        name="effect",
        does="show an effect with its dispatches and evidence",
        example=f"tenure effect {_EFFECT}",
        arguments=_effect_argument,
        run=_effect,
    ),
    Command(
        name="reconcile",
        does="settle an effect by what was found out about it",
        example=f'tenure reconcile {_EFFECT} happened --receipt receipt.json --detail "seen in their log"',
        arguments=_reconcile_arguments,
        run=_reconcile,
    ),
    Command(
        name="approvals",
        does="list what waits for a person's approval",
        example="tenure approvals --downstream mail",
        arguments=_approvals_arguments,
        run=_approvals,
    ),
    Command(
        name="approve",
        does="show the exact payload with its digest, and approve it once confirmed",
        example=f"tenure approve {_APPROVAL}",
        arguments=_approve_arguments,
        run=_approve,
    ),
    Command(
        name="reject",
        does="reject a payload: its task fails with the reason",
        example=f'tenure reject {_APPROVAL} --reason "wrong address"',
        arguments=_reject_arguments,
        run=_reject,
    ),
)
