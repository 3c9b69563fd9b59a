"""The adapters that the coordinator itself looks effects up with: an operator's code, named by TENURE_ADAPTERS.

`package.module:name` is a mapping from downstream to adapter, or a function without parameters that returns one.
The coordinator asks no host that doesn't stand in it.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tenure.downstreams.base import Adapter


@cache
def registered_adapters() -> Mapping[str, Adapter]:
    """What TENURE_ADAPTERS names; empty where it isn't set. Raises ImproperlyConfigured for anything else."""
    named: str = settings.ADAPTERS
    if not named:
        return {}
    module, _, attribute = named.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ImproperlyConfigured(
            f"TENURE_ADAPTERS names {named!r}, which can't be imported ({error}). Write it as package.module:name."
        ) from error
    adapters = found() if callable(found) else found
    if not isinstance(adapters, Mapping) or not all(
        isinstance(each, Adapter) for each in adapters.values()
    ):
        raise ImproperlyConfigured(
            f"TENURE_ADAPTERS: {named!r} is no mapping from downstreams to adapters."
        )
    return adapters
