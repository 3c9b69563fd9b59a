"""How the run ends, told from the coordinator's records: the report, what went outside, and what waits for a person."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.review.effects import ARCHIVE, NOTIFY, PUBLISH, member_of
from examples.review.handlers import REPORT
from examples.review.outside import Outside
from tenure import Client, Effect, Task

CHECKOUT = Path(__file__).resolve().parents[2]

Say = Callable[[str], None]


class EndingStory:
    """Each thing is told once. It looks and asks; it decides nothing and may do neither: that takes a person."""

    def __init__(
        self,
        client: Client,
        say: Say,
        *,
        outside: Outside,
        reports: Path,
        site: str,
        page: Callable[[str], str],
    ) -> None:
        self._client = client
        self._say = say
        self._outside = outside
        self._reports = reports
        self._site = site
        self._page = page
        self._told: set[str] = set()
        #: Whether the run has come to where only a person can go on.
        self.waits = False
        self._tell = {
            REPORT: self._report,
            PUBLISH: self._published,
            ARCHIVE: self._archived,
            NOTIFY: self._notified,
        }

    def look(self, run_id: str) -> bool:
        """Tell what is new; whether the run is over."""
        run = self._client.run(run_id)
        for kind, tell in self._tell.items():
            if kind in self._told:
                continue
            for task in self._client.tasks(run_id=run_id, kind=kind):
                if task.state == "COMMITTED":
                    self._told.add(kind)
                    tell(task, self._result(task))
                elif task.state.startswith("AWAITING"):
                    self._waiting(task)
            if REPORT not in self._told:
                break  # the others come after it
        if run.state == "ACTIVE":
            return False
        done = run.state == "COMMITTED"
        self._say(
            "the run is COMMITTED" if done else f"the run is {run.state}: {self._run(run_id)}"
        )
        return True

    def _run(self, run_id: str) -> str:
        return f"{self._site}/runs/{run_id}"

    def _result(self, task: Task) -> dict[str, Any]:
        [canonical] = [item for item in self._client.candidates(task.task_id) if item.canonical]
        result: dict[str, Any] = canonical.result
        return result

    def _report(self, task: Task, report: dict[str, Any]) -> None:
        file = self._reports / f"{task.run_id}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(report["markdown"], encoding="utf-8")
        lines = report["headline"]["lines"]
        self._say(f"{report['finding_count']} findings in {lines:,} lines. The first of them:")
        for finding in report["first"]:
            self._say(f"  {finding['where']} {finding['what']}")
        self._say(f"report: {file}")
        self._say(f"as committed: {self._page(task.task_id)}")

    def _published(self, _task: Task, result: dict[str, Any]) -> None:
        if "left_out" in result:
            self._say(f"the report is in no repository: {result['left_out']}")
        else:
            where = f"git -C {self._outside.repository} show {result['ref']}"
            self._say(f"the report is committed to a repository: {where}")

    def _archived(self, task: Task, result: dict[str, Any]) -> None:
        file = self._outside.objects / result["object"][1:]
        self._say(f"the report is stored: {file}")
        [effect] = self._client.task_effects(task.task_id)
        said = [one["said"] for one in self._client.effect_detail(effect.effect_id or "").evidence]
        if "UNKNOWN" in said:
            self._say(
                "  its answer had been lost, so the effect was UNKNOWN; it was looked up by its id and found: "
                f"{effect.state} after {effect.dispatch_count} call{'' if effect.dispatch_count == 1 else 's'}"
            )

    def _notified(self, _task: Task, result: dict[str, Any]) -> None:
        name = member_of(result["receipt"], "message_id")
        self._say(f"the mail went out as {name}" if name else "the mail went out, a person says")

    def _waiting(self, task: Task) -> None:
        """What a person has to do, word for word; again only when the task has moved in between."""
        moment = f"{task.task_id} {task.state_version}"
        if moment in self._told:
            return
        self._told.add(moment)
        self.waits = True
        for effect in self._client.task_effects(task.task_id):
            assert effect.effect_id is not None, "an effect that was read has an id"
            if task.state == "AWAITING_APPROVAL":
                [*_, asked] = self._client.effect_detail(effect.effect_id).approval_ids
                self._how_to_approve(asked)
            elif effect.may_be_out:
                self._how_to_settle(effect)

    def _how_to_approve(self, approval_id: str) -> None:
        self._say(
            "the mail waits for a person: a mail server can't be asked afterwards, so somebody reads it first"
        )
        self._say(f"  read it and decide: {self._site}/approvals/{approval_id}")
        self._say("  or let somebody else do it, from a terminal:")
        self._say(f"  1. {manage()} create_operator paula --role approver --token")
        self._say(f"  2. {self._command('approve', approval_id)}")

    def _how_to_settle(self, effect: Effect) -> None:
        self._say(
            f"nobody knows whether {effect.slot} has reached {effect.downstream}; a person finds out and says so:"
        )
        self._say(f"  in the console: {self._site}/effects/{effect.effect_id}")
        self._say("  or from a terminal:")
        self._say(f"  1. {manage()} create_operator paula --role approver --token")
        self._say(f"  2. {self._command('effect', str(effect.effect_id))}")
        self._say(f"  3. {self._command('reconcile', '--help')}")

    def _command(self, *words: str) -> str:
        program = f"{shown(sys.executable)} -m tenure.cli"
        return f"TENURE_URL={self._site} TENURE_TOKEN=<the token> {program} {' '.join(words)}"


def manage() -> str:
    """`manage.py` as it has to be called for this very state folder."""
    state = os.environ.get("TENURE_STATE", "")
    ours = f"TENURE_STATE={state} " if state and Path(state) != CHECKOUT / "var" else ""
    return f"{ours}{shown(sys.executable)} manage.py"


def shown(program: str) -> str:
    """Short, where it lies below the folder that one is in."""
    path = Path(program)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else program
