"""`python -m tenure.cli`."""

import sys

from tenure.cli import main

sys.exit(main())
