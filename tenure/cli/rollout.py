"""`tenure shadow …`: what the shadow judge found, and people's words on it (contract 13)."""

from __future__ import annotations

import argparse
from itertools import islice

from tenure.cli.commands import LISTED, Command, positive
from tenure.cli.printing import print_json, print_table, say
from tenure.client import Client

TRIAGES = ("BUG", "EXPECTED", "NOISE")
_ID = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"


def queue_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE")


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    queue_argument(parser)
    parser.add_argument("--hours", type=positive, default=24, help="the window (default 24)")


def _status(client: Client, args: argparse.Namespace) -> bool:
    found = client.shadow(args.queue, window_hours=args.hours)
    if args.json:
        print_json(found)
        return True
    say(f"{found.queue}  {found.rollout_stage}")
    rate = "none yet" if found.rate is None else f"{found.rate:.3%}"
    upper = "" if found.rate_upper is None else f" (at most {found.rate_upper:.3%}, 95 %)"
    say(f"{found.sample} rounds in {found.window_hours} h, {found.open_rounds} open")
    say(f"mismatches {rate}{upper}, {found.unexplained} unexplained")
    for one in found.classes:
        say(f"  {one.verdict}  {one.rounds}, {one.unexplained} unexplained  {one.exemplar}")
    for source in found.sources:
        counts = "  ".join(
            f"{name} {source[name]}"
            for name in ("events", "duplicates", "conflicts", "too_late", "lost")
        )
        say(f"source {source['name']}: {counts}")
    return True


def _rounds_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue")
    parser.add_argument("--verdict", help="such as DOUBLE_CLAIM")
    parser.add_argument("--task", metavar="KEY", help="of this legacy task")
    parser.add_argument("--unexplained", action="store_true", help="mismatches nobody explained")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many rows (default {LISTED})"
    )


def _rounds(client: Client, args: argparse.Namespace) -> bool:
    asked = {"queue": args.queue, "verdict": args.verdict, "task_key": args.task}
    filters = {name: value for name, value in asked.items() if value}
    if args.unexplained:
        filters |= {"mismatch": "true", "explained": "false"}
    found = list(islice(client.shadow_rounds(**filters), args.limit))
    if args.json:
        print_json(found)
        return True
    columns = ("round_id", "queue", "task_key", "verdict", "explained", "settled_at")
    print_table(columns, ([getattr(one, column) for column in columns] for one in found))
    return True


def _round_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("round", metavar="ROUND", help="the round's id")


def _round(client: Client, args: argparse.Namespace) -> bool:
    found = client.shadow_round(args.round)
    if args.json:
        print_json(found)
        return True
    one = found["round"]
    say(f"{one['task_key']} #{one['number']}  {one['verdict'] or 'open'}")
    for event in found["events"]:
        late = "  too late" if event["too_late"] else ""
        say(f"  {event['at']}  {event['event']}  {event['owner']}  {event['event_id']}{late}")
    for mismatch in one["mismatches"]:
        say(
            f"{mismatch['verdict']}: at {mismatch['event_id']} the legacy scheduler {mismatch['legacy']};"
        )
        say(f"  claim.v1 would have said {mismatch['claim_v1']}")
    for said in found["explanations"]:
        say(f"explained by {said['operator']} ({said['triage']}): {said['reason']}")
    return True


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    _round_argument(parser)
    parser.add_argument("--reason", required=True, help="why the two sides differ; it is kept")
    parser.add_argument("--triage", choices=TRIAGES, default="EXPECTED")
    parser.add_argument("--link", default="", help="where more is written about it")
    parser.add_argument(
        "--whole-class", metavar="VERDICT", help="explain every mismatch of this class in the queue"
    )
    parser.add_argument("--expires-at", metavar="INSTANT", help="needed for a whole class")


def _explain(client: Client, args: argparse.Namespace) -> bool:
    told = client.explain_round(
        args.round,
        reason=args.reason,
        triage=args.triage,
        of_class=args.whole_class,
        expires_at=args.expires_at,
        link=args.link,
    )
    if args.json:
        print_json(told)
    else:
        say(f"{told['outcome']} {told['verdict']}")
    return True


SHADOW_VERBS = (
    Command(
        name="status",
        does="show how often the legacy scheduler and claim.v1 agree in a queue",
        example="tenure shadow status billing --hours 168",
        arguments=_status_arguments,
        run=_status,
    ),
    Command(
        name="rounds",
        does="list the rounds that were judged, newest first",
        example="tenure shadow rounds --queue billing --unexplained",
        arguments=_rounds_arguments,
        run=_rounds,
    ),
    Command(
        name="round",
        does="show one round: its events, its verdict, and what claim.v1 would have said",
        example=f"tenure shadow round {_ID}",
        arguments=_round_argument,
        run=_round,
    ),
    Command(
        name="explain",
        does="explain a mismatch, or its whole class until an expiry",
        example=f'tenure shadow explain {_ID} --triage BUG --reason "visibility timeout too short"',
        arguments=_explain_arguments,
        run=_explain,
    ),
)
