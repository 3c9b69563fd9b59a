"""Runs and tasks: submitted, cancelled, revised, reopened (contract 6, 10)."""

from typing import Annotated

from pydantic import Field

from coordinator.services.graphs import MAX_ATTEMPTS, MAX_NODES, MAX_PRIORITY, MAX_SLOTS
from coordinator.services.runs import NodeSpec
from coordinator.services.texts import MAX_NAME_CHARS
from coordinator.states import Replay

from .fields import Body, Instant, Json, Name, Reason, StateVersion, Word


class PlaceBody(Body):
    """What a node has besides its name."""

    kind: Name
    input: Json
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0
    not_before: Instant | None = None
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] | None = None
    replay: Annotated[Replay, Field(strict=False)] | None = None
    slots: Annotated[dict[Name, Word], Field(max_length=MAX_SLOTS)] = {}
    serial_key: Name | None = None

    def spec(self, node_id: str, depends_on: tuple[str, ...] = ()) -> NodeSpec:
        return NodeSpec(
            node_id,
            self.kind,
            self.input,
            depends_on,
            self.priority,
            self.not_before,
            self.max_attempts,
            self.replay,
            self.slots,
            self.serial_key,
        )


class NodeBody(PlaceBody):
    node_id: Name
    depends_on: Annotated[list[Name], Field(max_length=MAX_NODES)] = []


class RunBody(Body):
    queue: Word
    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = ""
    metadata: dict[str, Json] = {}
    nodes: Annotated[list[NodeBody], Field(min_length=1, max_length=MAX_NODES)]


class TaskBody(PlaceBody):
    queue: Word
    node_id: Name = "task"


class CancelTaskBody(Body):
    reason: Reason
    expected_state_version: StateVersion | None = None


class CancelRunBody(Body):
    reason: Reason


class ReviseBody(Body):
    expected_state_version: StateVersion
    input: Json
    reason: Reason


class ReopenBody(Body):
    expected_state_version: StateVersion
    reason: Reason
