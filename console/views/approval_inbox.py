"""`/approvals`: whose turn it is (contract 9)."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.exposure import exposure_of
from console.filters import as_uuid
from console.pages import page, shell_of, show
from console.people import Permit, actor_of, permit
from console.standings import word_of
from coordinator.selectors import console_approvals
from coordinator.selectors.console_approvals import OPEN, ApprovalPage, ApprovalRow, Turn
from coordinator.selectors.downstreams import secret_pointers_of


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the list as it is shown."""

    row: ApprovalRow
    word: str
    exposure: Any
    own: str  # why it is not this person's turn, where it is something that they did


@page()
def approval_list(request: HttpRequest) -> HttpResponse:
    turn = turn_of(request)
    held = [key for key in map(as_uuid, request.GET.get("held", "").split(",")) if key]
    listing = list_of(request, turn, after=request.GET.get("after", ""), held=held)
    context = {
        "turn": turn,
        "typed": {"turn": str(turn)},
        "turns": _turns(listing),
        "lines": lines_of(request, listing),
        "listing": listing,
        "may_decide": may_decide(request),
    }
    poll = {"held": ",".join(str(row.approval_id) for row in listing.rows)}
    return show(request, "console/approvals.html", context, every_seconds=10, poll=poll)


def lines_of(request: HttpRequest, listing: ApprovalPage) -> list[Line]:
    now, label = shell_of(request).now, actor_of(request).label
    places = secret_pointers_of({row.downstream for row in listing.rows})
    return [
        Line(
            row,
            word_of(
                row.state,
                expires_at=row.expires_at,
                now=now,
                given=row.given,
                required=row.required_approvers,
                replaced=row.replaced,
                code=row.reason_code,
            ),
            exposure_of(row.payload, places.get(row.downstream, ())),
            own_part(submitted=row.submitted_by == label, decided=row.decided_by_me)
            if row.state in OPEN
            else "",
        )
        for row in listing.rows
    ]


def list_of(request: HttpRequest, turn: Turn, **place: Any) -> ApprovalPage:
    return console_approvals.list_approvals(
        turn,
        operator_id=request.user.pk or 0,
        label=actor_of(request).label,
        may_decide=bool(may_decide(request)),
        with_payload=bool(permit(request, "view_payload")),
        **place,
    )


def turn_of(request: HttpRequest) -> Turn:
    wanted = request.GET.get("turn", "")
    if wanted in set(Turn):
        return Turn(wanted)
    return Turn.MINE if may_decide(request) else Turn.OTHERS


def _turns(listing: ApprovalPage) -> list[tuple[Turn, str, int | None]]:
    return [
        (Turn.MINE, _("Mine to act on"), listing.counts[Turn.MINE]),
        (Turn.OTHERS, _("Waiting on others"), listing.counts[Turn.OTHERS]),
        (Turn.DECIDED, _("Decided"), None),
    ]


def own_part(*, submitted: bool, decided: bool) -> str:
    """What somebody has done already, so that another person's word is wanted."""
    if submitted:
        return _("You submitted this run; somebody else must decide.")
    return _("You have decided; another person's word is wanted.") if decided else ""


def may_decide(request: HttpRequest) -> Permit:
    """Nobody decides on what they may not see."""
    allowed = permit(request, "approve")
    return allowed and permit(request, "view_payload")
