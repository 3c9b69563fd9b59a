"""Shared memory, which only commits write (contract 11)."""

from coordinator.access import Operation
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.masking import for_caller
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.memory import MemoryRecord, find_fact, memory_record


class Memory(Endpoint):
    @operation(
        Operation.READ_MEMORY,
        "The newest version of a key of shared memory",
        answer=MemoryRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], namespace: str, key: str) -> MemoryRecord | Refusal:
        named = "\x00" not in namespace + key
        fact = find_fact(namespace=namespace, key=key) if named else None
        return (
            for_caller(call.caller, memory_record(fact))
            if fact
            else not_found("key of shared memory")
        )
