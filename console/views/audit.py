"""`/audit`: who did what to which object, when, from where and why; and the same as files."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from console.audits import REFUSED, export_items, export_names, tell, wanted_audit
from console.files import file_of
from console.pages import page, refuse, show
from console.people import permit
from console.preferences import read_preferences
from coordinator.selectors.console_audit import export_rows, read_page
from coordinator.selectors.console_counts import in_time
from coordinator.services.events import EventKind


@page()
def audit(request: HttpRequest) -> HttpResponse:
    wanted = wanted_audit(request.GET, read_preferences(request).tzinfo)
    found = in_time(lambda: read_page(wanted.audit, before=wanted.before))
    context = {
        "wanted": wanted,
        "listed": [tell(row) for row in found.rows] if found else [],
        "found": found,
        "kinds": sorted(EventKind),
        "refused": REFUSED,
        "addresses": bool(permit(request, "administer")),
    }
    return show(request, "console/audit.html", context)


@page()
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """`form` is `ndjson` or `csv`. Addresses are for administrators alone."""
    wanted = wanted_audit(request.GET, read_preferences(request).tzinfo)
    if wanted.faults:
        return refuse(request, 404, {"what": next(iter(wanted.faults.values()))})
    addresses = bool(permit(request, "administer"))
    items: Any = export_items(export_rows(wanted.audit, before=wanted.before), addresses=addresses)
    made = file_of("audit", form, items, export_names(addresses=addresses))
    return made or refuse(request, 404, {"what": form})
