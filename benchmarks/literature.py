"""The laws of two other works beside what our exact risks give: the table of docs/literature.md.

python benchmarks/literature.py           # about a minute
python benchmarks/literature.py --quick   # seconds, shorter runs
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from batchlaw.verify.literature import tasks


@dataclass(frozen=True)
class Size:
    quick: bool
    longest: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="runs of 10^5 steps, not 10^6")
    quick = parser.parse_args().quick
    start = time.process_time()
    for task in tasks(Size(quick, 10**5 if quick else 10**6)):
        for check in task():
            found = check.judge()
            rejected = check.rejected().values()
            print(f"{check.where}\n  {check.case}\n  {check.claim}")
            print(
                f"    {found.measured:.4f} [{found.low:.4f}, {found.high:.4f}]: {found.verdict}; "
                f"{sum(rejected)} of {len(rejected)} wrong laws rejected"
            )
    print(f"{time.process_time() - start:.0f} s")


if __name__ == "__main__":
    main()
