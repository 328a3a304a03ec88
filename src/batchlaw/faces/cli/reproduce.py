"""``batchlaw reproduce``: the paper's experiments, files and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CoercionError, Parameter, Token

from batchlaw._base import checks
from batchlaw._base.files import OutputDirectory
from batchlaw._base.machine import cores
from batchlaw.evidence.paper.experiment import GRAD_BUDGETS, ONE_PASS_N, Experiment
from batchlaw.evidence.paper.reported import ENOUGH, LIMIT, PAPER_REPETITIONS, Figure
from batchlaw.evidence.paper.run import FIGURE, Results, prepare, run, write
from batchlaw.faces.cli.inputs import Whole
from batchlaw.faces.cli.progress import left_to_do, progress_bars
from batchlaw.faces.cli.table import text_table
from batchlaw.jobs.store import Store
from batchlaw.jobs.workers import worker_processes

STORE = "paper.sqlite"


def _budgets(_: type, tokens: list[Token]) -> tuple[int, ...]:
    """Whole numbers separated by commas: 96,128,..."""
    if len(tokens) > 1:
        raise CoercionError(msg="it must be given once, its numbers separated by commas")
    (token,) = tokens
    try:
        return tuple(int(part) for part in token.value.split(","))
    except ValueError:
        message = f"it must be whole numbers separated by commas, got {token.value!r}"
        raise CoercionError(msg=message, token=token) from None


Budgets = Annotated[
    tuple[int, ...],
    Parameter(
        converter=_budgets,
        n_tokens=1,
        negative=(),
        show_default=lambda values: ",".join(map(str, values)),
    ),
]


def reproduce(
    *,
    output_dir: Path = Path("results/paper"),
    d: Whole = Experiment.d,
    m: Whole = Experiment.m,
    n: Whole = Experiment.n,
    t: Whole = Experiment.t,
    l: Whole = Experiment.l,  # noqa: E741 - the paper's letter
    reps: Whole = Experiment.reps,
    seed: Whole = Experiment.seed,
    a: float = Experiment.a,
    b: float = Experiment.b,
    gamma: float = Experiment.gamma,
    sigma: float = Experiment.sigma,
    one_pass_n_values: Budgets = ONE_PASS_N,
    multipass_grad_budget_values: Budgets = GRAD_BUDGETS,
    grad_budget: Whole | None = None,
    workers: Whole | None = None,
) -> int:
    """Run the paper's four experiments, write their files and figure, compare the figures.

    Also writes paper.sqlite (the measured cells): run the same command again to resume after an
    interrupt. The exit code is 1 if a figure does not agree. The budgets n and grad-budget are
    included in the sweeps.

    Parameters
    ----------
    output_dir
        Directory for the files; created if missing.
    d
        Ambient dimension.
    m
        Sketch dimension M.
    n
        Dataset size N.
    t
        Updates T of one-pass SGD.
    l
        Updates L of multi-pass SGD.
    reps
        Repetitions, each with fresh data.
    seed
        Seed of the problem instance and of the data.
    a
        Spectrum exponent: eigenvalues i^-a.
    b
        Source exponent: target energies i^-b.
    gamma
        Peak learning rate.
    sigma
        Standard deviation of the label noise.
    one_pass_n_values
        Sample budgets of experiment 1, separated by commas.
    multipass_grad_budget_values
        Gradient budgets of experiment 2, separated by commas.
    grad_budget
        Gradient budget of experiment 4 and of the multi-pass half of experiment 3; l n / t by
        default.
    workers
        Number of single-threaded processes; one per core by default. Results do not depend on
        it.
    """
    experiment = Experiment(
        d=d,
        m=m,
        n=n,
        t=t,
        l=l,
        reps=reps,
        seed=seed,
        a=a,
        b=b,
        gamma=gamma,
        sigma=sigma,
        one_pass_n_values=one_pass_n_values,
        multipass_grad_budget_values=multipass_grad_budget_values,
        grad_budget=grad_budget,
    )
    count = cores() if workers is None else checks.count("workers", workers)
    output = OutputDirectory(output_dir)
    prepared = prepare(experiment)
    with Store(output_dir / STORE) as store:
        todo = left_to_do(store, prepared.cells, "cells")
        with worker_processes(count) as processes, progress_bars() as stage:
            advance = stage("cells of the sweeps", todo) if stage else None
            results = run(prepared, store, processes, advance=advance)
    written = write(results, output)
    print(_report(results))
    print(f"\n{len(written)} files in {output_dir}; figure: {output_dir / f'{FIGURE}.png'}")
    return 1 if any(figure.agrees is False for figure in results.figures) else 0


def _report(results: Results) -> str:
    experiment = results.experiment
    lines = [
        f"sketched regression, d = {experiment.d}, M = {experiment.m}, N = {experiment.n}, "
        f"T = {experiment.t}, L = {experiment.l}; {experiment.reps} repetitions, "
        f"seed {experiment.seed}",
        "",
        text_table(
            ("figure", "reference", "", "ours", "s.e.", "apart", "agrees"),
            [_row(figure) for figure in results.figures],
        ),
    ]
    judged = [figure for figure in results.figures if figure.agrees is not None]
    agree = sum(bool(figure.agrees) for figure in judged)
    lines += [
        "",
        f"{agree} of {len(judged)} figures agree (measured: within {LIMIT:g} joint s.e.; the "
        f"paper's own has {PAPER_REPETITIONS} repetitions)",
    ]
    if len(judged) < len(results.figures):
        lines.append(f"measured figures need {ENOUGH} repetitions or more to be judged")
    lines += [f"note on one pass: {note}" for note in results.one_pass.exact.notes]
    lines += [f"note on the mean field: {note}" for note in results.multi_pass.exact.notes]
    if changed := experiment.differs_from_paper():
        lines.append(f"not the paper's setting, so its figures are left out: {', '.join(changed)}")
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    whole = isinstance(figure.reference, int)
    digits = "d" if whole else ".3f" if figure.source == "paper" else ".5f"
    return (
        figure.name,
        figure.source,
        format(figure.reference, digits),
        format(figure.ours, "d" if whole else ".5f"),
        "" if figure.standard_error is None else f"{figure.standard_error:.3f}",
        "" if figure.distance is None else f"{figure.distance:.1f} s.e.",
        {True: "yes", False: "NO", None: "-"}[figure.agrees],
    )
