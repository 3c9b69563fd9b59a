"""`tenure audit`: the newest seal, to be kept elsewhere; the chain's lines; and whether they still fit."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tenure.audit_chain import FileVerified, verify_lines
from tenure.audit_reading import AuditVerification
from tenure.cli.commands import Command, positive
from tenure.cli.printing import print_json, say
from tenure.cli.settings import UsageError
from tenure.client import Client


def _none(parser: argparse.ArgumentParser) -> None:
    """It has no arguments of its own."""


def _seal(client: Client, args: argparse.Namespace) -> bool:
    seal = client.audit_seal()
    if args.json:
        print_json(seal)
    else:
        say(f"{seal.number}:{seal.digest}")
    return True


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="first", type=positive, default=1, metavar="N", help="the first link"
    )
    parser.add_argument(
        "--reveal", metavar="REASON", help="with what is masked in them; the reason is on record"
    )


def _export(client: Client, args: argparse.Namespace) -> bool:
    for line in client.audit_lines(first=args.first, reveal=args.reveal):
        print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    return True


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE|-",
        help="lines of an export; left out, the server is asked",
    )
    parser.add_argument("--from", dest="first", type=positive, metavar="N", help="the first link")
    parser.add_argument("--to", dest="last", type=positive, metavar="N", help="the last link")
    parser.add_argument(
        "--anchor", type=_anchor, metavar="N:DIGEST", help="a seal that was kept elsewhere"
    )
    parser.add_argument(
        "--whole", action="store_true", help="of a file: nothing may be left out in between"
    )


def _anchor(text: str) -> tuple[int, str]:
    number, _, digest = text.partition(":")
    if not number.isdecimal() or not digest.startswith("sha256:") or len(digest) != 71:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not N:sha256:… as `tenure audit seal` prints"
        )
    return int(number), digest


def _is_local(args: argparse.Namespace) -> bool:
    return args.file is not None


def _verify(client: Client | None, args: argparse.Namespace) -> bool:
    if client is None:
        if args.first is not None or args.last is not None:
            raise UsageError("--from and --to ask the server; a file is verified as it is")
        found = verify_lines(_lines(args.file), anchor=args.anchor, whole=args.whole)
        return _tell_file(found, args)
    if args.whole:
        raise UsageError("--whole is for a file; the server leaves nothing out")
    return _ask(client, args)


def _lines(source: str) -> Iterable[str]:
    if source == "-":
        return sys.stdin
    return _of_file(Path(source))


def _of_file(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error}") from error


def _tell_file(found: FileVerified, args: argparse.Namespace) -> bool:
    if args.json:
        print_json(found)
        return found.holds
    if found.fault is not None:
        at = f"line {found.fault.line}" if found.fault.line else "the file"
        _tell_fault(at, found.fault.misfit, found.fault.number, found.fault.event_id)
        say(found.fault.detail)
        return False
    say(f"{found.links} links hold, {found.first} to {found.last}; {found.gaps} gaps")
    if found.unchecked:
        say(f"of {found.unchecked} the events are not complete in this file: only their links")
    if found.digest is not None:
        say(f"{found.last}:{found.digest}")
    return True


def _ask(client: Client, args: argparse.Namespace) -> bool:
    first, digest = args.first or 1, None
    if args.anchor is not None:
        first, digest = args.anchor[0] + 1, args.anchor[1]
        if args.first not in (None, first):
            raise UsageError(f"--anchor {args.anchor[0]}:… begins at {first}; leave --from out")
    parts = list(client.verify_audit(first=first, last=args.last, anchor=digest))
    if args.json:
        print_json(parts)
    else:
        _tell_parts(parts)
    return parts[-1].holds


def _tell_parts(parts: list[AuditVerification]) -> None:
    last = parts[-1]
    if last.fault is not None:
        _tell_fault("the audit", last.fault.misfit, last.fault.number, last.fault.event_id)
        say(last.fault.detail)
        return
    links, pruned = sum(part.links for part in parts), sum(part.pruned for part in parts)
    say(f"{links} links hold, {parts[0].first} to {last.last}; {pruned} of pruned events")
    say(f"{last.last}:{last.digest}")


def _tell_fault(where: str, misfit: str, number: int | None, event_id: int | None) -> None:
    link = f" link {number}" if number is not None else ""
    event = f" event {event_id}" if event_id is not None else ""
    say(f"{where} does not fit: {misfit}{link}{event}")


AUDIT_VERBS = (
    Command(
        name="seal",
        does="print the newest seal, N:DIGEST, to be kept elsewhere",
        example="tenure audit seal >> seals.txt",
        arguments=_none,
        run=_seal,
    ),
    Command(
        name="export",
        does="print the chain's events as lines of JSON, each with what verifies it",
        example="tenure audit export --from 1 > audit.ndjson",
        arguments=_export_arguments,
        run=_export,
    ),
    Command(
        name="verify",
        does="verify a file of lines without a server, or have the server verify its own; exit code 1 names the row",
        example="tenure audit verify audit.ndjson --anchor 1200:sha256:…",
        arguments=_verify_arguments,
        run=_verify,
        is_local=_is_local,
    ),
)
