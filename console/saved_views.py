"""Saved views as pages show them: what each means, who may change it, how many tasks it finds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from console.filters import Wanted
from console.listings import wanted_of
from console.people import Permit, permit
from coordinator.selectors.saved_views import ViewRecord, count_filters, list_views

#: Views that stand above the list of tasks; their own page has all of them.
SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class View:
    """`count` is None where it was not asked for, or could not be counted in time."""

    record: ViewRecord
    wanted: Wanted
    count: int | None = None

    @property
    def link(self) -> str:
        return self.wanted.link()


def read_views(*, shown: int | None = None, counted: bool = False) -> list[View]:
    records = list_views()[:shown]
    views = [View(record, wanted_of(QueryDict(record.query))) for record in records]
    if not counted:
        return views
    counts = count_filters(
        {str(each.record.view_id): each.wanted.tasks for each in _understood(views)}
    )
    return [View(each.record, each.wanted, counts.get(str(each.record.view_id))) for each in views]


def _understood(views: Iterable[View]) -> Iterable[View]:
    """A view may have been saved by a console that knew other words."""
    return (each for each in views if each.wanted.is_understood)


def permit_change(request: HttpRequest, record: ViewRecord) -> Permit:
    if record.made_by == request.user.pk or permit(request, "administer"):
        return Permit(True)
    told = _("%(who)s made this view: they and administrators may change it.")
    return Permit(False, told % {"who": record.made_by_name})
