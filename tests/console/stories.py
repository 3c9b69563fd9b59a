"""Histories that the attempt timeline has to tell apart (console design, check P), and how they were drawn.

    DJANGO_SETTINGS_MODULE=coordinator.site.settings python -m tests.console.stories

draws them anew into tests/console/timelines; look at what changed.

A drawing is kept in a canonical form: one element a line, its attributes in order, so that a difference can be read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from uuid import UUID
from xml.etree import ElementTree as ET

import django
from django.apps import apps

if not apps.ready:  # on its own, as a command
    django.setup()

from django.template.loader import render_to_string

from console.preferences import Preferences
from console.timelines import draw_timeline
from coordinator.selectors.console_attempts import AttemptHistory, History, Mark

START: Final = datetime(2026, 1, 1, 14, tzinfo=UTC)
FOLDER: Final = Path(__file__).parent / "timelines"


def moment(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def attempt(
    generation: int,
    *,
    start: float,
    lease: float,
    end: float | None,
    state: str,
    renewed: Sequence[float] = (),
    epoch: int = 1,
) -> AttemptHistory:
    """A grant; instants are seconds after START."""
    return AttemptHistory(
        attempt_id=UUID(int=generation),
        claim_generation=generation,
        scheduler_epoch=epoch,
        owner=f"owner-{generation}",
        credential="fleet",
        pool="blue",
        state=state,
        started_at=moment(start),
        lease_expires_at=moment(lease),
        renewals=len(renewed),
        renewed_at=tuple(moment(seconds) for seconds in renewed),
        ended_at=None if end is None else moment(end),
        end_reason=None,
        error=None,
        reclaim_seconds=None,
        input_tokens=0,
        output_tokens=0,
        compute_seconds=0,
        cost_usd=Decimal(0),
    )


def history(
    *attempts: AttemptHistory,
    marks: Sequence[Mark] = (),
    bumps: Sequence[Mark] = (),
    unsure: Sequence[Mark] = (),
) -> History:
    return History(attempts[::-1], len(attempts), tuple(marks), (), tuple(bumps), tuple(unsure))


def refused(generation: int, seconds: float, repeats: int = 0) -> Mark:
    at = moment(seconds)
    return Mark(
        "REFUSED", UUID(int=generation), at, at, repeats, {"point": "commit", "outcome": "FENCED"}
    )


def bumped(seconds: float, before: int) -> Mark:
    told = {"from": before, "to": before + 1}
    return Mark("EPOCH_BUMPED", None, moment(seconds), None, 0, told)


def unknown(generation: int, seconds: float) -> Mark:
    told = {"slot": "mail", "effect_id": "e" * 64}
    return Mark("EFFECT_UNKNOWN", UUID(int=generation), moment(seconds), None, 0, told)


def _fenced_late_write() -> History:
    return history(
        attempt(1, start=0, lease=110, end=119, state="EXPIRED", renewed=(20, 40, 60, 80)),
        attempt(2, start=119, lease=260, end=228, state="COMMITTED", renewed=(150, 180, 210)),
        marks=[refused(1, 270, repeats=1)],
    )


def _unknown() -> History:
    return history(
        attempt(1, start=0, lease=90, end=70, state="RELEASED", renewed=(20, 40)),
        attempt(2, start=130, lease=220, end=None, state="STARTED", renewed=(160,)),
        unsure=[unknown(1, 45)],
    )


def _epoch_boundary() -> History:
    return history(
        attempt(1, start=0, lease=120, end=65, state="FENCED", renewed=(30, 60)),
        attempt(2, start=90, lease=210, end=180, state="COMMITTED", epoch=2, renewed=(120, 150)),
        marks=[refused(1, 100)],
        bumps=[bumped(65, 1)],
    )


def _forty_attempts() -> History:
    return history(
        *(
            attempt(n, start=n * 30, lease=n * 30 + 20, end=n * 30 + 29, state="EXPIRED")
            for n in range(1, 40)
        ),
        attempt(40, start=1_200, lease=1_260, end=1_240, state="COMMITTED"),
    )


def _zero_length_lease() -> History:
    """Granted, given back, and granted again in one instant; the last one commits at once."""
    return history(
        attempt(1, start=0, lease=30, end=0, state="RELEASED"),
        attempt(2, start=0, lease=0, end=0, state="EXPIRED"),
        attempt(3, start=0, lease=30, end=0, state="COMMITTED"),
    )


def _clock_skew() -> History:
    """Instants of several machines: an end before its start, a renewal after the lease, a refusal too early."""
    return history(
        attempt(1, start=60, lease=40, end=55, state="EXPIRED", renewed=(50, 90)),
        attempt(2, start=50, lease=170, end=140, state="COMMITTED", renewed=(45,)),
        marks=[refused(1, 30)],
    )


STORIES: Final[Mapping[str, Callable[[], History]]] = {
    "fenced-late-write": _fenced_late_write,
    "unknown": _unknown,
    "epoch-boundary": _epoch_boundary,
    "forty-attempts": _forty_attempts,
    "zero-length-lease": _zero_length_lease,
    "clock-skew": _clock_skew,
}
#: When a story is looked at, in seconds after START.
LOOKED_AT: Final = {"unknown": 190}


def drawn(name: str) -> str:
    """The drawing as the page has it."""
    told, now = STORIES[name](), moment(LOOKED_AT.get(name, 3_000))
    page = render_to_string(
        "console/task/attempts.html",
        {
            "timeline": draw_timeline(told, now=now),
            "history": told,
            "task": SimpleNamespace(dependency_count=0, run_id=UUID(int=1)),
            "neighbours": SimpleNamespace(parents=(), children=(), more_children=False),
            "shell": SimpleNamespace(now=now),
            "preferences": Preferences(),
        },
    )
    found = re.search(r'<svg class="timeline".*?</svg>(?=</div>)', page, re.DOTALL)
    assert found is not None
    return found[0]


def canonical(svg: str) -> str:
    return "\n".join(_lines(ET.fromstring(svg), 0)) + "\n"


def _lines(element: ET.Element, depth: int) -> list[str]:
    attributes = "".join(f' {name}="{value}"' for name, value in sorted(element.attrib.items()))
    text = " ".join((element.text or "").split())
    space = " " * depth
    if not len(element):
        end = f">{text}</{element.tag}>" if text else "/>"
        return [f"{space}<{element.tag}{attributes}{end}"]
    inner = [line for child in element for line in _lines(child, depth + 1)]
    return [f"{space}<{element.tag}{attributes}>{text}", *inner, f"{space}</{element.tag}>"]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in STORIES:
        (FOLDER / f"{name}.svg").write_text(canonical(drawn(name)))


if __name__ == "__main__":
    main()
