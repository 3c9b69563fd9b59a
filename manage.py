#!/usr/bin/env python
"""Django's command line for the coordinator and the console."""

import os
import sys

# Commands that change the schema or read all of it take longer than a request may.
UNHURRIED = frozenset(
    {"migrate", "flush", "dumpdata", "loaddata", "dbshell", "shell", "prune", "after_restore"}
)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    if UNHURRIED.intersection(sys.argv[1:2]):
        os.environ.setdefault("TENURE_DB_TIMEOUTS", "off")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit(
            "error: Django is not installed here. Run `make run`, or `pip install -r requirements/server.txt`."
        )
    from django.core.exceptions import ImproperlyConfigured

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
