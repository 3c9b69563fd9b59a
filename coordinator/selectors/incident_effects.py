"""The effects of an incident: out at its bump, or turned up in its drain, and how each was settled (contract 12)."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.models import EffectSlot, Evidence, Incident, IncidentEffect

#: So many effects are told, each with its newest evidence.
MAX_EFFECTS: Final = 500
MAX_EVIDENCE: Final = 20
#: So many lines of evidence, from the bump on, are looked through for effects that turned up later.
MAX_LOOKED_THROUGH: Final = 5_000


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    kind: str
    said: str
    late: bool
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class EffectStory:
    """`after_bump` is its state right after the bump, None for what turned up later; `state` as it stands."""

    effect_id: str
    task_id: UUID
    node_id: str
    slot: str
    downstream: str
    guarantee: str
    after_bump: str | None
    changed_by_bump: bool
    state: str
    verdict: str | None
    settled_at: datetime | None
    duplicate_suspected: bool
    evidence: list[EvidenceLine]


def effect_stories(incident: Incident, *, until: datetime | None) -> tuple[int, list[EffectStory]]:
    """How many there are, and the first of them; what was said after `until` (the switch) belongs to no drain."""
    at_bump = IncidentEffect.objects.filter(incident=incident)
    known = {row.effect_id: row for row in at_bump.order_by("id")[:MAX_EFFECTS]}
    turned_up = _turned_up(incident, until) if incident.evidence_before is not None else []
    known_too = at_bump.filter(effect_id__in=turned_up).values_list("effect_id", flat=True)
    later = [each for each in turned_up if each not in set(known_too)]
    ids = [*known, *later][:MAX_EFFECTS]
    effects = EffectSlot.objects.defer("payload", "condition", "receipt").in_bulk(ids)
    evidence = _evidence(ids)
    told = [
        EffectStory(
            effect_id=effect_id,
            task_id=effect.task_id,
            node_id=effect.node_id,
            slot=effect.slot,
            downstream=effect.downstream,
            guarantee=effect.guarantee,
            after_bump=known[effect_id].state if effect_id in known else None,
            changed_by_bump=effect_id in known and known[effect_id].changed,
            state=effect.state,
            verdict=effect.verdict,
            settled_at=effect.settled_at,
            duplicate_suspected=effect.duplicate_suspected,
            evidence=evidence[effect_id],
        )
        for effect_id, effect in ((each, effects[each]) for each in ids)
    ]
    return at_bump.count() + len(later), told


def _turned_up(incident: Incident, until: datetime | None) -> list[str]:
    """Effects of the incident's queues about which something was said from the bump to the switch."""
    queues = {lane.queue_id for lane in incident.lanes.all()}
    rows = Evidence.objects.filter(id__gt=incident.evidence_before).order_by("id")
    found: dict[str, None] = {}
    for effect_id, queue_id, at in rows.values_list("effect_id", "effect__task__queue_id", "at")[
        :MAX_LOOKED_THROUGH
    ]:
        if until is not None and at > until:
            break
        if queue_id in queues:
            found[effect_id] = None
    return list(found)


def _evidence(effect_ids: list[str]) -> dict[str, list[EvidenceLine]]:
    lines: dict[str, list[EvidenceLine]] = defaultdict(list)
    for row in Evidence.objects.filter(effect_id__in=effect_ids).order_by("-id"):
        told = lines[row.effect_id]
        if len(told) < MAX_EVIDENCE:
            told.insert(0, EvidenceLine(row.kind, row.said, row.late, row.actor, row.at))
    return lines
