"""The `tenure` command line: submit, watch, read and steer runs, decide on effects and run incidents.

Exit codes: 0 it did what it says · 1 refused, or the run ended otherwise · 2 wrong use · 3 nobody answered ·
130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tenure.cli.anything import ANYTHING
from tenure.cli.approvals import APPROVAL_COMMANDS
from tenure.cli.audit import AUDIT_VERBS
from tenure.cli.bulk import BULK_VERBS, WAITING_COMMANDS
from tenure.cli.commands import COMMANDS, Command
from tenure.cli.effects import EFFECT_COMMANDS
from tenure.cli.incident_steps import STEPS
from tenure.cli.incidents import READS
from tenure.cli.printing import complain
from tenure.cli.reveals import REVEAL_COMMANDS
from tenure.cli.rollout import SHADOW_VERBS
from tenure.cli.settings import UsageError, connect
from tenure.cli.stages import QUEUE_VERBS
from tenure.cli.views import VIEW_VERBS
from tenure.errors import Problem, TenureError, Unreachable

DONE, REFUSED, MISUSED, UNANSWERED, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    args = parser().parse_args(argv)
    try:
        if args.command.is_local(args):
            return DONE if args.command.run(None, args) else REFUSED
        with connect(args) as client:
            return DONE if args.command.run(client, args) else REFUSED
    except UsageError as error:
        complain(str(error))
        return MISUSED
    except Unreachable as error:
        complain(
            f"{error}\nIs the coordinator running there? TENURE_URL or --url says where it is."
        )
        return UNANSWERED
    except Problem as problem:
        complain(str(problem))
        return REFUSED
    except TenureError as error:
        complain(str(error))
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `tenure list | head`: nobody reads any more, and that is all right.
        sys.stderr.close()
        return DONE


def parser() -> argparse.ArgumentParser:
    """The whole command line; each command adds its own part."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--url", metavar="URL", help="the coordinator's address (default: $TENURE_URL)"
    )
    shared.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with the token (default: $TENURE_TOKEN; never an argument, others can read those)",
    )
    shared.add_argument("--json", action="store_true", help="print JSON, one document")
    top = argparse.ArgumentParser(
        prog="tenure",
        description="Submit, watch, read and steer runs, decide on their effects, and run incidents.",
        epilog="example: tenure submit run.json --watch",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for command in (
        *COMMANDS,
        *WAITING_COMMANDS,
        *ANYTHING,
        *EFFECT_COMMANDS,
        *REVEAL_COMMANDS,
        *APPROVAL_COMMANDS,
    ):
        _add(commands, command, shared)
    incident = commands.add_parser(
        "incident",
        help="run an incident, the guarded rollback, step by step",
        description="Stop, preview, bump, drain, switch, resume: an incident takes its steps in this order.",
        epilog='example: tenure incident open --queue orders --reason "deploy 42 loses orders"',
    )
    verbs = incident.add_subparsers(required=True, metavar="VERB")
    for verb in (*READS, *STEPS):
        _add(verbs, verb, shared)
    _add_groups(commands, shared)
    return top


def _add_groups(commands: Any, shared: argparse.ArgumentParser) -> None:
    shadow = commands.add_parser(
        "shadow",
        help="see where a legacy scheduler and claim.v1 part, and explain it",
        description="What the shadow judge found about a legacy scheduler.",
        epilog="example: tenure shadow status billing",
    )
    queue = commands.add_parser(
        "queue",
        help="move a queue through its rollout stages",
        description="SHADOW, IDEMPOTENT_READS, CONDITIONAL_WRITES: forward through a gate, back at any time.",
        epilog="example: tenure queue gate billing",
    )
    audit = commands.add_parser(
        "audit",
        help="keep the audit's seal, and verify the audit against it",
        description="What people did and what was refused is chained: a changed, removed or moved row no longer fits.",
        epilog="example: tenure audit verify audit.ndjson",
    )
    views = commands.add_parser(
        "views",
        help="filters of the list of tasks that people keep for each other",
        description="A saved view is a name and what stands in the address of the list; everybody sees all of them.",
        epilog="example: tenure views list --counts",
    )
    bulk = commands.add_parser(
        "bulk",
        help="cancel, reopen, snooze or wake many tasks",
        description="A set is reviewed, which freezes it; then it is started, and each task has its outcome.",
        epilog="example: tenure bulk review cancel --queue reviews --state READY",
    )
    groups = (
        (shadow, SHADOW_VERBS),
        (queue, QUEUE_VERBS),
        (audit, AUDIT_VERBS),
        (bulk, BULK_VERBS),
        (views, VIEW_VERBS),
    )
    for part, found in groups:
        verbs = part.add_subparsers(required=True, metavar="VERB")
        for verb in found:
            _add(verbs, verb, shared)


def _add(commands: Any, command: Command, shared: argparse.ArgumentParser) -> None:
    sub = commands.add_parser(
        command.name,
        parents=[shared],
        help=command.does,
        description=f"{command.does[0].upper()}{command.does[1:]}.",
        epilog=f"example: {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.arguments(sub)
    sub.set_defaults(command=command)
