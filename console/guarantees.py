"""What a downstream promises, in plain words, and what a change of the promise means."""

from collections.abc import Iterator
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from coordinator.selectors.downstreams import DownstreamRecord
from coordinator.states import Guarantee

#: A second arrival of the same call …
SECOND_ARRIVAL: Final[dict[str, Promise]] = {
    Guarantee.CONDITIONAL_WRITE: gettext_lazy(
        "A second arrival of the same call is refused by a condition on a state that never comes back."
    ),
    Guarantee.IDEMPOTENT_KEY: gettext_lazy(
        "A second arrival under the same key returns the first result, while the key is remembered."
    ),
    Guarantee.RESERVATION: gettext_lazy(
        "A second arrival is refused: one confirmation per name, ever."
    ),
    Guarantee.GATED: gettext_lazy("A second arrival is refused by the gate before the tool acts."),
    Guarantee.QUERY_ONLY: gettext_lazy("A second arrival acts again, but one can ask first."),
    Guarantee.NONE: gettext_lazy("A second arrival acts again, and nobody can be asked."),
}
#: Tasks that send there may be repeated without asking a person (contract 8).
REPLAYABLE: Final = frozenset(
    {Guarantee.CONDITIONAL_WRITE, Guarantee.IDEMPOTENT_KEY, Guarantee.RESERVATION, Guarantee.GATED}
)


def promise_of(guarantee: str) -> str:
    told = SECOND_ARRIVAL.get(guarantee)
    return str(told) if told else guarantee


def sentences_of(downstream: DownstreamRecord) -> list[str]:
    return list(_sentences(downstream))


def _sentences(downstream: DownstreamRecord) -> Iterator[str]:
    yield promise_of(downstream.guarantee)
    if downstream.guarantee in REPLAYABLE:
        yield _("Its effects are sent again where that is safe; no person has to approve them.")
    else:
        yield _("Tasks that send there are not replayable: one at a time, each call approved.")
        if downstream.required_approvers == 2:
            yield _("Two people have to approve each call.")
    if downstream.refuses_late:
        yield _("It refuses calls that arrive after their deadline: absence can be proved.")


#: How a form names what may be changed, in the order in which it stands there.
NAMES: Final[dict[str, Promise]] = {
    "kind": gettext_lazy("Kind"),
    "guarantee": gettext_lazy("Guarantee"),
    "key_valid_seconds": gettext_lazy("Key remembered for"),
    "call_timeout_seconds": gettext_lazy("Deadline of a call"),
    "settle_seconds": gettext_lazy("Settle time"),
    "refuses_late": gettext_lazy("Refuses late calls"),
    "serial_scope": gettext_lazy("Serial scope"),
    "required_approvers": gettext_lazy("Approvers"),
    "probe": gettext_lazy("Look-up"),
    "secret_pointers": gettext_lazy("Masked places in payloads"),
}
