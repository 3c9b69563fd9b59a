"""`tenure queue …`: a queue's way through its stages; forward takes two people, back takes one (contract 13)."""

from __future__ import annotations

import argparse
from itertools import islice

from tenure.cli.commands import LISTED, Command, positive
from tenure.cli.printing import complain, confirmed, print_json, print_table, say
from tenure.cli.rollout import queue_argument
from tenure.cli.settings import UsageError
from tenure.client import Client
from tenure.rollout_steering import GateClosed, StageSet

STAGES = ("SHADOW", "IDEMPOTENT_READS", "CONDITIONAL_WRITES")
_ID = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"


def _gate(client: Client, args: argparse.Namespace) -> bool:
    gate = client.promotion(args.queue)
    if args.json:
        print_json(gate)
        return gate.open
    onward = gate.next_stage or "no stage after it"
    say(f"{gate.queue}  {gate.rollout_stage} → {onward}  {'open' if gate.open else 'closed'}")
    for one in gate.criteria:
        say(f"  {'met    ' if one.ok else 'not met'}  {one.name}: {one.detail}")
    return gate.open


def _promote_arguments(parser: argparse.ArgumentParser) -> None:
    queue_argument(parser)
    parser.add_argument("--confirm", required=True, metavar="QUEUE", help="the name once more")
    _stage_arguments(parser)


def _stage_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, help="why; it stands in the queue's history")
    parser.add_argument(
        "--expected-stage", choices=STAGES, help="as you saw it (default: as it is now)"
    )


def _promote(client: Client, args: argparse.Namespace) -> bool:
    expected = args.expected_stage or client.queue(args.queue).rollout_stage
    try:
        answer = client.promote(
            args.queue, expected_stage=expected, confirm=args.confirm, reason=args.reason
        )
    except GateClosed as closed:
        return _closed(closed)
    if args.json:
        print_json(answer)
    else:
        say(
            f"{answer.queue}  {answer.from_stage} → {answer.to_stage}  asked, until {answer.expires_at}"
        )
        say(f"somebody else: tenure queue confirm {answer.request_id} --confirm {answer.queue}")
    return True


def _closed(closed: GateClosed) -> bool:
    complain("the gate is closed")
    for one in closed.blocking:
        complain(f"{one.get('name')}: {one.get('detail')}")
    return False


def _request_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", metavar="REQUEST", help="the id of a request for a promotion")


def _confirm_arguments(parser: argparse.ArgumentParser) -> None:
    _request_argument(parser)
    parser.add_argument("--confirm", required=True, metavar="QUEUE", help="the queue's name")
    parser.add_argument("--yes", action="store_true", help="do not ask: the figures have been read")
    parser.add_argument("--reason", default="", help="kept with the promotion; needed with --alone")
    parser.add_argument(
        "--alone", action="store_true", help="you asked yourself and nobody else can: an alarm"
    )


def _confirm(client: Client, args: argparse.Namespace) -> bool:
    if args.json and not args.yes:
        raise UsageError("--json asks nobody: read the figures, then give --yes")
    request = client.promotion_request(args.request)
    if not args.json:
        say(f"{request.queue}  {request.from_stage} → {request.to_stage}  {request.state}")
        say(f"asked by {request.requested_by}: {request.reason}")
        for one in request.evidence["criteria"]:
            say(f"  {one['name']}: {one['detail']}")
    if not args.yes and not confirmed("Promote it? (yes/no)"):
        complain("nothing was promoted")
        return False
    try:
        answer = client.confirm_promotion(
            args.request,
            evidence_digest=request.evidence_digest,
            confirm=args.confirm,
            reason=args.reason,
            alone=args.alone,
        )
    except GateClosed as closed:
        return _closed(closed)
    if args.json:
        print_json(answer)
    else:
        say(f"{answer.queue}  {answer.rollout_stage}  epoch {answer.scheduler_epoch}")
    return True


def _withdraw_arguments(parser: argparse.ArgumentParser) -> None:
    _request_argument(parser)
    parser.add_argument("--reason", required=True, help="why; it is kept")


def _withdraw(client: Client, args: argparse.Namespace) -> bool:
    request = client.withdraw_promotion(args.request, reason=args.reason)
    if args.json:
        print_json(request)
    else:
        say(f"{request.queue}  {request.state}")
    return True


def _promotions_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue")
    parser.add_argument("--all", action="store_true", help="also those that are over")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many rows (default {LISTED})"
    )


def _promotions(client: Client, args: argparse.Namespace) -> bool:
    filters = {"queue": args.queue} if args.queue else {}
    filters |= {} if args.all else {"state": "ASKED"}
    found = list(islice(client.promotion_requests(**filters), args.limit))
    if args.json:
        print_json(found)
    else:
        columns = ("request_id", "queue", "to_stage", "state", "requested_by", "expires_at")
        print_table(columns, ([getattr(one, column) for column in columns] for one in found))
    return True


def _demote_arguments(parser: argparse.ArgumentParser) -> None:
    queue_argument(parser)
    parser.add_argument("--to", required=True, choices=STAGES[:-1], help="an earlier stage")
    _stage_arguments(parser)


def _demote(client: Client, args: argparse.Namespace) -> bool:
    expected = args.expected_stage or client.queue(args.queue).rollout_stage
    answer = client.demote(
        args.queue, to_stage=args.to, expected_stage=expected, reason=args.reason
    )
    return _told(answer, args)


def _told(answer: StageSet, args: argparse.Namespace) -> bool:
    if args.json:
        print_json(answer)
    else:
        before = "" if answer.changed else " (it was already)"
        say(f"{answer.queue}  {answer.rollout_stage}  epoch {answer.scheduler_epoch}{before}")
    return True


QUEUE_VERBS = (
    Command(
        name="gate",
        does="show what a queue's next stage asks for; success is an open gate",
        example="tenure queue gate billing",
        arguments=queue_argument,
        run=_gate,
    ),
    Command(
        name="promote",
        does="ask to move a queue to its next stage, where the gate is open; another person confirms it",
        example='tenure queue promote billing --confirm billing --reason "a week without a mismatch"',
        arguments=_promote_arguments,
        run=_promote,
    ),
    Command(
        name="promotions",
        does="list the promotions that wait for a second person",
        example="tenure queue promotions --queue billing",
        arguments=_promotions_arguments,
        run=_promotions,
    ),
    Command(
        name="confirm",
        does="show what a promotion is based on, and confirm it as the second person",
        example=f"tenure queue confirm {_ID} --confirm billing",
        arguments=_confirm_arguments,
        run=_confirm,
    ),
    Command(
        name="withdraw",
        does="call a request for a promotion off",
        example=f'tenure queue withdraw {_ID} --reason "not this week"',
        arguments=_withdraw_arguments,
        run=_withdraw,
    ),
    Command(
        name="demote",
        does="move a queue back to an earlier stage; its epoch is bumped",
        example='tenure queue demote billing --to SHADOW --reason "doubts"',
        arguments=_demote_arguments,
        run=_demote,
    ),
)
