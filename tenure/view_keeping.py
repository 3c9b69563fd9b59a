"""Saved views: filters of the list of tasks that people keep for each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from tenure.calling import Calling
from tenure.decoding import decode
from tenure.records import Json
from tenure.retrying import Repeat
from tenure.transport import Answer


@dataclass(frozen=True, kw_only=True)
class SavedView:
    """`query` as in the address of the list of tasks. `count` where it was asked for; `at_least`: there may be more."""

    view_id: str
    name: str
    query: str
    made_by: str
    made_at: datetime
    count: int | None = None
    at_least: bool = False


@dataclass(frozen=True, kw_only=True)
class _Views:
    results: tuple[SavedView, ...]


class ViewKeeping(Calling):
    """What `Client` can do about saved views. Changes are not repeated: look before you send one again."""

    def views(self, *, counts: bool = False) -> tuple[SavedView, ...]:
        """All that there are, by name; with `counts`, how many tasks each finds."""
        asked = {"counts": "true"} if counts else None
        return decode(_Views, self._get("views", asked).body).results

    def save_view(self, name: str, *, query: str) -> SavedView:
        """Keep a filter for everybody, such as `queue=review&q=attempts:>3`."""
        return decode(SavedView, self._change("views", name=name, query=query).body)

    def rename_view(self, view_id: str, *, name: str, expected_name: str) -> SavedView:
        """Give it another name. Refused where it is not called `expected_name` any more."""
        path = f"views/{quote(view_id, safe='')}/rename"
        return decode(SavedView, self._change(path, name=name, expected_name=expected_name).body)

    def delete_view(self, view_id: str, *, expected_name: str) -> None:
        """Take it away. Refused where it is not called `expected_name` any more."""
        self._change(f"views/{quote(view_id, safe='')}/delete", expected_name=expected_name)

    def _change(self, path: str, **body: Json) -> Answer:
        return self._post(path, body, repeat=Repeat.NEVER)
