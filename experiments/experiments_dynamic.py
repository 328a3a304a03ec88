"""The paper's own command (appendix L): a door to ``batchlaw reproduce``."""

import os
import sys
from pathlib import Path


def run() -> int:
    root = Path(__file__).resolve().parent.parent
    environment = root / ".venv"
    try:
        from batchlaw.faces.cli import main
    except ModuleNotFoundError as error:
        python = environment / "bin" / "python"
        if Path(sys.prefix) == environment or not python.exists():
            print(
                f"experiments_dynamic: {error.name} is not installed here: "
                f"run 'make setup' in {root}",
                file=sys.stderr,
            )
            return 2
        os.execv(python, [str(python), *sys.argv])
    return main(["reproduce", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(run())
