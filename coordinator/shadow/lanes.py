"""The lane beside a queue where runs are rehearsed: a queue of its own, named after it (contract 13).

What is submitted while a queue is in SHADOW lives there for good: it has a gate, an epoch, serial
keys and claims of its own, and nothing in it is ever sent.
"""

from typing import Final

#: No name of a queue that people choose can end so.
SUFFIX: Final = "~shadow"


def lane_of(queue: str) -> str:
    """The name of the queue's rehearsal lane."""
    return queue + SUFFIX


def is_rehearsal(queue: str) -> bool:
    return queue.endswith(SUFFIX)


def queue_of(name: str) -> str:
    """The queue whose rehearsal lane this is; the queue itself where it is none."""
    return name.removesuffix(SUFFIX)
