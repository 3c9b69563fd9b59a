"""The adapters of the coordinator's own look-ups, named by TENURE_ADAPTERS."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from tenure.downstreams.base import Adapter
from tests.chaos.worker import adapter_of


def adapters() -> Mapping[str, Adapter]:
    urls = json.loads(os.environ["CHAOS_DOWNSTREAMS"])
    return {kind: adapter_of(kind, url) for kind, url in urls.items()}
