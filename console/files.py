"""Rows as files, a piece at a time: one JSON object a line, or CSV that no spreadsheet takes for formulas."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from django.http import StreamingHttpResponse

from console.visible import compact

#: What a spreadsheet would run, or take for a formula, when it stands first in a cell.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_FLUSH_CHARS: Final = 32_768

#: A row of a file, or where a file that had to end early would go on.
Item = Mapping[str, Any] | int | str


def file_of(
    name: str, form: str, items: Iterable[Item], columns: Sequence[str]
) -> StreamingHttpResponse | None:
    """A file that is sent while it is read; None where `form` is neither `ndjson` nor `csv`."""
    if form == "ndjson":
        lines, content_type = as_ndjson(items), "application/x-ndjson"
    elif form == "csv":
        lines, content_type = as_csv(items, columns), "text/csv; charset=utf-8"
    else:
        return None
    response = StreamingHttpResponse(lines, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def as_ndjson(items: Iterable[Item]) -> Iterator[bytes]:
    """One object a line. A last `{"continue_before": …}` where the export had to end early."""
    for item in items:
        told = item if isinstance(item, Mapping) else {"continue_before": item}
        yield orjson.dumps(told, default=str, option=orjson.OPT_UTC_Z) + b"\n"


def as_csv(items: Iterable[Item], names: Sequence[str]) -> Iterator[bytes]:
    """As `as_ndjson`, with a head. Cells that a spreadsheet would take for a formula begin with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(names)
    for item in items:
        if isinstance(item, Mapping):
            writer.writerow([harmless(text_of(item.get(name))) for name in names])
        else:
            writer.writerow([f"continue_before={item}"])
        if buffer.tell() > _FLUSH_CHARS:
            yield _drain(buffer)
    yield _drain(buffer)


def harmless(cell: str) -> str:
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


def text_of(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return compact(value) if isinstance(value, (str, dict, list, bool)) else str(value)


def _drain(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()
