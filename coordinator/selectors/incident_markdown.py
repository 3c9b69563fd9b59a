"""The report of an incident as a document: Markdown, for tickets and post-mortems (contract 12)."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from .incident_reports import IncidentStory

#: Words that others wrote are told up to here.
MAX_CELL_CHARS: Final = 300
#: What Markdown reads as its own, wherever it stands; `&` begins an entity, `@` a mention.
_MARKS: Final = re.compile(r"[\\`|*_\[\]<>#&~!@]")
#: What viewers make a link of without being told: the last character is what they look for.
_LINKED: Final = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]*:(?=//)|\bwww\.|\b(?:mailto|xmpp|javascript):)", re.IGNORECASE
)
_STEPS: Final = ("stopped", "draining", "drained", "switched", "total")


def render_markdown(story: IncidentStory) -> str:
    """The same facts as the JSON report, in the order in which people ask for them."""
    return "\n".join(_lines(story)) + "\n"


def _lines(story: IncidentStory) -> Iterator[str]:
    incident = story.incident
    names = ", ".join(_cell(lane.name) for lane in incident.queues)
    yield f"# Incident {incident.incident_id}"
    yield ""
    yield f"- State: **{incident.state}**"
    yield f"- Queues: {names}" + (" (all)" if incident.covers_all else "")
    yield f"- Reason: {_cell(incident.reason)}"
    yield f"- Opened by {_cell(incident.opened_by)} at {_instant(incident.opened_at)}"
    yield f"- Told at {_instant(story.told_at)}"
    yield from _section(
        "Steps",
        ["step", "at", "by", "from", "why"],
        [[step.step, step.at, step.by, step.address, step.reason] for step in incident.steps],
    )
    if incident.canaries:
        yield from _section(
            "What was let in first",
            ["at", "per cent", "by", "why", "commits", "of them fenced"],
            [
                [each.at, each.share, each.by, each.reason, each.commits, each.fenced]
                for each in incident.canaries
            ],
        )
    yield from _section(
        "How long", ["part", "seconds"], [[name, getattr(story.durations, name)] for name in _STEPS]
    )
    yield from _section(
        "Queues",
        ["queue", "epoch before", "epoch after", "pool before", "pool after", "intake now"],
        [
            [
                lane.name,
                lane.epoch_before,
                lane.epoch_after,
                lane.pool_before,
                lane.pool_after,
                lane.intake,
            ]
            for lane in incident.queues
        ],
    )
    yield from _taken_back(story)
    yield from _settled(story)
    yield from _section(
        "Timeline",
        ["at", "what", "by", "from", "repeats", "details"],
        [
            [entry.at, entry.kind, entry.by, entry.address, entry.repeats, _details(entry.data)]
            for entry in story.timeline
        ],
    )


def _taken_back(story: IncidentStory) -> Iterator[str]:
    cost = story.abandoned
    yield ""
    yield "## What was taken back"
    yield ""
    yield f"- Revoked attempts: {story.revoked}; void approvals: {story.voided}"
    yield f"- Effects that may have been out: {story.effect_count}; results put aside: {story.candidate_count}"
    yield f"- Late calls of these attempts that were refused: {story.fenced_calls}"
    yield f"- Claims with an old epoch that were refused: {story.stale_claims}"
    yield (
        f"- Abandoned: {cost.cost_usd:.6f} USD, {cost.compute_seconds:.3f} compute seconds,"
        f" {cost.input_tokens} input and {cost.output_tokens} output tokens."
    )
    yield from _section(
        "Revoked attempts",
        ["attempt", "task", "node", "owner", "pool", "lease until", "attempt now", "task now", "USD"],
        [
            [
                hold.attempt_id, hold.task_id, hold.node_id, hold.owner, hold.pool,
                hold.lease_expires_at, hold.attempt_state, hold.task_state, hold.cost_usd,
            ]
            for hold in story.holds
        ],
    )  # fmt: skip
    yield from _section(
        "Refused after the bump",
        ["attempt", "task", "call", "outcome", "reason", "calls", "first", "last"],
        [
            [
                call.attempt_id, call.task_id, call.point, call.outcome, call.reason,
                call.calls, call.first_at, call.last_at,
            ]
            for call in story.fenced
        ],
    )  # fmt: skip
    yield from _section(
        "Void approvals",
        ["approval", "effect"],
        [[each.approval_id, each.effect_id] for each in story.voided_approvals],
    )


def _settled(story: IncidentStory) -> Iterator[str]:
    yield from _section(
        "Effects",
        ["effect", "task", "slot", "downstream", "after the bump", "now", "settled", "evidence"],
        [
            [
                effect.effect_id, effect.task_id, effect.slot, effect.downstream,
                effect.after_bump or "turned up later", effect.state, effect.settled_at,
                "; ".join(f"{line.said} by {line.by} ({line.kind})" for line in effect.evidence),
            ]
            for effect in story.effects
        ],
    )  # fmt: skip
    yield from _section(
        "Results that were put aside",
        ["attempt", "task", "node", "digest", "decision", "by", "at", "why"],
        [
            [
                each.attempt_id, each.task_id, each.node_id, each.result_digest,
                each.decision or "undecided", each.by, each.at, each.reason,
            ]
            for each in story.candidates
        ],
    )  # fmt: skip


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    if not rows:
        yield "None."
        return
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(_cell(value) for value in row) + " |"


def _details(data: dict[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in data.items() if value not in ("", None))


def _cell(value: Any) -> str:
    """One line of plain text: what others wrote makes no table, link, mention or tag here."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return _instant(value)
    text = str(value)
    if len(text) > MAX_CELL_CHARS:
        text = text[: MAX_CELL_CHARS - 1] + "…"
    text = " ".join(text.split())
    text = "".join(map(_seen, text))
    text = _MARKS.sub(r"\\\g<0>", text)
    return _LINKED.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", text) or "-"


def _seen(character: str) -> str:
    """What can't be seen, or turns what stands beside it around, as its code point: ⟨U+202E⟩."""
    unseen = unicodedata.category(character) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp")
    return f"⟨U+{ord(character):04X}⟩" if unseen else character


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
