"""``python -m batchlaw``."""

import sys

from batchlaw.faces.cli import main

sys.exit(main())
