"""``python -m batchlaw``."""

import sys

from batchlaw.cli import main

sys.exit(main())
