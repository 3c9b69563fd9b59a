"""The columns of the list of tasks: which there are, which the address chose (`cols=state,node,owner`)."""

from enum import StrEnum
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy


class Column(StrEnum):
    """In the order in which a row has them; the word is what stands in the address."""

    NODE = "node"  # the way to the task: always there
    STATE = "state"
    RUN = "run"
    QUEUE = "queue"
    KIND = "kind"
    GENERATION = "generation"
    EPOCH = "epoch"
    ATTEMPTS = "attempts"
    LEASE = "lease"
    OWNER = "owner"
    TOOK = "took"
    COST = "cost"
    SUBMITTED = "submitted"

    @property
    def label(self) -> Promise:
        return _LABELS[self]

    @property
    def is_number(self) -> bool:
        return self in _NUMBERS


_C = Column
_LABELS: Final = {
    _C.NODE: gettext_lazy("Task"),
    _C.STATE: gettext_lazy("State"),
    _C.RUN: gettext_lazy("Run"),
    _C.QUEUE: gettext_lazy("Queue"),
    _C.KIND: gettext_lazy("Kind"),
    _C.GENERATION: gettext_lazy("Gen."),
    _C.EPOCH: gettext_lazy("Epoch"),
    _C.ATTEMPTS: gettext_lazy("Attempts"),
    _C.LEASE: gettext_lazy("Lease left"),
    _C.OWNER: gettext_lazy("Owner"),
    _C.TOOK: gettext_lazy("Ready to commit"),
    _C.COST: gettext_lazy("Cost"),
    _C.SUBMITTED: gettext_lazy("Submitted"),
}
_NUMBERS: Final = frozenset(
    {_C.GENERATION, _C.EPOCH, _C.ATTEMPTS, _C.LEASE, _C.TOOK, _C.COST, _C.SUBMITTED}
)
#: Those of the console design (7.2): what a person needs to see which task needs them.
DEFAULT_COLUMNS: Final = (
    _C.NODE,
    _C.STATE,
    _C.GENERATION,
    _C.ATTEMPTS,
    _C.LEASE,
    _C.OWNER,
    _C.TOOK,
    _C.COST,
)


def read_columns(text: str) -> tuple[tuple[Column, ...], str]:
    """The columns that `cols=` names, in the order of a row, and what is wrong with it, if anything."""
    named = [word.strip().lower() for word in text.split(",") if word.strip()]
    unknown = [word for word in named if word not in set(Column)]
    if unknown:
        told = _("There is no column “%(name)s”. Columns: %(all)s.")
        return DEFAULT_COLUMNS, told % {"name": unknown[0], "all": ", ".join(Column)}
    chosen = tuple(column for column in Column if column in named or column is Column.NODE)
    return (chosen if named else DEFAULT_COLUMNS), ""
