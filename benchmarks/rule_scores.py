"""Rules that people use against constant batches, over the range of problems of plans.

    python benchmarks/rule_scores.py [--steps 800] [--optimizer adamw]

For three shapes of the rates, and for AdamW two values of beta2: the number of updates that each
rule makes of the same samples, and its excess over that of a constant batch with the given rates:
smallest, median and largest over the range's problems.
"""

from __future__ import annotations

import argparse

import numpy as np

import batchlaw as bl
from batchlaw.design.rule_scores import DIVERGED, score_rules

MEAN_BATCH = 8
SHAPES = {
    "wsd": lambda steps: bl.wsd(steps, 1.0),
    "wsd, linear": lambda steps: bl.wsd(steps, 1.0, stable=0.8, decay="linear"),
    "cosine": lambda steps: bl.cosine(steps, 1.0, warmup=0.1),
}
OPTIMIZERS = {
    "adamw": [bl.adam(0.9, beta2, weight_decay=0.01) for beta2 in (0.95, 0.999)],
    "sgd": [bl.sgd()],
    "momentum": [bl.sgd(momentum=0.9)],
}


def table(steps: int, rule: bl.UpdateRule) -> list[str]:
    scores = {
        name: score_rules(shape(steps), np.full(steps, MEAN_BATCH), rule)
        for name, shape in SHAPES.items()
    }
    columns = [column for name in scores for column in ("steps", name)]
    lines = [f"| rule | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    for rule_name in next(iter(scores.values())):
        cells = []
        for scored in (of_shape[rule_name] for of_shape in scores.values()):
            low, middle, high = np.quantile(scored.ratios, [0.0, 0.5, 1.0])
            cells += [f"{scored.steps}", f"{low:.2f} **{middle:.2f}** {_or_divergence(high)}"]
        lines.append(f"| {rule_name} | {' | '.join(cells)} |")
    return lines


def _or_divergence(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < DIVERGED else "diverges"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    options = parser.parse_args()
    for rule in OPTIMIZERS[options.optimizer]:
        print(rule)
        print("\n".join(table(options.steps, rule)), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
