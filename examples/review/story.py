"""The one thing that the fleet shows on purpose: a worker that is frozen, replaced, and comes back too late."""

from __future__ import annotations

import time
from collections.abc import Callable

from examples.review.crew import Line, Member

#: Should nobody take the task over, the frozen member is woken all the same.
LONGEST_FREEZE_SECONDS = 90.0
#: So long after the other's commit it is woken: far enough apart to be seen on the task's timeline.
WAKE_AFTER_SECONDS = 2.0

Say = Callable[[str], None]


class FreezeStory:
    """Follows what members say: halfway → frozen → taken over → woken → refused."""

    def __init__(self, say: Say, *, page: Callable[[str], str], ttl_seconds: float) -> None:
        self._say = say
        self._page = page
        self._ttl = ttl_seconds
        self._victim: Member | None = None
        self._task_id = ""
        self._frozen_at = 0.0
        self._wake_at: float | None = None

    def hear(self, line: Line) -> None:
        """One line of any member."""
        said = line.said
        if said["what"] == "halfway" and self._victim is None:
            self._freeze(line)
        elif self._victim is not None and said.get("task_id") == self._task_id:
            self._follow(self._victim, line)

    def look(self) -> None:
        """Some things happen by time alone."""
        victim, now = self._victim, time.monotonic()
        if victim is None or not victim.frozen:
            return
        if self._wake_at is not None and now >= self._wake_at:
            victim.wake()
            self._say(f"{victim.name} wakes up (SIGCONT), knows of nothing, and goes on")
        elif now - self._frozen_at > LONGEST_FREEZE_SECONDS:
            self._say(
                f"nobody took the task over in {LONGEST_FREEZE_SECONDS:g} s; {victim.name} is woken"
            )
            victim.wake()

    def _freeze(self, line: Line) -> None:
        self._victim, self._task_id = line.member, line.said["task_id"]
        self._frozen_at = time.monotonic()
        line.member.freeze()
        self._say(
            f"{line.member.name} is frozen (SIGSTOP) in the middle of {_path(line)}; "
            f"its lease of {self._ttl:g} s is not renewed any more"
        )

    def _follow(self, victim: Member, line: Line) -> None:
        match line.said["what"]:
            case "claimed" if line.member is not victim:
                after = time.monotonic() - self._frozen_at
                self._say(
                    f"{line.member.name} takes {_path(line)} over after {after:.1f} s "
                    f"(generation {line.said['generation']})"
                )
            case "committed" if line.member is not victim:
                self._say(f"{line.member.name} commits it: that result is canonical")
                self._wake_at = time.monotonic() + WAKE_AFTER_SECONDS
            case "refused" if line.member is victim:
                self._say(
                    f"{victim.name}'s {line.said['point']} is refused: {line.said['outcome']} ({line.said['reason']})"
                )
                if line.said["point"] == "commit":
                    self._say(f"the whole story: {self._page(self._task_id)}")
            case "committed":
                self._say(f"{victim.name} was woken before anybody took over: its commit counts")


def _path(line: Line) -> str:
    return str(line.said["node_id"]).partition(":")[2] or str(line.said["node_id"])
