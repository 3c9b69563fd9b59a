"""What the command line can do about approvals: read the exact payload, and decide on it or pass it on."""

from __future__ import annotations

import argparse
import difflib
import json
from dataclasses import replace
from itertools import islice

from tenure.cli.commands import Command
from tenure.cli.effects import given, list_arguments
from tenure.cli.printing import complain, confirmed, print_json, print_table, say
from tenure.cli.settings import UsageError
from tenure.client import Client
from tenure.digests import payload_digest
from tenure.effect_steering import Approval
from tenure.records import Json

#: Why a person said no, in one word.
CODES = (
    "WRONG_CONTENT",
    "WRONG_RECIPIENT",
    "NOT_NEEDED",
    "NOT_ALLOWED",
    "SUSPICIOUS",
    "OTHER",
)


def _approvals_arguments(parser: argparse.ArgumentParser) -> None:
    list_arguments(parser)
    parser.add_argument(
        "--state", default="PENDING", help="PENDING unless told otherwise; ALL for every state"
    )


def _approvals(client: Client, args: argparse.Namespace) -> bool:
    state = None if args.state == "ALL" else args.state
    asked = {"queue": args.queue, "downstream": args.downstream, "state": state}
    found = list(islice(client.approvals(**given(asked)), args.limit))
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
    parser.add_argument(
        "--reveal", metavar="REASON", help="see what is masked in it; the reason is kept on record"
    )


def _approve(client: Client, args: argparse.Namespace) -> bool:
    if args.json and not args.yes:
        raise UsageError("--json asks nobody: read the payload, then give --yes")
    approval = client.approval(args.approval)
    if approval.masked and not args.reveal:
        complain(
            f"masked: {', '.join(approval.masked)}. What can't be seen can't be compared with its digest;"
            ' say --reveal "why" to see it.'
        )
        return False
    if approval.masked:
        seen = client.reveal(approval.effect_id, reason=args.reveal)
        approval = replace(approval, payload=seen.value)
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
    parser.add_argument("--code", choices=CODES, default="OTHER", help="why, in one word")


def _reject(client: Client, args: argparse.Namespace) -> bool:
    digest = client.approval(args.approval).payload_digest
    decided = client.reject(
        args.approval, payload_digest=digest, reason=args.reason, reason_code=args.code
    )
    _report(decided, args)
    return True


def _changes_arguments(parser: argparse.ArgumentParser) -> None:
    _approval_argument(parser)
    parser.add_argument("--reason", required=True, help="what to do otherwise; the agent reads it")


def _ask_for_changes(client: Client, args: argparse.Namespace) -> bool:
    digest = client.approval(args.approval).payload_digest
    asked = client.ask_for_changes(args.approval, payload_digest=digest, reason=args.reason)
    if args.json:
        print_json(asked)
    else:
        say(f"{asked.reason_code}  task {asked.task_id} is revision {asked.revision}")
    return True


def _pass_arguments(parser: argparse.ArgumentParser) -> None:
    _approval_argument(parser)
    parser.add_argument("--to", required=True, metavar="PERSON", help="somebody who may decide")
    parser.add_argument("--reason", required=True, help="why it is their turn; it is kept")


def _pass(client: Client, args: argparse.Namespace) -> bool:
    passed = client.pass_approval(args.approval, to=args.to, reason=args.reason)
    if args.json:
        print_json(passed)
    else:
        say(f"it is {passed.assigned_to}'s turn")
    return True


def _present_arguments(parser: argparse.ArgumentParser) -> None:
    _approval_argument(parser)
    parser.add_argument(
        "--last", action="store_true", help="what was told last; nobody is asked anything"
    )


def _present(client: Client, args: argparse.Namespace) -> bool:
    look = client.present_state if args.last else client.look_at_present
    present = look(args.approval)
    if args.json:
        print_json(present)
        return True
    say(f"{'asked':<10}  {present.at:%Y-%m-%d %H:%M:%S %Z} by {present.actor}")
    if not present.told:
        say(f"{'told':<10}  it could not say what is there: {present.detail}")
        return True
    say(f"{'condition':<10}  {_HOLDS[present.condition_holds]}")
    for name, value in present.facts.items():
        say(f"{name:<10}  {exact(value)}")
    if present.masked:
        say(f"{'masked':<10}  {', '.join(present.masked)} (evidence {present.evidence_id})")
    there, instead = (exact(each).splitlines() for each in (present.there, present.instead))
    lines = list(difflib.unified_diff(there, instead, "there now", "instead", lineterm=""))
    for line in lines or ["the same is there already"]:
        say(line)
    return True


_HOLDS = {True: "held then", False: "did not hold then: it would be refused", None: "none is bound"}


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


_APPROVAL = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"

APPROVAL_COMMANDS = (
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
        name="present",
        does="ask the downstream what is there now, and show it beside what would be",
        example=f"tenure present {_APPROVAL}",
        arguments=_present_arguments,
        run=_present,
    ),
    Command(
        name="reject",
        does="reject a payload: its task fails with the reason",
        example=f'tenure reject {_APPROVAL} --reason "wrong address"',
        arguments=_reject_arguments,
        run=_reject,
    ),
    Command(
        name="ask-for-changes",
        does="send a task back to its agent with words, instead of failing it",
        example=f'tenure ask-for-changes {_APPROVAL} --reason "leave the second recipient out"',
        arguments=_changes_arguments,
        run=_ask_for_changes,
    ),
    Command(
        name="pass",
        does="make an approval another person's turn",
        example=f'tenure pass {_APPROVAL} --to paula --reason "it is her customer"',
        arguments=_pass_arguments,
        run=_pass,
    ),
)
