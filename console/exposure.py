"""What a payload itself tells of its consequence: an amount, its recipients, a summary in its author's words.

Payloads are free JSON: only well-known names at the top level are read, and nothing is guessed. What
is found is shown as the author's word, never as a fact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson

from coordinator.secrets import mask_value

_AMOUNTS: Final = ("amount", "total", "amount_usd", "amount_eur", "sum", "price", "value")
_CURRENCIES: Final = ("currency", "currency_code", "unit")
_RECIPIENTS: Final = ("to", "recipients", "recipient", "cc", "bcc", "users", "accounts")
_SUMMARIES: Final = ("summary", "title", "subject", "description", "message", "text")
MAX_SUMMARY_CHARS: Final = 160
MAX_RECIPIENT_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Exposure:
    """`amount` as it was written, with its currency; `recipient` is named where there is only one."""

    amount: str = ""
    number: Decimal | None = None
    recipients: int = 0
    recipient: str = ""
    summary: str = ""

    @property
    def told(self) -> bool:
        return bool(self.amount or self.recipients)

    @property
    def weight(self) -> Decimal:
        """For sorting by what is at stake; currencies are not converted."""
        return max(abs(self.number or Decimal(0)), Decimal(max(1, self.recipients)))


def exposure_of(payload: str | None, pointers: Sequence[str] = ()) -> Exposure:
    """Empty where the payload may not be seen, or tells nothing. What is masked tells nothing."""
    try:
        value = orjson.loads(payload) if payload else None
    except orjson.JSONDecodeError:
        return Exposure()
    if not isinstance(value, Mapping):
        return Exposure()
    value = mask_value(value, pointers)[0]
    amount, number = _amount(value)
    recipients = _recipients(value)
    return Exposure(
        amount=amount,
        number=number,
        recipients=len(recipients),
        recipient=recipients[0][:MAX_RECIPIENT_CHARS] if len(recipients) == 1 else "",
        summary=_summary(value),
    )


def _amount(value: Mapping[str, Any]) -> tuple[str, Decimal | None]:
    for name in _AMOUNTS:
        written = value.get(name)
        if isinstance(written, bool) or not isinstance(written, str | int | float):
            continue
        try:
            number = Decimal(str(written))
        except InvalidOperation:
            continue
        if not number.is_finite():
            continue
        currency = next(
            (str(value[key]) for key in _CURRENCIES if isinstance(value.get(key), str)),
            name.partition("_")[2].upper(),
        )
        return f"{currency[:12]} {number:,f}".strip(), number
    return "", None


def _recipients(value: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name in _RECIPIENTS:
        named = value.get(name)
        if isinstance(named, str) and named:
            found.append(named)
        elif isinstance(named, list):
            found += [str(each) if isinstance(each, str) else "" for each in named]
    return found


def _summary(value: Mapping[str, Any]) -> str:
    written = next((value[name] for name in _SUMMARIES if isinstance(value.get(name), str)), "")
    words = " ".join(written.split())
    return words if len(words) <= MAX_SUMMARY_CHARS else f"{words[: MAX_SUMMARY_CHARS - 1]}…"
