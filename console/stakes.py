"""What follows from a decision about an effect, in sentences that the server makes from facts.

Each says what will be done, to whom, how often, and what it costs to be wrong.
"""

from typing import Final

from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.cases import code
from console.exposure import Exposure
from console.visible import visible
from coordinator.selectors.console_approval import Bound
from coordinator.states import Guarantee

#: What a second arrival of the same call does there (contract 8), after "A second arrival".
SECOND_ARRIVAL: Final[dict[str, Promise]] = {
    Guarantee.CONDITIONAL_WRITE: gettext_lazy("is refused by its condition"),
    Guarantee.IDEMPOTENT_KEY: gettext_lazy("returns the first result while the key is remembered"),
    Guarantee.RESERVATION: gettext_lazy("is refused: a reservation is confirmed once"),
    Guarantee.GATED: gettext_lazy("is refused by the gate before the tool acts"),
    Guarantee.QUERY_ONLY: gettext_lazy("would act again; one can only ask first"),
    Guarantee.NONE: gettext_lazy("would act again, and nobody can be asked"),
}


def second_arrival(guarantee: str) -> str:
    return str(SECOND_ARRIVAL.get(guarantee, guarantee))


def stake_of(exposure: Exposure) -> SafeString:
    """`EUR 1,240.00`, `3 recipients`, both, or nothing: as the payload says it."""
    parts = []
    if exposure.amount:
        parts.append(format_html("<strong>{}</strong>", visible(exposure.amount)))
    if exposure.recipient:
        parts.append(format_html("{} {}", _("to"), code(exposure.recipient)))
    elif exposure.recipients:
        told = ngettext("%(n)d recipient", "%(n)d recipients", exposure.recipients)
        parts.append(format_html("<strong>{}</strong>", told % {"n": exposure.recipients}))
    return format_html_join(" · ", "{}", ((part,) for part in parts))


def approving(approval: Bound, exposure: Exposure) -> SafeString:
    """What happens if this person says yes now."""
    missing = approval.required_approvers - len(approval.decisions)
    if missing > 1:
        return format_html(
            _(
                "Your approval is the first of {n}: nothing is sent until another person has approved"
                " the same bytes in a session of their own."
            ),
            n=approval.required_approvers,
        )
    stake = stake_of(exposure)
    if stake:
        return format_html(
            _(
                "If you approve, the next worker sends exactly these {size} bytes to {downstream},"
                " once: {stake}."
            ),
            size=approval.size_bytes,
            downstream=code(approval.downstream),
            stake=stake,
        )
    return format_html(
        _(
            "If you approve, the next worker sends exactly these {size} bytes to {downstream}, once."
        ),
        size=approval.size_bytes,
        downstream=code(approval.downstream),
    )


def after_approval(approval: Bound) -> SafeString:
    return format_html(
        _("What is sent is not un-sent. A second arrival at {downstream} {arrival}."),
        downstream=code(approval.downstream),
        arrival=second_arrival(approval.guarantee),
    )


def required_by(approval: Bound) -> str:
    """Which rule asks for a person here (contract 9)."""
    if approval.is_exclusive:
        return _("The task is NON_REPLAYABLE: each of its dispatches is approved by a person.")
    if approval.needs_approval:
        return _(
            "A person asserted that an earlier call did not happen: sending again needs a second person."
        )
    return _("The downstream asks for it.")


def phrase_to_approve(digest: str, downstream: str) -> str:
    """What is typed to approve: it names these very bytes and where they go."""
    return f"send {digest.removeprefix('sha256:')[:8]} to {downstream}"
