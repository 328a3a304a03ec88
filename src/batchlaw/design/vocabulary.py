"""The words that describe a case, defined once for the command line, sweeps and the page.

``SECTIONS`` has every word with its type, meaning and default. Names of schedules, procedures
and update rules come from their registries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batchlaw._base.words import CHOICE, COUNT, FLAG, REAL, TEXT, Word
from batchlaw.batches.allocation import FAMILIES, METHODS
from batchlaw.design.case import REPETITIONS, SEED
from batchlaw.model.problem import KINDS
from batchlaw.risk.procedure import PROCEDURES, procedure_words
from batchlaw.risk.procedures import OnePass
from batchlaw.schedule.optimizers import optimizer_word, rule_words
from batchlaw.schedule.registry import RATE_PARAMETERS, RATE_SCHEDULES, parameter_help

# Problems with random draws, and all named ones.
DRAWN = ("paper", "power-law")
PROBLEMS = (*DRAWN, *KINDS)
# Named batch schedules.
BATCHES = (*FAMILIES, *METHODS)
EXACT, SIMULATED = SOLVERS = ("exact", "simulated")
# Library arguments whose word or option has another name.
FIELDS = {
    "peak": "gamma",
    "sketch": "m",
    "dim": "d",
    "kind": "problem",
    "over": "quantiles",
    "rule": "optimizer",
    "block": "dataset",
}
DEFAULTS: dict[str, Any] = {
    "problem": "paper",
    "d": 10_000,
    "m": 64,
    "a": 2.0,
    "b": 1.5,
    "sigma": 1.0,
    "seed": 123,
    "rates": "wsd",
    "steps": 64,
    "gamma": 0.05,
    "mean_batch": 8,
    "procedure": OnePass.name,
    "repetitions": REPETITIONS,
    "data_seed": SEED,
}


def problem_words(default: str = "", files: bool = True) -> tuple[Word, ...]:
    """The regression problem; ``default`` says which, and ``files`` whether it may be a file."""
    given = DEFAULTS
    file = "or a CSV file with columns eigenvalue, energy and, if some stand for many, multiplicity"
    sketch = "what a Gaussian sketch gives on average)" + (f", {file}" if files else "")
    return (
        Word(
            "problem",
            TEXT,
            "paper (its instance), power-law (fresh draws), truncation or sketch (a power law of "
            f"any size without draws: its leading m directions, or {sketch}; "
            f"{default or given['problem']} by default.",
            PROBLEMS,
        ),
        Word("d", COUNT, f"Ambient dimension of the draws; {given['d']} by default.", low=1),
        Word(
            "m",
            REAL,
            f'Sketch dimension M, {given["m"]} by default; "inf" for truncation and sketch '
            "without limit.",
            low=1,
        ),
        Word("a", REAL, f"Spectrum exponent: eigenvalues i^-a; {given['a']:g} by default.", low=1),
        Word(
            "b", REAL, f"Source exponent: target energies i^-b; {given['b']:g} by default.", low=1
        ),
        Word(
            "sigma",
            REAL,
            f"Standard deviation of the label noise; {given['sigma']:g} by default.",
            low=0,
        ),
        Word("seed", COUNT, f"Of the draws; {given['seed']} by default.", low=0),
        Word("prior", FLAG, "Average over the target's prior instead of drawing a target."),
    )


def rate_words(names: tuple[str, ...] = ()) -> tuple[Word, ...]:
    """The learning-rate schedule: which of ``names``, how long, how high, and its parameters."""
    names = names or tuple(RATE_SCHEDULES)
    return (
        Word(
            "rates",
            TEXT,
            f"{', '.join(names)}, or a CSV file with a column rate, one row per step; "
            f"{DEFAULTS['rates']} by default.",
            names,
        ),
        Word("steps", COUNT, f"Updates T (or L); {DEFAULTS['steps']} by default.", low=1),
        Word("gamma", REAL, f"Peak rate; {DEFAULTS['gamma']:g} by default.", low=0),
        *(
            Word(w.name, w.kind, parameter_help(w, names), w.choices, w.low, w.high)
            for w in RATE_PARAMETERS.values()
        ),
    )


def batch_words() -> tuple[Word, ...]:
    """The batch-size schedules."""
    return (
        Word(
            "batches",
            TEXT,
            f"Any of {', '.join(FAMILIES)} (with the paper's rounding; oracle follows the square "
            "root of the exact influence), greedy (the best whole batches by influence), "
            "continuous (the best real ones), or CSV files with a column batch, one row per step; "
            "separated by commas.",
            BATCHES,
        ),
        Word(
            "budget",
            COUNT,
            f"Sum of the batch sizes of the named schedules; {DEFAULTS['mean_batch']} per update "
            "by default.",
            low=1,
        ),
        Word("mean_batch", COUNT, "The same as a mean over the updates.", low=1),
    )


def solver_words() -> tuple[Word, ...]:
    """The procedure, and how its risk is computed."""
    names = tuple(PROCEDURES)
    return (
        Word(
            "procedure",
            CHOICE,
            f"What is run: {', '.join(names)}; {DEFAULTS['procedure']} by default. one-pass is "
            "exact; multi-pass and gd are expectations over datasets, an approximation that says "
            "how good it is; reshuffled is simulated.",
            names,
        ),
        *procedure_words().values(),
        optimizer_word(),
        *rule_words().values(),
        Word(
            "solver",
            CHOICE,
            "exact (without Monte Carlo, the default where the procedure has it) or simulated.",
            SOLVERS,
        ),
        Word(
            "repetitions", COUNT, f"Of a simulation; {DEFAULTS['repetitions']} by default.", low=3
        ),
        Word(
            "data_seed",
            COUNT,
            f"Of a simulation's data; {DEFAULTS['data_seed']} by default.",
            low=0,
        ),
    )


SECTIONS: dict[str, Callable[[], tuple[Word, ...]]] = {
    "problem": problem_words,
    "rates": rate_words,
    "batches": batch_words,
    "solver": solver_words,
}
