"""The plan of a run: its nodes, checked all at once and put into rows (contract 6)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from coordinator.ids import new_ids
from coordinator.outcomes import FieldError
from coordinator.states import Guarantee, Replay, TaskState

from .cycles import find_cycle
from .texts import MAX_INPUT_BYTES, canonical_text, check_text

MAX_NODES: Final = 10_000
MAX_EDGES: Final = 100_000
MAX_SLOTS: Final = 100
MAX_PRIORITY: Final = 1_000_000
MAX_ATTEMPTS: Final = 1_000
#: More faults than these are counted, not listed.
MAX_ERRORS: Final = 1_000
_NODES_OF_A_CYCLE_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node as it was submitted. `max_attempts` and `replay` of None take their defaults."""

    node_id: str
    kind: str
    input: Any
    depends_on: tuple[str, ...] = ()
    priority: int = 0
    not_before: datetime | None = None
    max_attempts: int | None = None
    replay: str | None = None
    slots: Mapping[str, str] = field(default_factory=dict)
    serial_key: str | None = None


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """What a registered downstream promises, as far as `replay` depends on it (contract 8)."""

    guarantee: str
    refuses_late: bool

    @property
    def bars_replay(self) -> str | None:
        """Why a task with an effect here is NON_REPLAYABLE; None where it may be sent again."""
        if self.guarantee == Guarantee.NONE:
            return "it can neither be asked nor dedupe a second call"
        if self.guarantee == Guarantee.QUERY_ONLY and not self.refuses_late:
            return "it dedupes nothing and may still take a late call"
        return None


@dataclass(frozen=True, slots=True)
class Planned:
    """A node that passed its checks, with all that its row needs but the run and the clock."""

    spec: NodeSpec
    task_id: UUID
    input: str
    input_digest: str
    replay: str
    dependency_count: int

    @property
    def state(self) -> TaskState:
        return TaskState.BLOCKED if self.dependency_count else TaskState.READY

    @property
    def serial_token(self) -> str | None:
        return serial_token(
            serial_key=self.spec.serial_key, replay=self.replay, kind=self.spec.kind
        )


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: list[Planned]
    edges: list[tuple[UUID, UUID]]  # (parent, child)


def serial_token(*, serial_key: str | None, replay: str, kind: str) -> str | None:
    """The key under which a task is serial: its own, or its kind's where it is NON_REPLAYABLE (contract 7)."""
    if serial_key is not None:
        return f"key:{serial_key}"
    return f"kind:{kind}" if replay == Replay.NON_REPLAYABLE else None


def make_plan(
    nodes: Sequence[NodeSpec], downstreams: Mapping[str, Guaranteed]
) -> Plan | list[FieldError]:
    """The plan of these nodes, or every fault in them, each with a JSON pointer into `/nodes`.

    `downstreams` holds those of the registry that the nodes name. Time is linear in nodes and edges.
    """
    if not nodes:
        return [FieldError("/nodes", "A run needs at least one node.")]
    if len(nodes) > MAX_NODES:
        return [FieldError("/nodes", f"{len(nodes)} nodes; at most {MAX_NODES}. Split the run.")]
    errors: list[FieldError] = []
    ids = new_ids(len(nodes))
    planned = [
        _plan_node(f"/nodes/{i}", node, downstreams, errors, task_id=ids[i])
        for i, node in enumerate(nodes)
    ]
    edges = _edges(planned, errors)
    if errors:
        return errors[:MAX_ERRORS] + _uncounted(len(errors) - MAX_ERRORS)
    return Plan(planned, edges)


def _uncounted(number: int) -> list[FieldError]:
    return [FieldError("/nodes", f"{number} more faults are not listed.")] if number > 0 else []


def _plan_node(
    at: str,
    node: NodeSpec,
    downstreams: Mapping[str, Guaranteed],
    errors: list[FieldError],
    *,
    task_id: UUID,
) -> Planned:
    errors.extend(check_text(f"{at}/node_id", node.node_id))
    errors.extend(check_text(f"{at}/kind", node.kind))
    if node.serial_key is not None:
        errors.extend(check_text(f"{at}/serial_key", node.serial_key))
    errors.extend(_check_numbers(at, node))
    replay = _replay(at, node, downstreams, errors)
    text, digest = canonical_text(f"{at}/input", node.input, MAX_INPUT_BYTES, errors)
    return Planned(node, task_id, text, digest, replay, len(node.depends_on))


def _check_numbers(at: str, node: NodeSpec) -> Iterable[FieldError]:
    if not -MAX_PRIORITY <= node.priority <= MAX_PRIORITY:
        yield FieldError(
            f"{at}/priority", f"{node.priority}; from {-MAX_PRIORITY} to {MAX_PRIORITY} is allowed."
        )
    if node.max_attempts is not None and not 1 <= node.max_attempts <= MAX_ATTEMPTS:
        yield FieldError(
            f"{at}/max_attempts", f"{node.max_attempts}; from 1 to {MAX_ATTEMPTS} is allowed."
        )
    if node.not_before is not None and node.not_before.tzinfo is None:
        yield FieldError(f"{at}/not_before", "It has no time zone; write it with `Z` or an offset.")


def _replay(
    at: str, node: NodeSpec, downstreams: Mapping[str, Guaranteed], errors: list[FieldError]
) -> str:
    """`replay` as given, or what the slots allow; faults where the two do not fit (contract 6, 8)."""
    if node.replay is not None and node.replay not in set(Replay):
        errors.append(
            FieldError(f"{at}/replay", f"`{node.replay}`; one of {', '.join(Replay)} is allowed.")
        )
    if not node.slots:
        return node.replay or Replay.READ_ONLY
    if len(node.slots) > MAX_SLOTS:
        errors.append(FieldError(f"{at}/slots", f"{len(node.slots)} slots; at most {MAX_SLOTS}."))
    if node.replay == Replay.READ_ONLY:
        errors.append(
            FieldError(
                f"{at}/slots",
                "A READ_ONLY node declares no effect; remove the slots or change `replay`.",
            )
        )
    allowed: str = Replay.REPLAYABLE
    for slot, name in node.slots.items():
        pointer = f"{at}/slots/{escape(slot)}"
        errors.extend(check_text(pointer, slot))
        downstream = downstreams.get(name)
        if downstream is None:
            errors.append(
                FieldError(pointer, f"Downstream `{name}` is not registered; register it first.")
            )
            continue
        why = downstream.bars_replay
        if why:
            allowed = Replay.NON_REPLAYABLE
        if why and node.replay == Replay.REPLAYABLE:
            told = f"Downstream `{name}` ({downstream.guarantee}) makes the node NON_REPLAYABLE: {why}."
            errors.append(
                FieldError(pointer, f"{told} Leave `replay` out, or choose another downstream.")
            )
    return node.replay or allowed


def escape(token: str) -> str:
    """A member's name inside a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def _edges(planned: Sequence[Planned], errors: list[FieldError]) -> list[tuple[UUID, UUID]]:
    by_name: dict[str, Planned] = {}
    for i, node in enumerate(planned):
        if by_name.setdefault(node.spec.node_id, node) is not node:
            errors.append(
                FieldError(
                    f"/nodes/{i}/node_id", f"`{node.spec.node_id}` is the name of an earlier node."
                )
            )
    count = sum(node.dependency_count for node in planned)
    if count > MAX_EDGES:
        errors.append(
            FieldError(
                "/nodes", f"{count} dependencies; at most {MAX_EDGES}. Join them by a node between."
            )
        )
        return []
    edges, faults = [], len(errors)
    for i, child in enumerate(planned):
        for j, name in enumerate(child.spec.depends_on):
            if name not in by_name:
                errors.append(
                    FieldError(f"/nodes/{i}/depends_on/{j}", f"There is no node `{name}`.")
                )
            else:
                edges.append((by_name[name].task_id, child.task_id))
        if len(set(child.spec.depends_on)) != child.dependency_count:
            errors.extend(_doubles(i, child.spec.depends_on))
    if len(errors) == faults:
        errors.extend(_cycle(planned))
    return edges


def _doubles(i: int, names: Sequence[str]) -> Iterable[FieldError]:
    seen: set[str] = set()
    for j, name in enumerate(names):
        if name in seen:
            yield FieldError(f"/nodes/{i}/depends_on/{j}", f"`{name}` stands here twice.")
        seen.add(name)


def _cycle(planned: Sequence[Planned]) -> list[FieldError]:
    names = [node.spec.node_id for node in planned]
    cycle = find_cycle({node.spec.node_id: node.spec.depends_on for node in planned})
    if not cycle:
        return []
    shown, length = cycle[:_NODES_OF_A_CYCLE_NAMED], len(cycle)
    end = cycle[0] if length == len(shown) else f"… ({length} nodes)"
    told = f"A cycle: {' → '.join([*shown, end])}. No node of it could ever start."
    return [FieldError(f"/nodes/{names.index(cycle[0])}/depends_on", told)]
