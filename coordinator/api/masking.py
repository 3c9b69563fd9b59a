"""What people are given by the API is masked as on the pages; workers are handed everything whole (contract 15).

A personal token reads what its person reads. What stands behind the masks is asked for by
`POST /effects/{id}/reveal` and `POST /tasks/{id}/reveal`, with a reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

import orjson

from coordinator.access import Operation
from coordinator.actors import Actor, Operator, Worker
from coordinator.record_masks import words_masked
from coordinator.secrets import MAX_NAMED, mask_text, mask_value
from coordinator.selectors.downstreams import all_secret_pointers

Record = TypeVar("Record")

#: Lines of the audit say themselves whether something of them is masked: their digests are over all of them.
_BY_THEMSELVES: Final = frozenset({Operation.EXPORT_AUDIT_CHAIN, Operation.REVEAL_AUDIT_CHAIN})


def told_to(caller: Actor, operation: Operation, answer: Record) -> Record:
    """Any answer to a person with what people wrote in it masked by its shape, as on the pages."""
    if not isinstance(caller, Operator) or operation in _BY_THEMSELVES:
        return answer
    return words_masked(answer)


def places_for(caller: Actor) -> Mapping[str, Sequence[str]]:
    """What the downstreams' registrations mark as secret, for people; one query."""
    return {} if isinstance(caller, Worker) else all_secret_pointers()


def for_caller(caller: Actor, record: Record, places: Sequence[str] = ()) -> Record:
    """A record with its stored JSON masked for people; `masked` names the places, the member's name first.

    `places` are those of its downstream, and mean its `payload`.
    """
    if isinstance(caller, Worker):
        return record
    changed: dict[str, Any] = {}
    hidden: list[str] = []
    for each in fields(record):  # type: ignore[arg-type]  # the records are dataclasses
        value = getattr(record, each.name)
        if isinstance(value, orjson.Fragment):
            text = orjson.dumps(value).decode()
            masked = mask_text(text, places if each.name == "payload" else ())
            if masked.hidden:
                changed[each.name] = orjson.Fragment(masked.text)
                hidden += [f"/{each.name}{one.pointer}" for one in masked.hidden]
        elif each.name in ("data", "detail", "metadata", "error") and value:
            changed[each.name] = mask_value(value)[0]
    if hidden and hasattr(record, "masked"):
        changed["masked"] = hidden[:MAX_NAMED]
    return replace(record, **changed) if changed else record  # type: ignore[type-var]
