"""A small fleet reviews a folder: `python -m examples.review_fleet --folder .`

Worker processes claim the nodes of one run — an inventory, an analysis of each file, a report — from a coordinator.
One of them is frozen past its lease and comes back too late; nothing is lost and nothing happens twice. The report is
committed to a git repository, stored in an object store that loses its answer, and mailed once a person has approved
the mail; all three are on this machine and started here. Afterwards the fleet waits for more work. With `--practice` an
office beside it has something to try each of the console's jobs on. Whoever may submit to the fleet's queue may have it
read any text file that this account may read: give it a queue of its own.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import Empty

from examples.practice.room import Practice
from examples.review import plan
from examples.review.arguments import read_arguments
from examples.review.crew import Crew, Line
from examples.review.effects import SLOTS
from examples.review.ending import EndingStory
from examples.review.listing import Listing, list_files
from examples.review.outside import Outside
from examples.review.story import FreezeStory
from tenure import Client, InvalidInput, NotFound, TenureError

SHORTEST_NEWS_SECONDS = 2.0
POLL_SECONDS = 1.0
#: By then the others begin, whether or not the first has got anything to be frozen in.
LONGEST_ALONE_SECONDS = 30.0
_DOWNSTREAMS = "the downstreams " + ", ".join(
    name for slots in SLOTS.values() for name in slots.values()
)


def main() -> int:
    """Start the fleet, submit the review, tell what happens, and wait for more work until stopped."""
    args = read_arguments()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="review: %(message)s")
    root = Path(args.folder).expanduser().resolve()
    if not root.is_dir():
        return _give_up(f"{root} is no folder; --folder or TENURE_DEMO_FOLDER names one")
    listing = list_files(root, limit=args.limit)
    if not listing.paths:
        return _give_up(f"there is no text file to review in {root}")
    try:
        with Client(args.url, args.token) as client, _outside(args) as outside, ExitStack() as room:
            practice = room.enter_context(_practice(args, client)) if args.practice else None
            return Fleet(client, args, listing, outside, practice).run()
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


def _practice(args: argparse.Namespace, client: Client) -> Practice:
    return Practice(
        client,
        partial(say, who="practice"),
        url=args.url,
        token=args.token,
        folder=Path(args.outside) / "office",
        site=_site(args),
    )


def _site(args: argparse.Namespace) -> str:
    return str(args.url).rstrip("/").removesuffix("/api/v1")


class Fleet:
    """The members and the run that they work on."""

    def __init__(
        self,
        client: Client,
        args: argparse.Namespace,
        listing: Listing,
        outside: Outside,
        practice: Practice | None,
    ) -> None:
        self._client = client
        self._args = args
        self._listing = listing
        self._size = len(plan.nodes(listing))
        self._site = _site(args)
        self._practice = practice
        self._guided = practice is None
        self._stop = False
        self._run_id = ""
        self._done_before = 0
        self._done: set[str] = set()
        self._next_news = 0.0
        self._others_at = 0.0
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
        self._others_at = time.monotonic() + LONGEST_ALONE_SECONDS
        try:
            while not self._stop and self._crew.members:
                self._step()
        finally:
            if self._practice is not None:
                self._practice.ask_to_stop()  # it ends while the crew does
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
        if time.monotonic() >= self._others_at:
            self._crew.start_others()
        self._story.look()
        if time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + POLL_SECONDS
            if not self._over:
                self._look_at_run()
            self._look_at_practice()

    def _hear(self, line: Line) -> None:
        self._story.hear(line)
        said = line.said
        match said["what"]:
            case "halfway":
                self._crew.start_others()
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

    def _look_at_practice(self) -> None:
        """Its list comes last, so that it stays on the screen: once the review waits for a person, or is over."""
        if self._practice is None or self._guided or not (self._over or self._ending.waits):
            return
        try:
            self._guided = self._practice.look()
        except TenureError as error:
            say(f"cannot look at the office: {error}", who="practice")


def say(text: str, *, who: str = "review") -> None:
    """One line of the example's own."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in text)
    print(f"{who} │ {clean}", flush=True)


def _give_up(text: str) -> int:
    print(f"review_fleet: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
