"""Where the things are that tests read beside the package."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples"


def file_of(name: str) -> Path:
    """The test file of that name, in whichever room it stands."""
    (path,) = TESTS.rglob(name)
    return path
