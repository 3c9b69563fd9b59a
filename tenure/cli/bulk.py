"""`tenure bulk …`, and one task: `tenure snooze`, `tenure wake`. A set is reviewed first, then started."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from tenure.bulk_steering import Bulk
from tenure.cli.commands import LISTED, Command, positive
from tenure.cli.printing import print_json, print_table, say
from tenure.cli.settings import UsageError
from tenure.client import Client
from tenure.records import Json

VERBS = ("cancel", "reopen", "snooze", "wake")
_ID = "0198c2a0-7d52-7c61-9d0e-5f3b6f1f2a11"
_LENGTH = re.compile(r"(\d{1,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
#: What a filter is made of, and how each part is read.
_FILTERS: tuple[tuple[str, str, type, str], ...] = (
    ("--state", "state", str, "such as READY"),
    ("--queue", "queue", str, "of this queue"),
    ("--kind", "kind", str, "of this kind"),
    ("--owner", "owner", str, "held last by this owner"),
    ("--node", "node_id", str, "whose node begins so"),
    ("--run", "run_id", str, "of this run"),
    ("--text", "text", str, "whose node has this in it"),
    ("--attempts-over", "attempts_over", int, "with more attempts than this"),
    ("--epoch", "epoch", int, "granted last in this epoch"),
)


def _review_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("tasks", metavar="TASK", nargs="*", help="these tasks; else a filter")
    for flag, name, kind, does in _FILTERS:
        parser.add_argument(flag, dest=name, type=kind, help=does)
    parser.add_argument("--older-than", type=length, metavar="AGE", help="submitted before, as 15m")
    parser.add_argument("--all", action="store_true", help="every task there is: no filter")


def _review(client: Client, args: argparse.Namespace) -> bool:
    wanted: dict[str, Json] = {
        name: value for _, name, _, _ in _FILTERS if (value := getattr(args, name)) is not None
    }
    if args.older_than is not None:
        wanted["older_than_seconds"] = int(args.older_than.total_seconds())
    if bool(args.tasks) + bool(wanted) + args.all != 1:
        raise UsageError("give tasks, or a filter, or --all: one of the three")
    if args.tasks:
        return _print(client.review_bulk(args.verb, task_ids=args.tasks), args)
    return _print(client.review_bulk(args.verb, filter=wanted), args)


def _job_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the job's id, as its review told it")


def _start_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--reason", required=True, help="why; it is kept with each task")
    _time_arguments(parser, needed=False)


def _start(client: Client, args: argparse.Namespace) -> bool:
    receipt = client.start_bulk(args.job, reason=args.reason, not_before=_time(args))
    if args.json:
        print_json(receipt)
    else:
        say(f"started{' before' if receipt.replayed else ''}  {receipt.bulk_id}")
    return True


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--items", action="store_true", help="list its tasks, too")
    parser.add_argument("--outcome", help="only tasks with this outcome, such as CHANGED")
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many tasks (default {LISTED})"
    )


def _status(client: Client, args: argparse.Namespace) -> bool:
    job = client.bulk(args.job)
    if not args.items and args.outcome is None:
        return _print(job, args)
    items = list(islice(client.bulk_items(args.job, outcome=args.outcome), args.limit))
    if args.json:
        print_json({"job": job, "items": items})
        return True
    _print(job, args)
    columns = ("task_id", "node_id", "seen_state", "outcome", "detail")
    print_table(columns, _rows(columns, items))
    return True


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=positive, default=LISTED, help=f"at most so many jobs (default {LISTED})"
    )


def _list(client: Client, args: argparse.Namespace) -> bool:
    jobs = list(islice(client.bulks(), args.limit))
    if args.json:
        print_json(jobs)
    else:
        columns = ("bulk_id", "verb", "state", "total", "waiting", "operator", "reviewed_at")
        print_table(columns, _rows(columns, jobs))
    return True


def _stop_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--reason", required=True, help="why; it is kept with the job")


def _stop(client: Client, args: argparse.Namespace) -> bool:
    receipt = client.stop_bulk(args.job, reason=args.reason)
    if args.json:
        print_json(receipt)
    else:
        say(f"stopped; {receipt.left} tasks are left alone")
    return True


def _undo(client: Client, args: argparse.Namespace) -> bool:
    receipt = client.undo_bulk(args.job)
    if args.json:
        print_json(receipt)
    else:
        say(f"undone by  {receipt.bulk_id}")
    return True


def _print(job: Bulk, args: argparse.Namespace) -> bool:
    if args.json:
        print_json(job)
        return True
    say(f"{job.bulk_id}  {job.verb}  {job.state}")
    counts = "  ".join(f"{outcome} {count}" for outcome, count in sorted(job.outcomes.items()))
    say(f"{job.total} tasks, {job.waiting} waiting  {counts}".rstrip())
    if job.more:
        say("there may be more; review the rest afterwards")
    return True


def _rows(columns: Sequence[str], records: Sequence[Any]) -> list[list[object]]:
    return [[getattr(record, column) for column in columns] for record in records]


# --- one task ---------------------------------------------------------------------------------


def _wake_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task's id")
    parser.add_argument("--reason", required=True, help="why; it is kept with the task")
    parser.add_argument(
        "--expected-state-version",
        type=positive,
        metavar="N",
        help="as you saw it (default: as it is now)",
    )


def _snooze_arguments(parser: argparse.ArgumentParser) -> None:
    _wake_arguments(parser)
    _time_arguments(parser, needed=True)


def _snooze(client: Client, args: argparse.Namespace) -> bool:
    until = _time(args)
    assert until is not None, "the parser asks for it"
    version = args.expected_state_version or client.task(args.task).state_version
    task = client.snooze(
        args.task, not_before=until, reason=args.reason, expected_state_version=version
    )
    if args.json:
        print_json(task)
    else:
        say(f"{task.state}, not before {until.isoformat(timespec='seconds')}")
    return True


def _wake(client: Client, args: argparse.Namespace) -> bool:
    version = args.expected_state_version or client.task(args.task).state_version
    task = client.wake(args.task, reason=args.reason, expected_state_version=version)
    if args.json:
        print_json(task)
    else:
        say(task.state)
    return True


def _time_arguments(parser: argparse.ArgumentParser, *, needed: bool) -> None:
    when = parser.add_mutually_exclusive_group(required=needed)
    when.add_argument("--for", dest="wait", type=length, metavar="LENGTH", help="such as 15m or 4h")
    when.add_argument("--until", type=instant, metavar="INSTANT", help="with a zone, such as …Z")


def _time(args: argparse.Namespace) -> datetime | None:
    until: datetime | None = args.until
    return datetime.now(UTC) + args.wait if args.wait is not None else until


def length(text: str) -> timedelta:
    """An argument that is a length of time: a number with s, m, h or d."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError("write it as 15m; s, m, h and d are known")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def instant(text: str) -> datetime:
    """An argument that is an instant, with its zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = datetime.min  # noqa: DTZ901 (told below, as one without a zone)
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError("write it as 2026-05-31T14:00Z, with a zone")
    return found


BULK_VERBS = (
    Command(
        name="review",
        does="freeze a set of tasks for one action; nothing is done to them yet",
        example="tenure bulk review cancel --queue reviews --state READY",
        arguments=_review_arguments,
        run=_review,
    ),
    Command(
        name="start",
        does="start what you reviewed",
        example=f'tenure bulk start {_ID} --reason "the upload was a mistake"',
        arguments=_start_arguments,
        run=_start,
    ),
    Command(
        name="status",
        does="show how far a job is, and what came of each task",
        example=f"tenure bulk status {_ID} --outcome CHANGED",
        arguments=_status_arguments,
        run=_status,
    ),
    Command(
        name="list",
        does="list bulk jobs",
        example="tenure bulk list",
        arguments=_list_arguments,
        run=_list,
    ),
    Command(
        name="stop",
        does="leave what has not had its turn alone",
        example=f'tenure bulk stop {_ID} --reason "the wrong queue"',
        arguments=_stop_arguments,
        run=_stop,
    ),
    Command(
        name="undo",
        does="take a snooze back as a whole",
        example=f"tenure bulk undo {_ID}",
        arguments=_job_argument,
        run=_undo,
    ),
)
WAITING_COMMANDS = (
    Command(
        name="snooze",
        does="hold a task back until a time, before anybody claims it",
        example=f'tenure snooze {_ID} --for 4h --reason "the API is down until noon"',
        arguments=_snooze_arguments,
        run=_snooze,
    ),
    Command(
        name="wake",
        does="let a task go at once that waits for a time",
        example=f'tenure wake {_ID} --reason "the API is back"',
        arguments=_wake_arguments,
        run=_wake,
    ),
)
