"""Plans for AdamW over the range of problems, and what they are worth on problems outside it.

    python benchmarks/robust_plans.py [--steps 800 4000] [--stages 5]

First table: what is recommended for three shapes of the rates and two values of beta2, and the
excess over a constant batch's of the plan and of rules that people use, over the range's cases.
Second table: on a grid of problems that are not the range's own points, how often the answer is
a constant batch, what the plan is worth there, and how much better the best schedule of each
problem alone would be: the regret of the plan and of always answering "constant".
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import batchlaw as bl
from batchlaw.batches.limits import Limits
from batchlaw.design.plan_cases import SCORE_ROWS, Grid
from batchlaw.design.robust_plan import PlanSearch, robust_plan
from batchlaw.design.rule_scores import score_rules

MEAN_BATCH = 8
BETA2 = (0.999, 0.95)
WEIGHT_DECAY = 0.01
SHAPES = {
    "wsd": lambda steps: bl.wsd(steps, 1.0),
    "wsd-linear": lambda steps: bl.wsd(steps, 1.0, stable=0.8, decay="linear"),
    "cosine": lambda steps: bl.cosine(steps, 1.0, warmup=0.1),
}
# Between the points of the range, and beyond it on both sides.
ELSEWHERE = Grid((1.15, 1.35, 1.75, 2.5), (1.2, 1.5, 2.0), (0.1, 1.0, 10.0), (0.35, 0.7, 1.4))


def summary(ratios: np.ndarray) -> str:
    worse = int((ratios > 1.0).sum())
    low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
    return f"{low:.3f} {middle:.3f} {high:.3f}, worse in {worse} of {ratios.size}"


def stages_of(batches: np.ndarray) -> str:
    ends = np.append(np.flatnonzero(np.diff(batches)) + 1, batches.size)
    return ", ".join(f"{batches[end - 1]} to {end}" for end in ends)


def report(name: str, steps: int, beta2: float, stages: int) -> None:
    rates, budget, limits = SHAPES[name](steps), MEAN_BATCH * steps, Limits(stages=stages)
    rule = bl.adam(0.9, beta2, weight_decay=WEIGHT_DECAY)
    start = time.perf_counter()
    plan = robust_plan(rates, budget, rule, limits)
    seconds = time.perf_counter() - start
    answer = "recommended" if plan.recommended else "constant"
    print(f"{steps} steps, {name}, beta2 {beta2:g}: {answer} ({seconds:.1f} s): {plan.standard}")
    print(f"  batches: {stages_of(plan.batches)}")
    print("  excess over constant's in the range: smallest, median, largest")
    print(f"    {'the plan':28} {steps:6} steps  {summary(plan.ratios)}")
    for rule_name, scored in score_rules(rates, plan.constant, rule).items():
        print(f"    {rule_name:28} {scored.steps:6} steps  {summary(scored.ratios)}")
    regret = np.quantile(plan.regret, [0.5, 1.0]), np.quantile(plan.constant_regret, [0.5, 1.0])
    print("  log regret, median and largest: plan {:.3f} {:.3f}".format(*regret[0])
          + ", constant {:.3f} {:.3f}".format(*regret[1]))  # fmt: skip
    search = PlanSearch(rates, budget, rule, limits, ELSEWHERE)
    search.prepare()
    (elsewhere,) = search.cases.on_rows(SCORE_ROWS).ratios([plan.batches], plan.constant)
    constant = search.constant_logs - search.best_logs
    after = constant + np.log(elsewhere)
    print(f"  on {constant.size} problems elsewhere: {summary(elsewhere)}")
    print(f"    log regret, mean: plan {after.mean():.3f}, constant {constant.mean():.3f}")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[800, 4000])
    parser.add_argument("--stages", type=int, default=5)
    options = parser.parse_args()
    for steps in options.steps:
        for name in SHAPES:
            for beta2 in BETA2:
                report(name, steps, beta2, options.stages)


if __name__ == "__main__":
    main()
