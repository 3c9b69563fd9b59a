"""The steps of `tenure incident`: bump, candidates, switch, resume, abort (contract 12)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Final

from tenure.cli.commands import Command, positive
from tenure.cli.incidents import EXAMPLE_ID, incident_argument, show_preview, told
from tenure.cli.printing import complain, print_json, say
from tenure.cli.settings import UsageError
from tenure.client import Client

_WHOLE: Final = 100


def _step_arguments(parser: argparse.ArgumentParser, *, reason_needed: bool = False) -> None:
    incident_argument(parser)
    parser.add_argument(
        "--reason", required=reason_needed, default="", help="why; it stands in the report"
    )
    parser.add_argument(
        "--expected-version", type=positive, metavar="N", help="the incident's version that you saw"
    )


def _bump_arguments(parser: argparse.ArgumentParser) -> None:
    _step_arguments(parser)
    parser.add_argument(
        "--confirm", metavar="NAME", help="the queue's name typed out; asked for where left out"
    )
    parser.add_argument(
        "--expected-epoch",
        action="append",
        type=_epoch_of,
        metavar="QUEUE=N",
        help="the epoch that you saw (default: the one that is shown now)",
    )


def _epoch_of(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not QUEUE=N")
    return name, int(number)


def _bump(client: Client, args: argparse.Namespace) -> bool:
    seen, version = _seen(client, args)
    confirm = args.confirm
    if confirm is None:
        print("Type the queue's name to bump it: ", end="", flush=True)
        confirm = sys.stdin.readline().strip()
        if not confirm:
            complain("nothing was bumped")
            return False
    answer = client.bump_incident(
        args.incident,
        expected=seen,
        confirm=confirm,
        reason=args.reason,
        expected_version=args.expected_version or version,
    )
    return told(answer, args)


def _seen(client: Client, args: argparse.Namespace) -> tuple[Mapping[str, int], int | None]:
    """The epochs that were given, or those of the preview that a person is shown first."""
    if args.expected_epoch:
        if args.confirm is None:
            raise UsageError("--expected-epoch says what was seen; then --confirm NAME, too")
        return dict(args.expected_epoch), None
    if args.json:
        raise UsageError("--json asks nobody: give --expected-epoch QUEUE=N and --confirm NAME")
    preview = client.preview_bump(args.incident)
    show_preview(preview)
    return preview.epochs, preview.version


def _candidates_arguments(parser: argparse.ArgumentParser) -> None:
    _step_arguments(parser, reason_needed=True)
    parser.add_argument("decision", choices=("keep", "discard"))
    parser.add_argument(
        "--attempt", action="append", metavar="ID", help="only its results; may be repeated"
    )


def _candidates(client: Client, args: argparse.Namespace) -> bool:
    decided = client.decide_candidates(
        args.incident,
        "KEEP" if args.decision == "keep" else "DISCARD",
        reason=args.reason,
        attempt_ids=args.attempt,
        expected_version=args.expected_version,
    )
    if args.json:
        print_json(decided)
    else:
        say(f"{decided.decision}: {decided.decided}")
    return True


def _switch_arguments(parser: argparse.ArgumentParser) -> None:
    _step_arguments(parser)
    parser.add_argument("--to", required=True, metavar="POOL", help="the pool that takes over")


def _switch(client: Client, args: argparse.Namespace) -> bool:
    seen = {"reason": args.reason, "expected_version": args.expected_version}
    return told(client.switch_pool(args.incident, to_pool=args.to, **seen), args)


def _resume_arguments(parser: argparse.ArgumentParser) -> None:
    _step_arguments(parser)
    parser.add_argument(
        "--percent",
        type=_percent,
        default=_WHOLE,
        metavar="N",
        help="let so many per cent of the tasks in first; 0 stops that again (default: all, and the incident is over)",
    )


def _percent(text: str) -> int:
    if not text.isdecimal() or int(text) > _WHOLE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_WHOLE}")
    return int(text)


def _resume(client: Client, args: argparse.Namespace) -> bool:
    if args.percent < _WHOLE:
        version = args.expected_version or client.incident(args.incident).version
        answer = client.let_in(
            args.incident, args.percent, expected_version=version, reason=args.reason
        )
        return told(answer, args)
    seen = {"reason": args.reason, "expected_version": args.expected_version}
    return told(client.resume_intake(args.incident, **seen), args)


def _abort_arguments(parser: argparse.ArgumentParser) -> None:
    _step_arguments(parser, reason_needed=True)


def _abort(client: Client, args: argparse.Namespace) -> bool:
    seen = {"reason": args.reason, "expected_version": args.expected_version}
    return told(client.abort_incident(args.incident, **seen), args)


STEPS = (
    Command(
        name="bump",
        does="raise the epoch: show what it takes back, and ask for the queue's name",
        example=f"tenure incident bump {EXAMPLE_ID} --expected-epoch orders=7 --confirm orders",
        arguments=_bump_arguments,
        run=_bump,
    ),
    Command(
        name="candidates",
        does="keep or discard the results that revoked attempts had put aside",
        example=f'tenure incident candidates {EXAMPLE_ID} keep --reason "to compare them"',
        arguments=_candidates_arguments,
        run=_candidates,
    ),
    Command(
        name="switch",
        does="make another pool the active one",
        example=f"tenure incident switch {EXAMPLE_ID} --to green",
        arguments=_switch_arguments,
        run=_switch,
    ),
    Command(
        name="resume",
        does="open intake again: the incident is over; or let a part of the tasks in first",
        example=f"tenure incident resume {EXAMPLE_ID} --percent 10",
        arguments=_resume_arguments,
        run=_resume,
    ),
    Command(
        name="abort",
        does="call it off before the bump",
        example=f'tenure incident abort {EXAMPLE_ID} --reason "false alarm"',
        arguments=_abort_arguments,
        run=_abort,
    ),
)
