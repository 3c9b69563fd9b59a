"""`tenure read` and `tenure send`: every operation of the API by its path, also those without a verb of their own."""

from __future__ import annotations

import argparse
import json
import sys

from tenure.cli.commands import Command
from tenure.cli.printing import print_json
from tenure.cli.settings import UsageError, document
from tenure.client import Client
from tenure.records import Json

PREFIX = "/api/v1/"


def _path(text: str) -> str:
    path = text.removeprefix(PREFIX).lstrip("/")
    if not path or "?" in path or "#" in path or "//" in path or ".." in path.split("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a path such as queues/review")
    return path


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _read_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", type=_path, help="below /api/v1/")
    parser.add_argument(
        "--query", action="append", type=_pair, default=[], metavar="NAME=VALUE", help="repeatable"
    )
    parser.add_argument(
        "--raw", action="store_true", help="the answer as it is, where it is no JSON: the metrics"
    )


def _read(client: Client, args: argparse.Namespace) -> bool:
    if args.raw:
        sys.stdout.flush()
        client.download(args.path, sys.stdout.buffer, params=dict(args.query))
    else:
        print_json(client.request("GET", args.path, params=dict(args.query)))
    return True


def _send_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", choices=("POST", "PATCH", "DELETE"))
    parser.add_argument("path", metavar="PATH", type=_path, help="below /api/v1/")
    parser.add_argument("body", nargs="?", metavar="JSON|-", help="the body; - reads it from stdin")
    parser.add_argument("--key", help="an Idempotency-Key: sending again with it does it once")


def _send(client: Client, args: argparse.Namespace) -> bool:
    if (args.body is None) != (args.method == "DELETE"):
        raise UsageError("POST and PATCH need a body, DELETE has none")
    body = None if args.body is None else _body(args.body)
    print_json(client.request(args.method, args.path, body=body, key=args.key))
    return True


def _body(text: str) -> Json:
    if text == "-":
        return document(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from error


ANYTHING = (
    Command(
        name="read",
        does="read anything of the API by its path, as JSON",
        example="tenure read queues/review",
        arguments=_read_arguments,
        run=_read,
    ),
    Command(
        name="send",
        does="send anything to the API by its path",
        example="""tenure send POST queues/review/intake '{"intake": "STOPPED", "reason": "…"}'""",
        arguments=_send_arguments,
        run=_send,
    ),
)
