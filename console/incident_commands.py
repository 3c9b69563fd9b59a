"""What each step of an incident reads and does, from a terminal (console design, 7.7)."""

from collections.abc import Mapping
from typing import Any

from console.commands import WHY, Shown, read, send, tenure
from coordinator.intake_shares import WHOLE


def incident_step(
    incident_id: object,
    number: int,
    *,
    version: int = 1,
    epochs: Mapping[str, int] | None = None,
    confirm: str = WHY,
    percent: int = 10,
) -> list[Shown]:
    """What a step of an incident reads, and what it does."""
    seen = ("--expected-version", version)
    at: dict[str, Any] = {"expected_version": version}
    of = ("incidents", incident_id)
    match number:
        case 1:
            return [read(*of, cli=tenure("incident", "show", incident_id))]
        case 2:
            return [read(*of, "preview", cli=tenure("incident", "preview", incident_id))]
        case 3:
            told = epochs or {WHY: 1}
            pairs = [f"{name}={epoch}" for name, epoch in told.items()]
            words = [word for pair in pairs for word in ("--expected-epoch", pair)]
            cli = tenure("incident", "bump", incident_id, *words, "--confirm", confirm, *seen)
            body: dict[str, Any] = {"expected_epochs": dict(told), "confirm": confirm, **at}
            return [send("POST", *of, "bump", cli=cli, **body)]
        case 4:
            cli = tenure("incident", "candidates", incident_id, "keep", "--reason", WHY, *seen)
            return [
                read(*of, "gate", cli=tenure("incident", "gate", incident_id)),
                send("POST", *of, "candidates", cli=cli, decision="KEEP", reason=WHY, **at),
            ]
        case 5:
            cli = tenure("incident", "switch", incident_id, "--to", WHY, *seen)
            return [send("POST", *of, "switch", cli=cli, to_pool=WHY, **at)]
        case 6:
            part = tenure("incident", "resume", incident_id, "--percent", percent, *seen)
            whole = tenure("incident", "resume", incident_id, *seen)
            return [
                *(
                    [send("POST", *of, "resume", cli=part, percent=percent, **at)]
                    if percent < WHOLE
                    else []
                ),
                send("POST", *of, "resume", cli=whole, **at),
            ]
        case _:
            cli = tenure("incident", "report", incident_id)
            return [read(*of, "report", cli=cli, format="markdown")]
