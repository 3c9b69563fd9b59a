"""Who acts: a worker's credential, a person, or the system itself (contract 15)."""

from dataclasses import dataclass, field
from enum import StrEnum

from coordinator.shadow.lanes import queue_of
from coordinator.standing import Standing


class ActorKind(StrEnum):
    WORKER = "worker"
    OPERATOR = "operator"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Stands in every event. `name` is the credential's or the person's; `address` is where from."""

    kind: ActorKind
    name: str
    id: int = 0
    request_id: str = ""
    address: str = ""

    @property
    def label(self) -> str:
        """`operator:alice`, `worker:fleet-1#12`, `system:sweep`."""
        return f"{self.kind}:{self.name}" + (f"#{self.id}" if self.kind is ActorKind.WORKER else "")


@dataclass(frozen=True, slots=True)
class Worker(Actor):
    """A worker's credential with what it may touch."""

    pool: str = ""
    queues: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    contract: str = ""  # the X-Claim-Contract header
    #: Of a remembered caller: to be confirmed by who acts for it. Not in its repr: it holds the token's hash.
    standing: Standing | None = field(default=None, repr=False)

    def reaches(self, queue: str) -> bool:
        """Whether the credential names this queue, or the one that it is the rehearsal lane of."""
        return queue_of(queue) in self.queues


@dataclass(frozen=True, slots=True)
class Operator(Actor):
    """A person, by session or personal token, with the permissions of contract 15 that they have."""

    permissions: frozenset[str] = frozenset()


def system(name: str) -> Actor:
    return Actor(ActorKind.SYSTEM, name)
