"""Authorise and capture: reserved under the effect's name, then confirmed once per name, ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tenure.canonical import canonical
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Sent,
    overdue,
)
from tenure.downstreams.exchange import Answered, exchange, new_client, receipt_of, verdict
from tenure.downstreams.fields import no_condition, plain
from tenure.downstreams.headers import headers_of
from tenure.records import Json


class Reservation(Adapter):
    """`PUT {base}/{name}` reserves, `POST {base}/{name}/capture` confirms, `GET {base}/{name}` tells its `state`.

    A reservation alone acts on nothing and lapses by itself, so only the confirmation is the call that counts.
    """

    kind: ClassVar[str] = "reservation"
    limits: ClassVar[str] = (
        "A name must be confirmed at most once, ever: a service that forgets old names, or lets a lapsed reservation "
        "be made anew under its name and confirmed again, acts twice."
    )

    def __init__(
        self,
        base_url: str,
        *,
        done_state: str = "captured",
        open_states: tuple[str, ...] = ("authorised",),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(Guarantee.RESERVATION)
        self._base = base_url.rstrip("/")
        self._done_state = done_state
        self._open_states = frozenset(open_states)
        self._client = new_client(headers)

    def check(self, payload: Json, condition: Json) -> None:
        """Any JSON will do."""
        plain(payload, "/payload")
        no_condition(condition, "a reservation")

    def send(self, call: Call) -> Sent:
        """Reserve, then confirm once. A reservation that is not certain is not confirmed."""
        if late := overdue(call):
            return late
        headers = {"Content-Type": "application/json", **headers_of(call)}
        reserved = exchange(
            self._client,
            "PUT",
            self._name(call),
            deadline=call.deadline,
            headers=headers,
            content=canonical(call.payload),
        )
        outcome = verdict(reserved) if isinstance(reserved, Answered) else reserved
        if not isinstance(outcome, Happened):
            return outcome
        answer = exchange(
            self._client,
            "POST",
            f"{self._name(call)}/capture",
            deadline=call.deadline,
            headers=headers,
        )
        return verdict(answer) if isinstance(answer, Answered) else answer

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Ask for the reservation by its name."""
        answer = exchange(self._client, "GET", self._name(effect), deadline=deadline)
        if not isinstance(answer, Answered):
            return DontKnow(detail=answer.detail)
        if answer.status == 404:
            return Absent(detail="nothing is reserved under this name")
        if answer.status != 200:
            return DontKnow(detail=f"the look-up was answered with HTTP {answer.status}")
        state = _state(answer)
        if state == self._done_state:
            return Happened(receipt=receipt_of(answer))
        if state in self._open_states:
            return Absent(detail=f"the reservation is {state}, not confirmed")
        return DontKnow(detail=f"the reservation is in a state that we don't know: {state!r}")

    def _name(self, effect: Bound) -> str:
        return f"{self._base}/{effect.effect_id}"


def _state(answer: Answered) -> Json:
    try:
        body = answer.json()
    except ValueError:
        return None
    return body.get("state") if isinstance(body, Mapping) else None
