"""What the command line shows of what is masked: for a reason that is kept."""

from __future__ import annotations

import argparse
from typing import Final

from tenure.cli.commands import Command, positive
from tenure.cli.printing import print_json
from tenure.cli.settings import UsageError
from tenure.client import Client
from tenure.revealing import Revealed

OF_EFFECTS: Final = ("payload", "condition", "receipt", "evidence")
OF_TASKS: Final = ("input", "result", "candidate", "error")
PARTS: Final = (*OF_EFFECTS, *OF_TASKS, "metadata", "event", "memory")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        help="of an effect, a task, a run or an event; or NAMESPACE/KEY of shared memory",
    )
    parser.add_argument("--reason", required=True, help="why you have to see it; it is kept")
    parser.add_argument(
        "--part",
        choices=PARTS,
        help="of an effect its payload, of a task its input, unless told otherwise; `metadata` is a run's",
    )
    parser.add_argument("--attempt", metavar="ID", help="whose error or candidate it is")
    parser.add_argument("--digest", help="of the candidate's result")
    parser.add_argument("--evidence", metavar="N", help="the id of the piece of evidence")
    parser.add_argument(
        "--version",
        type=positive,
        metavar="N",
        help="of the key of shared memory (default: its newest)",
    )


def _reveal(client: Client, args: argparse.Namespace) -> bool:
    part = args.part or _meant(args.id)
    if part in OF_EFFECTS:
        shown = client.reveal(
            args.id, reason=args.reason, part=part, evidence_id=_number(args.evidence, "--evidence")
        )
    elif part in OF_TASKS:
        shown = client.reveal_task(
            args.id,
            reason=args.reason,
            part=part,
            attempt_id=args.attempt,
            result_digest=args.digest,
        )
    else:
        shown = _other(client, part, args)
    print_json(shown)
    return True


def _other(client: Client, part: str, args: argparse.Namespace) -> Revealed:
    if part == "metadata":
        return client.reveal_run(args.id, reason=args.reason)
    if part == "event":
        return client.reveal_event(_number(args.id, "the event's id") or 0, reason=args.reason)
    namespace, slash, key = args.id.partition("/")
    if not (namespace and slash and key):
        raise UsageError("name a key of shared memory as NAMESPACE/KEY")
    return client.reveal_memory(namespace, key, reason=args.reason, version=args.version)


def _meant(named: str) -> str:
    """What an id without a part means, by how it is written."""
    if "/" in named:
        return "memory"
    if named.isdecimal() and len(named) < 64:
        return "event"
    return "input" if "-" in named else "payload"


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{name} is a number, not {text!r}")
    return int(text)


_EFFECT: Final = "30ed5768d4b2e1b845270f17f0b5ad98635de2ee9c5f4aa66c2c091fb1867a8a"

REVEAL_COMMANDS: Final = (
    Command(
        name="reveal",
        does="see what is masked of an effect, a task, a run, an event or shared memory, once; it is on record",
        example=f'tenure reveal {_EFFECT} --reason "the customer asks for the account"',
        arguments=_arguments,
        run=_reveal,
    ),
)
