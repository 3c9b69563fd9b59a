"""Submitting a run: all of it or none, every fault at once (contract 6)."""

import datetime as dt
from typing import Any

import pytest

from coordinator.models import Dependency, Event, Run, SerialScope, Task
from coordinator.outcomes import FieldError, Outcome, Refusal
from coordinator.rounds import sent
from coordinator.services import graphs
from coordinator.services.answers import RequestKey
from coordinator.services.runs import NodeSpec, Submitted, submit_run
from coordinator.states import Guarantee, Replay, TaskState
from tests import world
from tests.counted import alone, blocks_touched
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Any:
    return world.queue(max_attempts=4)


def refused(*nodes: NodeSpec, **changes: Any) -> dict[str, str]:
    """The faults of a submission by pointer; nothing was stored."""
    before = world.fingerprint()
    asked: dict[str, Any] = {
        "queue": "q",
        "name": "run",
        "metadata": {},
        "nodes": nodes,
        "actor": world.operator(),
    } | changes
    answer = submit_run(**asked)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.INVALID
    assert world.fingerprint() == before
    assert not Event.objects.exists()
    return {error.pointer: error.detail for error in answer.errors}


def test_roots_are_ready_and_the_others_wait_for_their_parents() -> None:
    run = world.submit(node("a"), node("b", "a"), node("c", "a", "b", kind="merge", priority=7))
    assert [(task.node_id, task.state) for task in run.tasks] == [
        ("a", "READY"),
        ("b", "BLOCKED"),
        ("c", "BLOCKED"),
    ]
    a, c = world.task(world.task_id(run, "a")), world.task(world.task_id(run, "c"))
    row = world.run_row(run)
    assert (a.state, a.pending_dependencies, a.ready_at, a.claimable_at) == (
        TaskState.READY,
        0,
        row.created_at,
        row.created_at,
    )
    assert (
        c.state,
        c.pending_dependencies,
        c.dependency_count,
        c.claimable_at,
        c.priority,
        c.kind,
    ) == (
        TaskState.BLOCKED,
        2,
        2,
        None,
        7,
        "merge",
    )
    assert (row.state, row.node_count, row.submitted_by) == ("ACTIVE", 3, "operator:alice")
    assert Dependency.objects.count() == 3


def test_each_task_has_its_event_and_a_time_ordered_id() -> None:
    run = world.submit(node("a"), node("b", "a"))
    events = Event.objects.order_by("id").values_list("kind", "task_id", "state_version", "data")
    assert [event[:3] for event in events] == [("SUBMITTED", task.task_id, 1) for task in run.tasks]
    assert [event[3]["state"] for event in events] == ["READY", "BLOCKED"]
    ids = [task.task_id for task in run.tasks]
    assert ids == sorted(ids)
    assert {task_id.version for task_id in ids} == {7}


def test_defaults_come_from_the_queue_and_the_slots() -> None:
    run = world.submit(node("a"), node("b", max_attempts=1))
    assert world.current(run, "a").max_attempts == 4
    assert world.current(run, "b").max_attempts == 1
    assert world.current(run, "a").replay == Replay.READ_ONLY


def test_not_before_delays_the_claim_of_a_root() -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    run = world.submit(node("a", not_before=later))
    assert world.current(run, "a").claimable_at == later
    assert world.claim(by=world.worker()) == []


def test_input_and_metadata_are_stored_in_canonical_form() -> None:
    submit_run(
        queue="q",
        name="",
        metadata={"b": 1, "a": [True, None]},
        nodes=[node("a", input={"z": 1.0, "é": "ü", "a": 10})],
        actor=world.operator(),
    )
    assert Run.objects.get().metadata == '{"a":[true,null],"b":1}'
    assert Task.objects.get().input == '{"a":10,"z":1,"é":"ü"}'


def test_any_size_costs_two_rounds_of_statements() -> None:
    def rounds(count: int) -> list[int]:
        log: list[list[str]] = []
        token = sent.set(log)
        try:
            world.submit(*(node(f"n{i}") for i in range(count)))
        finally:
            sent.reset(token)
        return [len(statements) for statements in log]

    assert rounds(1) == rounds(300)


def test_a_stopped_intake_does_not_stop_submission() -> None:
    world.queue(name="stopped", intake="STOPPED")
    assert world.submit(queue_name="stopped").state == "ACTIVE"


def test_serial_keys_make_one_scope_each_and_are_shared() -> None:
    world.downstream(name="mail", guarantee=Guarantee.NONE)
    run = world.submit(
        node("a", serial_key="k"),
        node("b", serial_key="k"),
        node("c", kind="send", slots={"s": "mail"}),
        node("d", kind="send", slots={"s": "mail"}),
        node("e"),
    )
    world.submit(node("a", serial_key="k"))
    assert sorted(SerialScope.objects.values_list("token", flat=True)) == ["key:k", "kind:send"]
    scopes = [world.current(run, name).serial_scope_id for name in "abcde"]
    assert scopes[0] == scopes[1] != scopes[2] == scopes[3]
    assert scopes[4] is None


@pytest.mark.parametrize(
    ("guarantee", "fields", "replay"),
    [
        (Guarantee.CONDITIONAL_WRITE, {}, Replay.REPLAYABLE),
        (Guarantee.IDEMPOTENT_KEY, {"key_valid_seconds": 60}, Replay.REPLAYABLE),
        (Guarantee.RESERVATION, {}, Replay.REPLAYABLE),
        (Guarantee.GATED, {}, Replay.REPLAYABLE),
        (Guarantee.QUERY_ONLY, {"refuses_late": True}, Replay.REPLAYABLE),
        (Guarantee.QUERY_ONLY, {}, Replay.NON_REPLAYABLE),
        (Guarantee.NONE, {"refuses_late": True}, Replay.NON_REPLAYABLE),
    ],
)
def test_replay_follows_from_what_the_downstream_guarantees(
    guarantee: Guarantee, fields: dict[str, Any], replay: Replay
) -> None:
    world.downstream(name="d", guarantee=guarantee, **fields)
    run = world.submit(node("a", slots={"pay": "d"}))
    assert world.current(run, "a").replay == replay
    assert world.current(run, "a").slots == {"pay": "d"}


def test_one_slot_that_cannot_be_sent_again_makes_the_whole_task_non_replayable() -> None:
    world.downstream(name="good", guarantee=Guarantee.GATED)
    world.downstream(name="bad", guarantee=Guarantee.NONE)
    run = world.submit(node("a", slots={"x": "good", "y": "bad"}))
    assert world.current(run, "a").replay == Replay.NON_REPLAYABLE


def test_a_stricter_replay_than_needed_is_kept() -> None:
    world.downstream(name="good", guarantee=Guarantee.GATED)
    run = world.submit(node("a", slots={"x": "good"}, replay="NON_REPLAYABLE"))
    assert world.current(run, "a").replay == Replay.NON_REPLAYABLE


# --- faults ---------------------------------------------------------------------------------------


def test_every_fault_is_told_at_once() -> None:
    world.downstream(name="bad", guarantee=Guarantee.NONE)
    faults = refused(
        node("a", "nowhere"),
        node("a", priority=10**9),
        node("b", "a", "a", max_attempts=0),
        node("c", slots={"s/1": "unknown", "t": "bad"}, replay="REPLAYABLE"),
        node("d", slots={"t": "bad"}, replay="READ_ONLY"),
        node("", kind="", input=float("nan")),
        node("e\x00", input=1, not_before=dt.datetime(2026, 1, 1)),  # noqa: DTZ001 - that is the fault
        node("f", replay="MAYBE", serial_key=""),
        queue="nowhere",
        name="x" * 201,
        metadata="\ud800",
    )
    assert list(faults) == [
        "/queue",
        "/name",
        "/metadata",
        "/nodes/1/priority",
        "/nodes/2/max_attempts",
        "/nodes/3/slots/s~11",
        "/nodes/3/slots/t",
        "/nodes/4/slots",
        "/nodes/5/node_id",
        "/nodes/5/kind",
        "/nodes/5/input",
        "/nodes/6/node_id",
        "/nodes/6/not_before",
        "/nodes/7/serial_key",
        "/nodes/7/replay",
        "/nodes/1/node_id",
        "/nodes/0/depends_on/0",
        "/nodes/2/depends_on/1",
    ]
    assert "`unknown` is not registered" in faults["/nodes/3/slots/s~11"]
    assert "neither be asked nor dedupe" in faults["/nodes/3/slots/t"], "it says why"


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800"])
def test_names_that_no_text_column_can_hold_are_refused_wherever_they_stand(bad: str) -> None:
    faults = refused(
        node(bad, input=1),
        node("b", bad, kind=bad, input=1),
        node("c", slots={"s": bad, bad: "d"}, input=1),
        node("d", serial_key=bad, input=1),
        queue=bad,
        name=bad,
    )
    assert {pointer.replace(bad, "BAD") for pointer in faults} == {
        "/queue",
        "/name",
        "/nodes/0/node_id",
        "/nodes/1/kind",
        "/nodes/2/slots/s",
        "/nodes/2/slots/BAD",
        "/nodes/3/serial_key",
    }


def test_a_cycle_is_named_in_the_order_of_work() -> None:
    faults = refused(
        node("start"), node("a", "start", "c"), node("b", "a"), node("c", "b"), node("end", "c")
    )
    ((pointer, detail),) = faults.items()
    assert pointer.endswith("/depends_on")
    assert any(ring in detail for ring in ("a → b → c → a", "b → c → a → b", "c → a → b → c"))
    assert "start" not in detail.split("No node")[0]
    assert "end" not in detail.split("No node")[0]


def test_a_node_that_waits_for_itself_is_a_cycle() -> None:
    assert "a → a" in refused(node("a", "a"))["/nodes/0/depends_on"]


def test_a_long_cycle_is_cut_off_with_its_length() -> None:
    ring = [node(f"n{i}", f"n{(i - 1) % 500}") for i in range(500)]
    ((_, detail),) = refused(*ring).items()
    assert "(500 nodes)" in detail


def test_more_nodes_than_allowed_are_refused() -> None:
    faults = refused(*(node(f"n{i}") for i in range(graphs.MAX_NODES + 1)))
    assert faults == {"/nodes": "10001 nodes; at most 10000. Split the run."}


def test_a_run_without_nodes_is_refused() -> None:
    assert list(refused()) == ["/nodes"]


def test_more_edges_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_EDGES", 2)
    assert list(refused(node("a"), node("b", "a"), node("c", "a", "b"))) == ["/nodes"]


def test_too_many_faults_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_ERRORS", 2)
    answer = graphs.make_plan([node("") for _ in range(4)], {})
    assert isinstance(answer, list)
    assert answer[-1] == FieldError("/nodes", "5 more faults are not listed.")


def test_an_input_that_is_too_large_or_too_deep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = None
    for _ in range(200):
        deep = [deep]
    monkeypatch.setattr(graphs, "MAX_INPUT_BYTES", 10)
    faults = refused(node("a", input="x" * 9), node("b", input=deep), node("c", input="x" * 8))
    assert list(faults) == ["/nodes/0/input", "/nodes/1/input"]


# --- repeats --------------------------------------------------------------------------------------


def test_the_same_request_again_gets_the_first_answer() -> None:
    request = RequestKey("operator:alice:/runs", "k" * 16, "sha256:1")

    def submit() -> Submitted | Refusal:
        return submit_run(
            queue="q",
            name="",
            metadata={},
            nodes=[node("a"), node("b", "a")],
            actor=world.operator(),
            request=request,
        )

    first, second = submit(), submit()
    assert isinstance(first, Submitted)
    assert isinstance(second, Submitted)
    assert (first.replayed, second.replayed) == (False, True)
    assert (first.run_id, first.tasks) == (second.run_id, second.tasks)
    assert Run.objects.count() == 1


def test_the_same_key_with_another_body_is_a_conflict() -> None:
    def submit(digest: str) -> Submitted | Refusal:
        request = RequestKey("operator:alice:/runs", "k" * 16, digest)
        return submit_run(
            queue="q",
            name="",
            metadata={},
            nodes=[node("a")],
            actor=world.operator(),
            request=request,
        )

    submit("sha256:1")
    before = world.fingerprint()
    answer = submit("sha256:2")
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.IDEMPOTENCY_CONFLICT
    assert world.fingerprint() == before


def test_two_equal_requests_at_once_make_one_run() -> None:
    request = RequestKey("operator:alice:/runs", "k" * 16, "sha256:1")

    def submit() -> Submitted | Refusal:
        return submit_run(
            queue="q",
            name="",
            metadata={},
            nodes=[node("a")],
            actor=world.operator(),
            request=request,
        )

    with world.holding("LOCK TABLE coordinator_storedanswer IN SHARE MODE") as holder:
        rivals = [world.Rival(submit), world.Rival(submit)]
        world.wait_until_blocked(*(rival.pid for rival in rivals), by=holder.pid)
        holder.release()
        answers = [rival.result() for rival in rivals]
    assert Run.objects.count() == 1
    assert sorted(answer.replayed for answer in answers if isinstance(answer, Submitted)) == [
        False,
        True,
    ]


def test_submissions_with_the_same_new_keys_do_not_deadlock() -> None:
    keys = [f"k{i}" for i in range(20)]

    def submit(order: list[str]) -> Submitted:
        return world.submit(*(node(key, serial_key=key) for key in order))

    with world.holding("LOCK TABLE coordinator_serialscope IN SHARE MODE") as holder:
        rivals = [world.Rival(lambda: submit(keys)), world.Rival(lambda: submit(keys[::-1]))]
        world.wait_until_blocked(*(rival.pid for rival in rivals), by=holder.pid)
        holder.release()
        for rival in rivals:
            rival.result()
    assert SerialScope.objects.count() == 20


def test_submission_waits_for_the_exclusive_gate_of_its_queue(lane: Any) -> None:
    with world.holding("SELECT pg_advisory_xact_lock(1, %s::int)", [lane.pk]) as holder:
        rival = world.Rival(world.submit)
        world.wait_until_blocked(rival.pid, by=holder.pid)
        assert not Run.objects.exists()
        holder.release()
        rival.result()
    assert Run.objects.count() == 1


@pytest.mark.parametrize("shape", ["out", "in"])
def test_the_cost_of_an_edge_is_flat_up_to_ten_thousand(shape: str) -> None:
    """Counted in buffers that PostgreSQL touches, which a busy machine does not change."""

    def buffers_per_edge(width: int) -> float:
        names = [f"n{i}" for i in range(width)]
        if shape == "out":
            nodes = [node("hub"), *(node(name, "hub") for name in names)]
        else:
            nodes = [*map(node, names), node("hub", *names)]
        return blocks_touched(lambda: world.submit(*nodes)) / width

    alone()
    buffers_per_edge(100)
    assert buffers_per_edge(9_999) < 1.5 * buffers_per_edge(1_000)
