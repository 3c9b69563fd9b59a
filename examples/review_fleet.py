"""A small fleet reviews a folder: `python -m examples.review_fleet --folder .`

Worker processes claim the nodes of one run — an inventory, an analysis of each file, a report — from a coordinator.
One of them is frozen past its lease and comes back too late; nothing is lost and nothing happens twice. The report is
committed to a git repository, stored in an object store that loses its answer, and mailed once a person has approved
the mail; all three are on this machine and started here. Afterwards the fleet waits for more work. Whoever may submit
to its queue may have it read any text file that this account may read: give it a queue of its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty

from examples.review import plan
from examples.review.crew import Crew, Line
from examples.review.effects import SLOTS
from examples.review.ending import EndingStory
from examples.review.listing import Listing, list_files
from examples.review.outside import Outside
from examples.review.story import FreezeStory
from tenure import Client, InvalidInput, NotFound, TenureError

SHORTEST_NEWS_SECONDS = 2.0
POLL_SECONDS = 1.0
_DOWNSTREAMS = "the downstreams " + ", ".join(
    name for slots in SLOTS.values() for name in slots.values()
)


def main() -> int:
    """Start the fleet, submit the review, tell what happens, and wait for more work until stopped."""
    args = _arguments()
    root = Path(args.folder).expanduser().resolve()
    if not root.is_dir():
        return _give_up(f"{root} is no folder; --folder or TENURE_DEMO_FOLDER names one")
    listing = list_files(root, limit=args.limit)
    if not listing.paths:
        return _give_up(f"there is no text file to review in {root}")
    try:
        with Client(args.url, args.token) as client, _outside(args) as outside:
            return Fleet(client, args, listing, outside).run()
    except NotFound:
        return _give_up(f"the coordinator has no queue {args.queue!r}; an administrator makes one")
    except InvalidInput as error:
        return _give_up(f"{error}. An administrator registers {_DOWNSTREAMS}; `manage.py up` does")
    except TenureError as error:
        return _give_up(str(error))
    except OSError as error:
        return _give_up(f"the outside cannot be had in {args.outside}: {error}")


def _outside(args: argparse.Namespace) -> Outside:
    return Outside(Path(args.outside), lose_first=not args.no_loss, say=say)


class Fleet:
    """The members and the run that they work on."""

    def __init__(
        self, client: Client, args: argparse.Namespace, listing: Listing, outside: Outside
    ) -> None:
        self._client = client
        self._args = args
        self._listing = listing
        self._size = len(plan.nodes(listing))
        self._site = args.url.rstrip("/").removesuffix("/api/v1")
        self._stop = False
        self._run_id = ""
        self._done_before = 0
        self._done: set[str] = set()
        self._next_news = 0.0
        self._over = False
        self._next_poll = 0.0
        self._story = FreezeStory(say, page=self._page, ttl_seconds=args.ttl)
        self._ending = EndingStory(
            client,
            say,
            outside=outside,
            reports=Path(args.reports),
            site=self._site,
            page=self._page,
        )
        self._crew = Crew(
            arguments=["--queue", args.queue, "--ttl", str(args.ttl), "--pace", str(args.pace)],
            environment={
                "TENURE_URL": args.url,
                "TENURE_TOKEN": args.token,
                **outside.environment,
            },
        )

    def _page(self, task_id: str) -> str:
        return f"{self._site}/tasks/{task_id}"

    def run(self) -> int:
        """Until a signal, or until every member has given up."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)
        self._begin()
        self._crew.start(self._args.workers, hold_first=not self._args.no_freeze)
        try:
            while not self._stop and self._crew.members:
                self._step()
        finally:
            self._crew.stop()
        return 0 if self._stop else 1

    def _asked_to_stop(self, _number: int, _frame: object) -> None:
        self._stop = True

    def _begin(self) -> None:
        queue, listing = self._args.queue, self._listing
        self._client.queue(queue)
        left = plan.unfinished(self._client, queue=queue, listing=listing)
        self._run_id = left or plan.submit(self._client, queue=queue, listing=listing)
        self._done_before = (self._client.run(self._run_id).progress or {}).get("COMMITTED", 0)
        what = "goes on with its review" if left else f"reviews {len(listing.paths)} files"
        say(f"{self._args.workers} workers: the fleet {what} of {listing.root}")
        say(f"watch it: {self._site}/runs/{self._run_id}")

    def _step(self) -> None:
        with suppress(Empty):
            self._hear(self._crew.said.get(timeout=0.25))
        self._story.look()
        if not self._over and time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + POLL_SECONDS
            self._look_at_run()

    def _hear(self, line: Line) -> None:
        self._story.hear(line)
        said = line.said
        match said["what"]:
            case "committed" if said.get("run_id") == self._run_id:
                self._done.add(said["node_id"])
                self._news()
            case "failed":
                say(f"{line.member.name}: {said['node_id']} failed: {said.get('detail')}")
            case "gave_up" | "waiting":
                say(f"{line.member.name} cannot work: {said.get('detail')}")
            case "ended" if not self._stop:
                again = self._crew.restart(line.member)
                say(
                    f"{line.member.name} ended"
                    + (" and is started again" if again else " too often; it stays away")
                )

    def _news(self) -> None:
        if time.monotonic() >= self._next_news and not self._over:
            self._next_news = time.monotonic() + SHORTEST_NEWS_SECONDS
            say(f"{self._done_before + len(self._done)} of {self._size} nodes committed")

    def _look_at_run(self) -> None:
        try:
            self._over = self._ending.look(self._run_id)
        except TenureError as error:
            say(f"cannot look at the run: {error}")
        else:
            if self._over:
                say("the fleet waits for more work")


def say(text: str) -> None:
    """One line of the example's own."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in text)
    print(f"review │ {clean}", flush=True)


def _give_up(text: str) -> int:
    print(f"review_fleet: {text}", file=sys.stderr)
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.review_fleet",
        description="A fleet of worker processes reviews the files of a folder.",
        epilog="example: TENURE_TOKEN=… python -m examples.review_fleet --folder ~/code/thing",
    )
    state = os.environ.get("TENURE_STATE", "var")
    parser.add_argument("--url", default=os.environ.get("TENURE_URL", "http://127.0.0.1:8000"))
    parser.add_argument(
        "--token",
        default=os.environ.get("TENURE_TOKEN"),
        help="others can read arguments: rather set TENURE_TOKEN",
    )
    parser.add_argument("--folder", default=os.environ.get("TENURE_DEMO_FOLDER", "."))
    parser.add_argument(
        "--workers",
        type=int,
        choices=range(1, 33),
        default=4,
        metavar="N",
        help="1 to 32 (default 4)",
    )
    parser.add_argument("--queue", default="reviews")
    parser.add_argument(
        "--ttl", type=int, default=5, metavar="SECONDS", help="lease (default 5, the shortest)"
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=0.15,
        metavar="SECONDS",
        help="stretch each analysis (default 0.15)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=600,
        metavar="FILES",
        help="review at most so many (default 600)",
    )
    parser.add_argument(
        "--reports", default=f"{state}/reviews", metavar="FOLDER", help="where reports are written"
    )
    parser.add_argument(
        "--outside",
        default=f"{state}/outside",
        metavar="FOLDER",
        help="where the repository, the store and the mail server keep what they are given",
    )
    parser.add_argument("--no-freeze", action="store_true", help="freeze nobody")
    parser.add_argument("--no-loss", action="store_true", help="let the store lose no answer")
    args = parser.parse_args()
    if not args.token:
        parser.error(
            "no token: set TENURE_TOKEN to a credential with the scopes work and submit on the queue"
        )
    return args


if __name__ == "__main__":
    sys.exit(main())
