"""Hypothesis walks; after each step the API must have answered, and look, as the model says.

The seed is fixed, so that a run can be repeated; TENURE_SEED=rolling draws another one each time,
and Hypothesis prints how to walk the same way again.
"""

import os
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from coordinator.actors import system
from coordinator.services.downstreams import register_downstream
from coordinator.services.epochs import Bumped, bump_epoch
from coordinator.services.queues import create_queue, ensure_pool
from tests import world
from tests.api import callers
from tests.api.callers import Reply, attempt_path
from tests.history import check
from tests.stateful.reference import MAX_ATTEMPTS, MAY_BE_OUT, Attempt, Queue, Task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

WALKS = int(os.environ.get("TENURE_WALKS", "40"))
STEPS = 60
#: Of a lease and of a pause before the next attempt: they pass when the walk says so, however long it takes itself.
LONG_SECONDS = 3_600
SEED = 20_261_130
SLOT = "out"
TESTS = system("tests")


def told(reply: Reply) -> str:
    """Outcome and, for a refusal of the fence, its reason."""
    if reply.outcome is None and reply.status >= 400:
        return f"{reply.status}: {reply.body}"
    outcome, reason = reply.outcome or str(reply.status), reply.body.get("reason")
    return f"{outcome} {reason}" if outcome == "FENCED" else outcome


class Tenure(RuleBasedStateMachine):
    """One queue of its own a walk. `a` has a slot; `b` waits for `a`."""

    def __init__(self) -> None:
        super().__init__()
        self.name = f"q-{uuid.uuid4().hex[:12]}"
        ensure_pool(name="blue", actor=TESTS)
        create_queue(
            name=self.name,
            active_pool="blue",
            actor=TESTS,
            max_attempts=MAX_ATTEMPTS,
            default_ttl_seconds=LONG_SECONDS,
            max_ttl_seconds=LONG_SECONDS,
            retry_backoff_seconds=LONG_SECONDS,
            retry_backoff_max_seconds=LONG_SECONDS,
        )
        self.worker = callers.worker("worker", queues=[self.name])
        self.operator = callers.person("admin")
        self.model = Queue()
        self.attempts: list[Attempt] = []
        self.seen: dict[str, int] = {}
        self.touched: list[Task] = []
        self.submit_one()

    @initialize(stands=st.sampled_from(["ready", "held", "bound", "out", "out", "told"]))
    def begin(self, stands: str) -> None:
        """How far the first task is when the walk begins: what is far from the start is met as well."""
        if stands == "ready":
            return
        self.claim(limit=1)
        (attempt,) = self.attempts
        if stands != "held":
            self.bind(attempt, payload=1)
        if stands in ("out", "told"):
            self.ask(attempt)
        if stands == "told":
            self.tell(attempt, 1, "UNKNOWN")

    # --- choosing ----------------------------------------------------------------------------

    def pick(self, data: st.DataObject, among: list[Any], label: str) -> Any:
        """The newest is the likeliest; the old ones are what this is about."""
        index = data.draw(st.integers(0, min(3, len(among) - 1)), label=label)
        chosen = among[-1 - index]
        self.touch(chosen)
        return chosen

    def touch(self, chosen: Any) -> None:
        """It, and its neighbours, are looked at after this step."""
        task = chosen if isinstance(chosen, Task) else getattr(chosen, "task", None)
        self.touched += [task, *task.children] if task else []

    def expect(self, reply: Reply, predicted: str) -> Reply:
        assert told(reply) == predicted, reply.body
        self.seen[predicted] = self.seen.get(predicted, 0) + 1
        return reply

    # --- what happens next ---------------------------------------------------------------------

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """What ends everything is rare, so that there is something to end."""
        possible = {
            "submit": 2,
            "claim_next": 6,
            "claim_by_id": 3,
            "switch_intake": 3 if self.model.intake == "STOPPED" else 1,
            "bump": 1,
            "cancel": 2,
            "reopen": 2,
            "revise": 1,
            "renew": 3 * bool(self.attempts),
            "commit": 4 * bool(self.attempts),
            "fail": 2 * bool(self.attempts),
            "release": 2 * bool(self.attempts),
            "prepare": 3 * bool(self.with_slot()),
            "accept": 4 * bool(self.bound()),
            "report": 6 * bool(self.reportable()),
            "settle": 2 * bool(self.unsettled()),
            "time_passes_for_a_lease": 4 * bool(self.claimed()),
            "time_passes_for_a_backoff": 2 * bool(self.waiting()),
        }
        names = [name for name, weight in possible.items() for _ in range(weight)]
        getattr(self, data.draw(st.sampled_from(names), label="step"))(data)

    def claimed(self) -> list[Task]:
        return [task for task in self.model.tasks if task.state == "CLAIMED"]

    def waiting(self) -> list[Task]:
        return [task for task in self.model.tasks if not task.due]

    # --- work --------------------------------------------------------------------------------

    def submit(self, _: st.DataObject) -> None:
        self.submit_one()

    def submit_one(self) -> None:
        nodes = [callers.node("a", slots={SLOT: "there"}), callers.node("b", "a")]
        reply = self.operator.keyed("/runs", {"queue": self.name, "nodes": nodes})
        assert reply.status == 201, reply
        ids = {task["node_id"]: task["task_id"] for task in reply.body["tasks"]}
        a, b = Task(ids["a"], "a", "READY"), Task(ids["b"], "b", "BLOCKED")
        a.children, b.parents = [b], [a]
        self.model.tasks += [a, b]

    def granted(self, claim: dict[str, Any]) -> None:
        task = next(t for t in self.model.tasks if t.task_id == claim["fence"]["task_id"])
        assert self.model.claimable(task)
        attempt = self.model.grant(task, claim["fence"], claim["input_digest"])
        assert claim["fence"] == {
            "task_id": task.task_id,
            "attempt_id": claim["fence"]["attempt_id"],
            "scheduler_epoch": self.model.epoch,
            "claim_generation": task.generation,
            "cancel_generation": task.cancels,
        }
        self.attempts.append(attempt)
        self.touch(task)

    def claim_next(self, data: st.DataObject) -> None:
        behind = data.draw(st.sampled_from([0] * 6 + [1, -1]), label="epochs behind")
        self.claim(limit=data.draw(st.integers(1, 3), label="limit"), behind=behind)

    def claim(self, *, limit: int, behind: int = 0) -> None:
        epoch = self.model.epoch - behind
        if epoch < 1:
            return
        body = {"scheduler_epoch": epoch, "owner": "w", "limit": limit}
        reply = self.worker.keyed(f"/queues/{self.name}/claims", body)
        predicted = self.model.claims(epoch)
        if predicted != "GRANTED":
            self.expect(reply, predicted)
            return
        assert reply.status == 200, reply
        for task in self.model.tasks:  # a lapsed one with no attempts left fails instead
            spent = self.model.claimable(task) and self.model.fails_instead(task)
            if spent and self.view(task)["state"] == "FAILED":
                self.model.exhaust(task)
        due = [t for t in self.model.tasks if self.model.claimable(t)]
        granted = reply.body["claims"]
        assert len(granted) <= limit
        waits = [t for t in due if not self.model.fails_instead(t)]
        assert granted or not waits, [
            self.operator.get(f"/tasks/{t.task_id}/explain").body for t in waits
        ]
        for claim in granted:
            self.granted(claim)

    def claim_by_id(self, data: st.DataObject) -> None:
        stale = data.draw(st.sampled_from([False, False, True]), label="stale")
        task = self.pick(data, self.model.tasks, "task")
        version = self.view(task)["state_version"] + stale
        body = {
            "expected_state_version": version,
            "scheduler_epoch": self.model.epoch,
            "owner": "w",
        }
        reply = self.worker.keyed(f"/tasks/{task.task_id}/claims", body)
        predicted = self.model.claims(self.model.epoch)
        if predicted == "GRANTED" and stale:
            predicted = "STATE_VERSION_MISMATCH"
        elif predicted == "GRANTED" and not self.model.claimable(task):
            predicted = "NOT_CLAIMABLE"
        elif predicted == "GRANTED" and self.model.fails_instead(task):
            self.model.exhaust(task)
            predicted = "NOT_CLAIMABLE"
        if predicted != "GRANTED":
            self.expect(reply, predicted)
        else:
            assert reply.status == 201, reply
            self.granted(reply.body)

    # --- attempts, of any age ----------------------------------------------------------------

    def newest(self) -> list[Attempt]:
        """Those that hold their task come last, and so are picked most."""
        return sorted(self.attempts, key=lambda attempt: attempt.live)

    def send(self, attempt: Attempt, verb: str, **body: Any) -> Reply:
        return self.worker.post(
            attempt_path({"fence": attempt.fence}, verb), {"fence": attempt.fence, **body}
        )

    def renew(self, data: st.DataObject) -> None:
        attempt = self.pick(data, self.newest(), "attempt")
        predicted = self.model.judge(attempt, ("renew",))
        reply = self.send(attempt, "renew", owner="w", ttl_seconds=LONG_SECONDS)
        if predicted == "CURRENT":
            attempt.task.lapsed = False
        self.expect(reply, "RENEWED" if predicted == "CURRENT" else predicted)

    def commit(self, data: st.DataObject) -> None:
        result = data.draw(st.sampled_from([1, 1, 2]), label="result")
        attempt = self.pick(data, self.newest(), "attempt")
        predicted = self.model.commit(attempt, ("commit", result))
        reply = self.send(
            attempt, "commit", input_digest=attempt.input_digest, result={"n": result}
        )
        self.expect(reply, predicted)

    def fail(self, data: st.DataObject) -> None:
        retryable = data.draw(st.booleans(), label="retryable")
        attempt = self.pick(data, self.newest(), "attempt")
        predicted = self.model.fail(attempt, ("fail", retryable), retryable=retryable)
        error = {"type": "Tool", "message": "no"}
        self.expect(self.send(attempt, "fail", error=error, retryable=retryable), predicted)

    def release(self, data: st.DataObject) -> None:
        attempt = self.pick(data, self.newest(), "attempt")
        predicted = self.model.release(attempt, ("release",))
        self.expect(self.send(attempt, "release"), predicted)

    # --- the effect --------------------------------------------------------------------------

    def with_slot(self) -> list[Attempt]:
        return [attempt for attempt in self.newest() if attempt.task.node == "a"]

    def prepare(self, data: st.DataObject) -> None:
        payload = data.draw(st.sampled_from([1, 1, 2]), label="payload")
        self.bind(self.pick(data, self.with_slot(), "attempt"), payload)

    def bind(self, attempt: Attempt, payload: int) -> None:
        predicted = self.model.prepare(attempt, payload)
        body = {"slot": SLOT, "downstream": "there", "payload": {"n": payload}}
        reply = self.expect(self.send(attempt, "effects", **body), predicted)
        if reply.status in (200, 201):
            effect = attempt.task.effect
            effect.effect_id = reply.body["effect"]["effect_id"]
            effect.payload_digest = reply.body["effect"]["payload_digest"]

    def bound(self) -> list[Attempt]:
        return [attempt for attempt in self.with_slot() if attempt.task.effect.effect_id]

    def accept(self, data: st.DataObject) -> None:
        self.ask(self.pick(data, self.bound(), "attempt"))

    def ask(self, attempt: Attempt) -> None:
        effect = attempt.task.effect
        predicted = self.model.accept(attempt)
        body = {"fence": attempt.fence, "payload_digest": effect.payload_digest}
        reply = self.expect(
            self.worker.keyed(f"/effects/{effect.effect_id}/accept", body), predicted
        )
        if predicted == "ACCEPTED":
            assert reply.body["dispatch_number"] == effect.dispatches
            attempt.dispatch_ids[effect.dispatches] = reply.body["dispatch_id"]

    def reportable(self) -> list[tuple[Attempt, int]]:
        """Dispatches without an outcome, each with its attempt; a current one must be the newest."""
        return [
            (attempt, number)
            for attempt in self.bound()
            for number in attempt.dispatch_ids
            if number in attempt.task.effect.open
            and number not in attempt.task.effect.receipts
            and number == attempt.task.effect.dispatches
        ]

    def report(self, data: st.DataObject) -> None:
        outcome = data.draw(st.sampled_from(["COMMITTED", "UNKNOWN", "REFUSED"]), label="outcome")
        attempt, number = self.pick(data, self.reportable(), "dispatch")
        self.tell(attempt, number, outcome)

    def tell(self, attempt: Attempt, number: int, outcome: str) -> None:
        effect = attempt.task.effect
        predicted = self.model.report(attempt, number, outcome)
        body = {
            "fence": attempt.fence,
            "dispatch_id": attempt.dispatch_ids[number],
            "outcome": outcome,
            **({"receipt": {"id": "r"}} if outcome == "COMMITTED" else {}),
        }
        self.expect(self.worker.post(f"/effects/{effect.effect_id}/report", body), predicted)

    def unsettled(self) -> list[Task]:
        return [task for task in self.model.tasks if task.effect.state in MAY_BE_OUT]

    def settle(self, data: st.DataObject) -> None:
        task = self.pick(data, self.unsettled(), "task")
        assert self.model.happened(task) == "SETTLED"
        body = {
            "finding": "HAPPENED",
            "dispatches": task.effect.dispatches,
            "evidence": {"method": "operator", "detail": "It stands in their ledger."},
            "receipt": {"id": "r"},
        }
        reply = self.operator.post(f"/effects/{task.effect.effect_id}/reconcile", body)
        self.expect(reply, "SETTLED")

    # --- people and time ---------------------------------------------------------------------

    def cancel(self, data: st.DataObject) -> None:
        task = self.pick(data, self.model.tasks, "task")
        predicted = self.model.cancel(task)
        self.expect(
            self.operator.post(f"/tasks/{task.task_id}/cancel", {"reason": "stop"}), predicted
        )

    def reopen(self, data: st.DataObject) -> None:
        task = self.pick(data, self.model.tasks, "task")
        body = {
            "expected_state_version": self.view(task)["state_version"],
            "reason": "again",
        }
        reply = self.operator.post(f"/tasks/{task.task_id}/reopen", body)
        assert (reply.status == 200) == (self.model.reopen(task) == "REOPENED"), reply

    def revise(self, data: st.DataObject) -> None:
        task = self.pick(data, self.model.tasks, "task")
        body = {
            "expected_state_version": self.view(task)["state_version"],
            "input": {"again": uuid.uuid4().hex},
            "reason": "better",
        }
        reply = self.operator.keyed(f"/tasks/{task.task_id}/revise", body)
        predicted = self.model.revisable(task)
        if predicted == "REVISED":
            assert reply.status == 201, reply
            self.model.revise(task, reply.body["task_id"])
        else:
            self.expect(reply, predicted)

    def bump(self, _: st.DataObject) -> None:
        bumped = bump_epoch(
            queue=self.name, expected_epoch=self.model.epoch, reason="roll back", actor=TESTS
        )
        self.model.bump()
        assert isinstance(bumped, Bumped)
        assert bumped.scheduler_epoch == self.model.epoch

    def switch_intake(self, data: st.DataObject) -> None:
        intake = data.draw(st.sampled_from(["OPEN", "OPEN", "STOPPED"]), label="intake")
        body = {"intake": intake, "reason": "testing"}
        assert self.operator.post(f"/queues/{self.name}/intake", body).status == 200
        self.model.intake = intake

    def time_passes_for_a_lease(self, data: st.DataObject) -> None:
        task = self.pick(data, self.claimed(), "task")
        world.lapse(uuid.UUID(task.task_id))
        task.lapsed = True

    def time_passes_for_a_backoff(self, data: st.DataObject) -> None:
        task = self.pick(data, self.waiting(), "task")
        world.make_due(uuid.UUID(task.task_id))
        task.due = True

    # --- after each step ---------------------------------------------------------------------

    def view(self, task: Task) -> dict[str, Any]:
        body: dict[str, Any] = self.operator.get(f"/tasks/{task.task_id}").body
        return body

    @invariant()
    def what_was_touched_is_as_the_model_says(self) -> None:
        self.compare(self.touched)
        self.touched = []

    def compare(self, tasks: list[Task]) -> None:
        for task in tasks:
            seen = self.view(task)
            assert (seen["state"], seen["claim_generation"], seen["cancel_generation"]) == (
                task.state,
                task.generation,
                task.cancels,
            ), (task.node, seen)
            if task.effect.effect_id:
                effect = self.operator.get(f"/effects/{task.effect.effect_id}").body["effect"]
                assert (effect["state"], len(effect["dispatches"])) == (
                    task.effect.state,
                    task.effect.dispatches,
                )

    def teardown(self) -> None:
        self.compare(self.model.tasks)
        for outcome, count in self.seen.items():
            SEEN[outcome] = SEEN.get(outcome, 0) + count


SEEN: dict[str, int] = {}


#: What the walks must have met, or they prove little.
WANTED = {
    "COMMITTED", "RENEWED", "RELEASED", "RETRY_SCHEDULED", "FENCED STALE_EPOCH", "FENCED STALE_GENERATION",
    "CANCELLED", "STALE_INPUT", "RECONCILE_FIRST", "PAYLOAD_CONFLICT", "ACCEPTED", "RECORDED", "SETTLED",
    "INTAKE_STOPPED", "NOT_CLAIMABLE", "STATE_VERSION_MISMATCH", "ALREADY_COMMITTED",
}  # fmt: skip
#: Which answers a number of walks meets is chance; so many times as many are walked for one that is missing.
MOST_ROUNDS = 5


def walk(number: int | None) -> None:
    """WALKS walks, from the numbered seed or from one that Hypothesis draws."""
    machine = Tenure if number is None else seed(number)(Tenure)
    how = settings(
        max_examples=WALKS,
        stateful_step_count=STEPS,
        deadline=None,
        phases=[
            Phase.generate
        ],  # a walk's own steps tell the story; to make it shorter takes minutes
        report_multiple_bugs=False,
        print_blob=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


def test_the_api_answers_as_the_model_says() -> None:
    SEEN.clear()
    register_downstream(name="there", kind="http", guarantee="CONDITIONAL_WRITE", actor=TESTS)
    rolling = os.environ.get("TENURE_SEED") == "rolling"
    for number in range(MOST_ROUNDS):
        walk(None if rolling else SEED + number)
        if set(SEEN) >= WANTED:
            break
    check()
    assert set(SEEN) >= WANTED, (WANTED - set(SEEN), sorted(SEEN.items()))
