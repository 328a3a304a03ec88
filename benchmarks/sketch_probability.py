"""How often a drawn sketch breaks mu_j ~ j^-a, by M: the numbers of docs/reuse.md.

.venv/bin/python benchmarks/sketch_probability.py
"""

from __future__ import annotations

import numpy as np

from batchlaw.evidence.claims.sketch_probability import (
    SIDES,
    SKETCHES,
    bad_sketches,
    exponent_of_decay,
)

DRAWS = 20_000


def main() -> None:
    print("| a | side | constant | q | " + " | ".join(f"M = {m}" for m in SKETCHES) + " |")
    print("| ---: | --- |" + " ---: |" * (2 + SKETCHES.size))
    for a in (1.5, 2.0, 3.0):
        for side, (limit, bad, total) in bad_sketches(a, tuple(SIDES), DRAWS).items():
            q, error = exponent_of_decay(SKETCHES, bad, total)
            power = f"{q:.2f} ± {error:.2f}" if np.isfinite(error) else "none"
            cells = " | ".join(f"{f:.2g}" for f in bad / np.maximum(total, 1))
            print(f"| {a:g} | {side} | {limit:.3f} | {power} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
