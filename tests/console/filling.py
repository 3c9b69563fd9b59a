"""Forms of a page as a browser would send them: what stands in their fields, and what a person types."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urljoin

from django.test import Client

#: Buttons of the frame around every page, and what has no name.
_NEVER_SENT: Final = frozenset({"button", "reset", "image", "file"})


@dataclass(slots=True)
class Form:
    """`fields` are sent as they stand; `open` are those that a person may fill or tick; `buttons` are (name, value).

    `phrase` is what the form asks to be typed out.
    """

    action: str
    method: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    phrase: str = ""

    def sent(self, typed: Mapping[str, Any], button: tuple[str, str]) -> dict[str, Any]:
        """What goes out by this button, with what was typed into the fields that are open."""
        kept = {
            name: values for name, values in self.fields.items() if name != "csrfmiddlewaretoken"
        }
        kept |= {name: value for name, value in typed.items() if name in self.open}
        if button[0]:
            kept[button[0]] = [button[1]]
        return kept


class _Forms(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.found: list[Form] = []
        self.by_id: dict[str, Form] = {}
        self._form: Form | None = None
        self._area: str | None = None
        self._select: tuple[str, list[str], list[str]] | None = None
        self._in_main = False
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "main":
            self._in_main = True
        self._in_code = tag == "code"
        if tag == "form" and self._in_main:
            action = urljoin(self.address, told.get("action") or self.address)
            self._form = Form(action, told.get("method", "get").lower())
            self.found.append(self._form)
            if told.get("id"):
                self.by_id[told["id"]] = self._form
        form = self.by_id.get(told.get("form", ""), self._form)
        if form is None or "disabled" in told:
            return
        self._take(form, tag, told)

    def _take(self, form: Form, tag: str, told: dict[str, str]) -> None:
        name, kind = told.get("name", ""), told.get("type", "text" if tag == "input" else "submit")
        if tag == "button" and kind == "submit":
            form.buttons.append((name, told.get("value", "")))
        elif tag == "input" and name and kind not in _NEVER_SENT:
            if kind != "hidden":
                form.open.add(name)
            if kind not in ("checkbox", "radio") or "checked" in told:
                form.fields.setdefault(name, []).append(
                    told.get("value", "on" if kind == "checkbox" else "")
                )
        elif tag == "textarea":
            form.open.add(name)
            form.fields[name] = [""]
            self._area = name
        elif tag == "select":
            form.open.add(name)
            self._select = (name, [], [])
        elif tag == "option" and self._select:
            self._select[1].append(told.get("value", ""))
            if "selected" in told:
                self._select[2].append(told.get("value", ""))

    def handle_data(self, data: str) -> None:
        if self._area and self._form:
            self._form.fields[self._area][0] += data
        elif self._in_code and self._form and not self._form.phrase:
            self._form.phrase = data

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "main":
                self._in_main = False
            case "form":
                self._form = None
            case "textarea":
                self._area = None
            case "select" if self._select and self._form:
                name, offered, chosen = self._select
                self._form.fields[name] = (chosen or offered)[:1]
                self._select = None


def filled(client: Client, address: str, **typed: Any) -> dict[str, Any]:
    """The decision at this address as a browser would send it: what the page had in its fields, and what is typed."""
    page = client.get(address).content.decode()
    form = next(each for each in forms_of(page, address) if "reason" in each.open)
    return form.sent(typed, form.buttons[-1] if form.buttons else ("", ""))


def forms_of(page: str, address: str) -> Iterator[Form]:
    """The forms of the page's own part that change something."""
    reader = _Forms(address)
    reader.feed(page)
    for form in reader.found:
        if form.method == "post":
            yield form
