#!/usr/bin/env python
"""Django's command line for the coordinator and the console."""

import os
import sys

# Commands that change the schema or read all of it take longer than a request may.
UNHURRIED = frozenset({"migrate", "flush", "dumpdata", "loaddata", "dbshell", "shell", "prune", "after_restore"})


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    if UNHURRIED.intersection(sys.argv[1:2]):
        os.environ.setdefault("TENURE_DB_TIMEOUTS", "off")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django is not installed here. Run `make run`, or `pip install -r requirements/server.txt` first.")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
