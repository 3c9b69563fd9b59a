"""How the example is called."""

from __future__ import annotations

import argparse
import os


def read_arguments() -> argparse.Namespace:
    """The command line, with what the environment says in place of what is left out."""
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
    parser.add_argument(
        "--practice",
        action="store_true",
        help="open the office where a person can try the console's jobs (needs the queues of `manage.py up`)",
    )
    args = parser.parse_args()
    if not args.token:
        parser.error(
            "no token: set TENURE_TOKEN to a credential with the scopes work and submit on the queue"
        )
    return args
