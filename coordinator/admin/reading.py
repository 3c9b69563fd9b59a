"""A table that is only looked at: in the order of its key, found by what is indexed, and never counted to its end."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import orjson
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from coordinator.secrets import mask_text, mask_value
from coordinator.selectors.downstreams import secret_pointers

if TYPE_CHECKING:
    AnyAdmin: TypeAlias = admin.ModelAdmin[Any]
    AnyPaginator: TypeAlias = Paginator[Any]
else:  # Django's own classes take no parameters when they run
    AnyAdmin, AnyPaginator = admin.ModelAdmin, Paginator

#: Lists go no further: what is older is found by its key, or in the console.
MAX_LISTED: Final = 10_000
PER_PAGE: Final = 50


class BoundedPaginator(AnyPaginator):
    """Counts to MAX_LISTED: the number of millions of rows would cost more than it tells."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return len(rows.values_list("pk")[:MAX_LISTED])


class ReadOnly(AnyAdmin):
    """Services write these tables (contract 16); here nobody adds, changes or deletes a row, whatever a form says."""

    #: Exact words of these columns are found, besides the key; each has an index, or its table is small.
    found_by: ClassVar[tuple[str, ...]] = ()
    #: Shown only to who may see payloads (contract 15).
    payloads: ClassVar[tuple[str, ...]] = ()
    #: Shown to nobody.
    secrets: ClassVar[tuple[str, ...]] = ()
    search_fields = ("pk",)  # opens the search; `get_search_results` is what searches
    paginator = BoundedPaginator
    list_per_page = PER_PAGE
    show_full_result_count = False
    actions_on_bottom = False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.admin_site.has_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Nothing: Django filters by any column that an address names, and so tells what no page shows.

        It would also scan millions of rows by a pattern of the caller's.
        """
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = set(self.secrets)
        if not request.user.has_perm("coordinator.view_payload"):
            hidden |= set(self.payloads)
        names = [field.name for field in self.opts.concrete_fields if field.name not in hidden]
        return [masked_column(name) if name in self.payloads else name for name in names]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Rows whose key, or one of `found_by`, is exactly this word: index look-ups, never a scan of the text."""
        word = search_term.strip()
        if not word:
            return queryset, False
        chosen = Q(pk__in=[])
        for name in ("pk", *self.found_by):
            value = _as_value(self.model, name, word)
            if value is not None:
                chosen |= Q(**{name: value})
        return queryset.filter(chosen), False


@cache
def masked_column(name: str) -> Callable[[Any], str]:
    """A payload's column as it is shown: its secrets masked, as on every page of the console."""

    @admin.display(description=name.replace("_", " "))
    def shown(row: Any) -> str:
        value = getattr(row, name)
        if not value:
            return ""
        if isinstance(value, str):
            places = secret_pointers(row.downstream) if hasattr(row, "downstream") else ()
            return mask_text(value, places).text
        return orjson.dumps(mask_value(value)[0], default=str).decode()

    shown.__name__ = name  # what Django names the field's element by
    return shown


def _as_value(model: type[models.Model], name: str, word: str) -> Any:
    """The word as a value of that column; None where it can't be one."""
    field: Any = model._meta.pk if name == "pk" else _field(model, name)
    field = getattr(field, "target_field", field)
    try:
        value = field.to_python(word)
        field.run_validators(value)
    except (ValidationError, ValueError):
        return None
    if "\x00" in word:
        return None
    return value


def _field(model: type[models.Model], path: str) -> Any:
    first, _, rest = path.partition("__")
    field: Any = model._meta.get_field(first)
    return _field(field.related_model, rest) if rest else field
