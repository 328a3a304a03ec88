"""A procedure of your own: weight decay and sign descent, with standard errors.

    .venv/bin/python examples/own_procedure.py           # the table of docs/exact.md
    .venv/bin/python examples/own_procedure.py --quick   # fewer repetitions: seconds

Each procedure is a function that makes one update. It is run on the data and the batches of plain
SGD, in one pass and on a dataset that is reused, so its difference to plain SGD has a small error.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numba import njit

import batchlaw as bl
from batchlaw._base.uncertain import with_error
from batchlaw.design import paired_difference, simulate_procedure

STEPS, PEAK, BATCH, SAMPLES = 64, 0.05, 8, 128
DECAY = 0.2


def weight_decay(u, state, features, labels, rate, t):  # type: ignore[no-untyped-def]
    """SGD that also shrinks the iterate. Changes u in place."""
    gradient = features.T @ (features @ u - labels) / labels.size
    u -= rate * (gradient + DECAY * u)


@njit  # a compiled step runs without the interpreter, and so in threads
def sign_descent(u, velocity, features, labels, rate, t):  # type: ignore[no-untyped-def]
    """Signs of a smoothed gradient, at an eighth of the rate. ``memory=1`` holds the smoothing."""
    for j in range(u.size):
        velocity[0, j] *= 0.9
    for i in range(labels.size):
        residual = -labels[i]
        for j in range(u.size):
            residual += features[i, j] * u[j]
        for j in range(u.size):
            velocity[0, j] += 0.1 * residual * features[i, j] / labels.size
    for j in range(u.size):
        u[j] -= 0.125 * rate * np.sign(velocity[0, j])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    repetitions = 20 if parser.parse_args().quick else 1000

    problem = bl.Problem.paper()
    rates = bl.wsd(STEPS, PEAK)
    kappa = bl.influence(problem, rates)
    schedules = {
        "oracle": np.asarray(bl.allocate(kappa, BATCH * STEPS)),
        "constant": np.full(STEPS, BATCH),
    }
    procedures = {
        "plain SGD": (bl.sgd(), 0),
        "weight decay": (weight_decay, 0),
        "sign descent": (sign_descent, 1),
    }
    print("| data | procedure | batches | excess | minus plain SGD's | Var over constant's |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for data, samples in (("one pass", None), (f"{SAMPLES} samples, reused", SAMPLES)):
        options: dict[str, Any] = {"samples": samples, "repetitions": repetitions, "seed": 1}
        risks = {
            name: simulate_procedure(
                problem, rates, schedules, step, memory=memory, name=name, **options
            )
            for name, (step, memory) in procedures.items()
        }
        for name, risk in risks.items():
            difference, error = paired_difference(risk, risks["plain SGD"])
            for row, batches in enumerate(schedules):
                excess = with_error(risk.excess[row], risk.standard_error("excess")[row])
                change = with_error(difference[row], error[row])
                against = with_error(*risk.ratio("variance", row, 1))
                if row == 1:
                    against = "1"
                if name == "plain SGD":
                    change = ""
                print(f"| {data} | {name} | {batches} | {excess} | {change} | {against} |")


if __name__ == "__main__":
    main()
