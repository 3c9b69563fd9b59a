"""What follows from a decision about an effect, in sentences that the server makes from facts.

Each says what will be done, to whom, how often, and what it costs to be wrong.
"""

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.cases import code
from console.exposure import Exposure
from console.guarantees import promise_of
from console.visible import visible
from coordinator.selectors.console_approval import Bound


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


def plain_stake(exposure: Exposure) -> str:
    """What is sent, as text, for a sentence that is put together elsewhere: it sends this somewhere."""
    parts = [exposure.amount or _("the whole payload")]
    if exposure.recipient:
        parts.append(_("to %(who)s") % {"who": exposure.recipient})
    elif exposure.recipients:
        told = ngettext("%(n)d recipient", "%(n)d recipients", exposure.recipients)
        parts.append(told % {"n": exposure.recipients})
    return " · ".join(parts)


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
        _("What is sent is not un-sent. {promise}"), promise=promise_of(approval.guarantee)
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
