"""The office's work: a run for each thing to try, its nodes, and the handlers that send."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from examples.practice.legacy import Night
from examples.practice.office import (
    ANNOUNCEMENTS,
    ANSWER_IS_LOST,
    MESSAGE_IS_LOST,
    ORDERS,
    TEXTS,
    Office,
)
from tenure import Claim, Client, Downstream, Retry, Worker
from tenure.downstreams import Call, Guarantee, HttpKey, Sent, Unknown
from tenure.integrations.feed import Feed

#: Where the office's runs are, and the queue that a legacy scheduler still decides about.
QUEUE, MOVING = "practice", "practice-moving"
SOURCE = "practice.invoices"
TEXT, SUMMARY, ORDER, ANNOUNCE, NIGHT = "text", "summary", "order", "announce", "legacy-night"
SETTLE, AGREE, REJECT, MOVE = "settle", "agree", "reject", "move"
#: How a run is recognised when the example starts again.
EXAMPLE = "practice"
#: Slots, with the downstreams that `manage.py up` registers for them.
SLOTS: Mapping[str, Mapping[str, str]] = {
    TEXT: {"message": "practice-texts"},
    ORDER: {"order": "practice-orders"},
    ANNOUNCE: {"announcement": "practice-announcements"},
}
NAMES: Mapping[str, str] = {
    SETTLE: "Practice: two texts, and nobody knows",
    AGREE: "Practice: an order for two signatures",
    REJECT: "Practice: an announcement with a mistake",
    MOVE: "Practice: a night of the legacy scheduler",
}
#: How long the night's events may take to be told.
TOLD_SECONDS = 15.0


def nodes(exercise: str) -> list[dict[str, Any]]:
    """The nodes of an exercise's run."""
    match exercise:
        case "settle":
            texts = {
                "text-one": {"to": ANSWER_IS_LOST, "text": "Your parcel arrives today at 16:00."},
                "text-two": {"to": MESSAGE_IS_LOST, "text": "Your parcel arrives today at 17:00."},
            }
            return [
                *(_node(name, TEXT, asked) for name, asked in texts.items()),
                {"node_id": SUMMARY, "kind": SUMMARY, "input": {}, "depends_on": list(texts)},
            ]
        case "agree":
            ordered = {
                "to": "Chairs & Tables Ltd",
                "summary": "12 chairs for the meeting room",
                "amount": "1440.00",
                "currency": "EUR",
            }
            return [_node("order", ORDER, ordered)]
        case "reject":
            return [_node("announcement", ANNOUNCE, _closed_on("31 November"))]
        case _:
            return [{"node_id": "night", "kind": NIGHT, "input": {"queue": MOVING}}]


def _node(name: str, kind: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"node_id": name, "kind": kind, "input": dict(asked), "slots": dict(SLOTS[kind])}


def _closed_on(day: str) -> dict[str, Any]:
    return {
        "to": "all 4 200 customers",
        "subject": f"We are closed on {day}",
        "text": f"Our shop is closed on {day}. We are there for you again the day after.",
    }


def submit(client: Client) -> dict[str, str]:
    """The run of each exercise: the one that is not over yet, else a new one."""
    open_runs: dict[str, str] = {}
    for run in client.runs(queue=QUEUE, state="ACTIVE"):
        metadata = run.metadata or {}
        if metadata.get("example") == EXAMPLE:
            open_runs.setdefault(str(metadata.get("exercise")), run.run_id)
    return {
        exercise: open_runs.get(exercise)
        or client.submit_run(
            queue=QUEUE,
            name=name,
            metadata={"example": EXAMPLE, "exercise": exercise},
            nodes=nodes(exercise),
        ).run_id
        for exercise, name in NAMES.items()
    }


class Service(HttpKey):
    """A service of the office. Where nobody knows what came of a call, it says which log a person can look in."""

    def __init__(self, office: Office, service: str, guarantee: Guarantee) -> None:
        super().__init__(f"{office.url}/{service}", guarantee=guarantee)
        self._log = office.log(service)

    def send(self, call: Call) -> Sent:
        """As HttpKey does it."""
        sent = super().send(call)
        if isinstance(sent, Unknown):
            return Unknown(detail=f"{sent.detail} · what was sent stands in {self._log}")
        return sent


def register(worker: Worker, office: Office, *, url: str, token: str) -> None:
    """Give a worker the office's kinds."""
    services = {
        TEXT: Service(office, TEXTS, Guarantee.GATED),
        ORDER: Service(office, ORDERS, Guarantee.NONE),
        ANNOUNCE: Service(office, ANNOUNCEMENTS, Guarantee.NONE),
    }

    def send(claim: Claim) -> dict[str, Any]:
        [(slot, name)] = SLOTS[claim.kind].items()
        # Who asks for changes to the announcement means the day.
        asked = _closed_on("1 December") if claim.changes_asked else claim.input
        outside = Downstream(name, services[claim.kind])
        return {"receipt": claim.effect(slot, outside, asked).perform(adopt=True)}

    for kind in services:
        worker.handler(kind)(send)

    @worker.handler(SUMMARY)
    def summary(claim: Claim) -> dict[str, Any]:
        return {"sent": sorted(claim.parents)}

    @worker.handler(NIGHT)
    def night(claim: Claim) -> dict[str, Any]:
        feed = Feed(url=url, token=token, queue=claim.input["queue"], source=SOURCE)
        try:
            jobs = Night(feed.tell, when=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}").work()
            if not feed.flush(TOLD_SECONDS):
                raise Retry("the night's events could not be told; there will be another night")
            return {"jobs": jobs, "events": feed.counts.sent}
        finally:
            feed.close()
