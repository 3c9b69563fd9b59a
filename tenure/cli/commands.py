"""What the command line can do: one function per command, True when it did what it says."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tenure.cli.printing import print_json, print_record, print_table, say
from tenure.cli.settings import UsageError, document
from tenure.cli.submitting import send
from tenure.cli.watching import watch
from tenure.client import Client
from tenure.errors import NotFound
from tenure.records import Cancellation, Json

#: Rows that `list` prints unless it is told otherwise.
LISTED = 50


@dataclass(frozen=True, kw_only=True)
class Command:
    """A verb with its arguments and an example."""

    name: str
    does: str
    example: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Any, argparse.Namespace], bool]
    #: Whether it asks no coordinator; `run` then gets None for its client.
    is_local: Callable[[argparse.Namespace], bool] = lambda _: False


def _submit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE|-", help="a run (with nodes) or a single task (with kind), as JSON"
    )
    parser.add_argument("--queue", help="overrides the file's queue")
    parser.add_argument("--name", help="overrides the run's name")
    parser.add_argument(
        "--key", help="an Idempotency-Key: submitting again with it gives the same run"
    )
    parser.add_argument(
        "--watch", action="store_true", help="follow it; success is then a COMMITTED run"
    )


def _submit(client: Client, args: argparse.Namespace) -> bool:
    body = document(args.file)
    if not isinstance(body, dict):
        raise UsageError("a submission is an object with nodes, or with a kind")
    overrides = {name: value for name in ("queue", "name") if (value := getattr(args, name))}
    run_id, receipt = send(client, {**body, **overrides}, args.key)
    if args.watch:
        if not args.json:
            say(f"run {run_id}")
        return _report_watch(client, run_id, args)
    if args.json:
        print_json(receipt)
    else:
        say(run_id)
    return True


def _watch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the run's id")


def _watch(client: Client, args: argparse.Namespace) -> bool:
    return _report_watch(client, args.run, args)


def _report_watch(client: Client, run_id: str, args: argparse.Namespace) -> bool:
    seen = watch(client, run_id, quiet=args.json)
    if args.json:
        print_json(
            {
                "run": seen.run,
                "counts": dict(seen.counts),
                "tasks": list(client.tasks(run_id=run_id)),
            }
        )
    return seen.run.state == "COMMITTED"


def _id_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a task's or a run's id")


def _get(client: Client, args: argparse.Namespace) -> bool:
    record: Json
    try:
        record = client.task(args.id)
    except NotFound:
        record = client.run(args.id)
    if args.json:
        print_json(record)
    else:
        print_record(record)
    return True


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["runs", "tasks", "queues"], nargs="?", default="runs")
    parser.add_argument("--queue")
    parser.add_argument("--state", help="such as ACTIVE for runs, READY for tasks")
    parser.add_argument("--run", metavar="RUN", help="tasks of this run")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many rows (default {LISTED})"
    )


def _list(client: Client, args: argparse.Namespace) -> bool:
    columns: tuple[str, ...]
    found: list[Json]
    asked = {"queue": args.queue, "state": args.state, "run_id": args.run}
    filters = {name: value for name, value in asked.items() if value}
    if args.what == "queues":
        columns, records = ("name", "intake", "scheduler_epoch", "active_pool"), client.queues()
        found = list(islice(records, args.limit))
    elif args.what == "tasks":
        columns = ("task_id", "state", "node_id", "kind", "owner")
        found = list(islice(client.tasks(**filters), args.limit))
    else:
        if args.run:
            raise UsageError("--run filters tasks: tenure list tasks --run RUN")
        columns = ("run_id", "state", "queue", "name", "created_at")
        found = list(islice(client.runs(**filters), args.limit))
    if args.json:
        print_json(found)
    else:
        print_table(columns, ([getattr(record, column) for column in columns] for record in found))
    return True


def _cancel_arguments(parser: argparse.ArgumentParser) -> None:
    _id_argument(parser)
    parser.add_argument("--reason", required=True, help="why; it is kept with the task")


def _cancel(client: Client, args: argparse.Namespace) -> bool:
    receipt: Cancellation
    try:
        receipt = client.cancel_task(args.id, reason=args.reason)
    except NotFound:
        receipt = client.cancel_run(args.id, reason=args.reason)
    if args.json:
        print_json(receipt.body)
        return True
    say(receipt.outcome)
    for effect in receipt.effects:
        say(f"may still be out: {effect}")
    return True


def _task_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task's id")


def _explain(client: Client, args: argparse.Namespace) -> bool:
    explanation = client.explain(args.task)
    if args.json:
        print_json(explanation)
        return True
    say("claimable now" if explanation.claimable else "not claimable")
    for reason in explanation.reasons:
        say(f"  {reason.code}: {reason.detail}")
    return True


def _revise_arguments(parser: argparse.ArgumentParser) -> None:
    _task_argument(parser)
    parser.add_argument("file", metavar="FILE|-", help="the new input, as JSON")
    _change_arguments(parser)


def _change_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, help="why; it is kept with the task")
    parser.add_argument(
        "--expected-state-version",
        type=positive,
        metavar="N",
        help="as you saw it (default: as it is now)",
    )


def _revise(client: Client, args: argparse.Namespace) -> bool:
    version = args.expected_state_version or client.task(args.task).state_version
    task = client.revise(
        args.task, input=document(args.file), reason=args.reason, expected_state_version=version
    )
    if args.json:
        print_json(task)
    else:
        say(f"{task.task_id} (revision {task.revision})")
    return True


def _reopen_arguments(parser: argparse.ArgumentParser) -> None:
    _task_argument(parser)
    _change_arguments(parser)


def _reopen(client: Client, args: argparse.Namespace) -> bool:
    version = args.expected_state_version or client.task(args.task).state_version
    task = client.reopen(args.task, reason=args.reason, expected_state_version=version)
    if args.json:
        print_json(task)
    else:
        say(task.state)
    return True


def _release_hold(client: Client, args: argparse.Namespace) -> bool:
    version = args.expected_state_version or client.task(args.task).state_version
    task = client.release_hold(args.task, reason=args.reason, expected_state_version=version)
    if args.json:
        print_json(task)
    else:
        say(task.state)
    return True


def positive(text: str) -> int:
    """An argument that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


_ID = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"

COMMANDS = (
    Command(
        name="submit",
        does="submit a run or a single task from a file, or from standard input",
        example="tenure submit run.json --queue reviews --watch",
        arguments=_submit_arguments,
        run=_submit,
    ),
    Command(
        name="watch",
        does="follow a run until it is over; success is COMMITTED",
        example=f"tenure watch {_ID}",
        arguments=_watch_arguments,
        run=_watch,
    ),
    Command(
        name="get",
        does="show a task or a run",
        example=f"tenure get {_ID} --json",
        arguments=_id_argument,
        run=_get,
    ),
    Command(
        name="list",
        does="list runs, tasks or queues",
        example="tenure list tasks --queue reviews --state READY",
        arguments=_list_arguments,
        run=_list,
    ),
    Command(
        name="cancel",
        does="cancel a task, or all unfinished tasks of a run",
        example=f'tenure cancel {_ID} --reason "wrong folder"',
        arguments=_cancel_arguments,
        run=_cancel,
    ),
    Command(
        name="explain",
        does="say why a task is not running",
        example=f"tenure explain {_ID}",
        arguments=_task_argument,
        run=_explain,
    ),
    Command(
        name="revise",
        does="put a new revision with another input in a task's place",
        example=f'tenure revise {_ID} input.json --reason "typo in the path"',
        arguments=_revise_arguments,
        run=_revise,
    ),
    Command(
        name="reopen",
        does="give a cancelled or failed task a fresh allowance of attempts",
        example=f'tenure reopen {_ID} --reason "the API is back"',
        arguments=_reopen_arguments,
        run=_reopen,
    ),
    Command(
        name="release-hold",
        does="let a task go that a restore holds: nothing of it happened unseen, by the outside's own log",
        example=f'tenure release-hold {_ID} --reason "their log shows no payment for it"',
        arguments=_reopen_arguments,
        run=_release_hold,
    ),
)
