"""What the command line can do about outside effects: read them and settle them."""

from __future__ import annotations

import argparse
import json
from itertools import islice

from tenure.cli.commands import LISTED, Command, positive
from tenure.cli.printing import print_json, print_record, print_table, say
from tenure.cli.settings import UsageError, document
from tenure.client import Client
from tenure.records import Json

FINDINGS = {"happened": "HAPPENED", "not-happened": "NOT_HAPPENED"}
_FOUND = {said: finding for finding, said in FINDINGS.items()}


def list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue")
    parser.add_argument("--downstream")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many rows (default {LISTED})"
    )


def _effects_arguments(parser: argparse.ArgumentParser) -> None:
    list_arguments(parser)
    state = parser.add_mutually_exclusive_group()
    state.add_argument(
        "--unknown", action="store_true", help="those of which nobody knows whether they happened"
    )
    state.add_argument("--state", help="such as PREPARED or COMMITTED")


def _effects(client: Client, args: argparse.Namespace) -> bool:
    state = "UNKNOWN" if args.unknown else args.state
    asked = {"queue": args.queue, "downstream": args.downstream, "state": state}
    found = list(islice(client.effects(**given(asked)), args.limit))
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
        say(
            f"#{one['id']}  {one['at']}  {one['actor']}: {one['said']} ({one['kind']}) {_short(one['detail'])}"
        )
    for approval_id in detail.approval_ids:
        say(f"approval {approval_id}")
    return True


def _ask(client: Client, args: argparse.Namespace) -> bool:
    asked = client.ask_downstream(args.effect)
    if args.json:
        print_json(asked)
        return True
    say(f"said      {asked.said}  ({asked.milliseconds} ms)")
    if asked.detail:
        say(f"detail    {asked.detail}")
    if asked.receipt is not None:
        say(f"receipt   {json.dumps(asked.receipt, ensure_ascii=False)}")
    if asked.masked:
        say(f"masked    {', '.join(asked.masked)}")
    if finding := _FOUND.get(asked.said):
        receipt = " --receipt FILE" if finding == "happened" else ""
        say(
            f"settle it: tenure reconcile {asked.effect_id} {finding} --look-up {asked.lookup_id}"
            f' --dispatches {asked.dispatches}{receipt} --detail "…"'
        )
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


def given(filters: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}


def _short(detail: Json) -> str:
    return json.dumps(detail, ensure_ascii=False) if detail else ""


_EFFECT = "30ed5768d4b2e1b845270f17f0b5ad98635de2ee9c5f4aa66c2c091fb1867a8a"

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
        name="ask",
        does="have a downstream asked whether an effect happened; nothing is settled by it",
        example=f"tenure ask {_EFFECT}",
        arguments=_effect_argument,
        run=_ask,
    ),
    Command(
        name="reconcile",
        does="settle an effect by what was found out about it",
        example=f'tenure reconcile {_EFFECT} happened --receipt receipt.json --detail "seen in their log"',
        arguments=_reconcile_arguments,
        run=_reconcile,
    ),
)
