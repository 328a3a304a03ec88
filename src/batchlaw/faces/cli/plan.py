"""``batchlaw plan``: batch sizes for a run, what they buy, and something to paste."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.files import OutputDirectory
from batchlaw.design.choices import refuse
from batchlaw.faces.cli.inputs import EXPONENTS, Flag, ProblemOptions, RateOptions, Whole
from batchlaw.faces.cli.table import sparkline, text_table
from batchlaw.plans.plan import Plan, samples_of_budget
from batchlaw._base.files import read_schedule
from batchlaw.plans.planner import PowerLaw, Spectrum
from batchlaw.plans.planner import plan as make_plan
from batchlaw.plans.trainers import TRAINERS, export

SAYS = {
    "noise_against_constant": "noise left in the final risk, against a constant batch",
    "exact_variance_against_constant": "exact one-pass variance, against a constant batch",
    "noise_against_oracle": "the same noise, against the oracle without constraints",
    "no_such_schedule_is_below": "no schedule under these constraints can be below",
    "worst_noise_against_constant": "at worst over the exponents, against a constant batch",
    "worst_ratio_over_exponents": "at worst over the exponents, against the oracle that knows it",
    "effective_batch": "effective batch",
    "constant_batch": "constant batch of the same sum",
    "boundary_loss": "what fewer candidate boundaries can have lost, relative",
}

# Options that functions name with an underscore.
ARGUMENTS = (
    "sequence_length",
    "min_batch",
    "max_batch",
    "multiple_of",
    "data_parallel",
    "micro_batch",
    "dataset_size",
)

FORMAT_HELP = f"Print this instead of the table: {', '.join(TRAINERS)}."
_FACTORS = [
    f"{each.batch_factor} for the format {name}"
    for name, each in TRAINERS.items()
    if each.batch_factor
]
FACTOR_HELP = f"Stages differ by powers of this; {', '.join(_FACTORS)}."


def plan(
    *,
    rates: RateOptions = RateOptions(),  # noqa: B008 - frozen
    problem: ProblemOptions = ProblemOptions(),  # noqa: B008
    exponent: str | None = None,
    scale: float | None = None,
    noise: str | None = None,
    budget: Whole | None = None,
    tokens: Whole | None = None,
    sequence_length: Whole | None = None,
    stages: Whole = 8,
    min_batch: Whole = 1,
    max_batch: Whole | None = None,
    multiple_of: Whole | None = None,
    factor: Annotated[Whole | None, Parameter(help=FACTOR_HELP)] = None,
    data_parallel: Whole | None = None,
    micro_batch: Whole | None = None,
    sampling: Literal["one-pass", "independent-batches", "reshuffled-epochs"] = "one-pass",
    dataset_size: Whole | None = None,
    replacement: Flag = False,
    momentum: float = 0.0,
    nesterov: Flag = False,
    pytorch: Flag = False,
    format_: Annotated[str | None, Parameter(name="--format", help=FORMAT_HELP)] = None,
    output_dir: Path | None = None,
) -> int:
    """Plan the batch sizes of a run: which updates deserve the samples, and what that buys.

    Parameters
    ----------
    exponent
        Of an unknown power-law spectrum: one number, or a range LOW:HIGH to be safe for;
        1.2:3 by default.
    scale
        Trace of that spectrum in the units of the rates; 1/2 over the peak rate by default.
    noise
        CSV file with a column noise: the gradient noise of every step, up to a factor; or
        "model", with a problem: its label noise and bias along the run.
    budget
        Samples to be spent.
    tokens
        The same in tokens, with sequence-length of them a sample.
    sequence_length
        Tokens of one sample.
    stages
        At most so many constant stages.
    min_batch
        Smallest batch, in samples.
    max_batch
        Largest batch.
    multiple_of
        Every batch is a multiple of this; data-parallel times micro-batch by default.
    data_parallel
        Data-parallel size of the trainer.
    micro_batch
        Samples of one micro-batch on one rank.
    sampling
        How samples are drawn where a dataset is used more than once.
    dataset_size
        Samples of that dataset.
    replacement
        Independent batches are drawn with replacement.
    momentum
        beta of SGD, for one pass and a problem.
    nesterov
        Nesterov's momentum instead of heavy ball.
    pytorch
        The velocity is multiplied by the current rate, as in torch.optim.SGD.
    output_dir
        Directory for plan.json, plan.csv and plan.png.
    """
    if format_ is not None:
        checks.choice("format", format_, TRAINERS)
        factor = TRAINERS[format_].batch_factor if factor is None else factor
    gamma = rates.build()
    spectrum = _spectrum(problem, exponent, scale)
    if budget is None and tokens is None:
        raise ValueError(
            "a budget must be given: --budget SAMPLES, or --tokens N with --sequence-length N"
        )
    levels = noise if noise in (None, "model") else read_schedule(Path(noise), "noise")
    unit = _unit(multiple_of, data_parallel, micro_batch)
    rule: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov, "pytorch": pytorch}
    inputs = {
        "rates": asdict(rates),
        "problem": {k: str(v) if v == math.inf else v for k, v in asdict(problem).items()},
        "exponent": exponent,
        "scale": scale,
        "sampling": sampling,
        "dataset_size": dataset_size,
        "noise": None if noise is None else Path(noise).name,
        "replacement": replacement,
        **rule,
    }
    with _options_named():
        samples = samples_of_budget(budget, tokens, sequence_length)
        made = make_plan(
            gamma,
            samples if tokens is None else tokens,
            spectrum=spectrum,
            noise=levels,
            stages=stages,
            min_batch=min_batch,
            max_batch=max_batch,
            multiple_of=unit,
            factor=factor,
            unit="samples" if tokens is None else "tokens",
            sequence_length=sequence_length,
            sampling=sampling.replace("-", " "),
            dataset_size=dataset_size,
            replacement=replacement,
            **rule,
            inputs=inputs,
            seed=None if problem.problem is None else problem.used_seed,
        )
    if output_dir is not None:
        _write(OutputDirectory(output_dir), made)
    if format_ is not None:
        _print_export(made, format_, sequence_length, data_parallel, micro_batch)
        return 0
    print(_report(made))
    if output_dir is not None:
        print(f"\nplan.json, plan.csv and plan.png in {output_dir}")
    return 0


@contextmanager
def _options_named() -> Iterator[None]:
    """Errors that name an argument of a function name the option instead."""
    try:
        yield
    except ValueError as error:
        said = re.sub(
            rf"\b({'|'.join(ARGUMENTS)})\b",
            lambda found: "--" + found[0].replace("_", "-"),
            str(error),
        )
        raise ValueError(said) from None


def _print_export(
    made: Plan,
    format_: str,
    sequence_length: int | None,
    data_parallel: int | None,
    micro_batch: int | None,
) -> None:
    with _options_named():
        written = export(
            made,
            format_,
            sequence_length=sequence_length,
            data_parallel=data_parallel,
            micro_batch=micro_batch,
        )
    print(written.text, end="")
    if written.warning:
        print(f"batchlaw: {written.warning}", file=sys.stderr)


def _spectrum(problem: ProblemOptions, exponent: str | None, scale: float | None) -> Spectrum:
    if problem.problem is not None:
        if exponent is not None or scale is not None:
            raise ValueError("exponent and scale describe an unknown spectrum, not a problem's")
        return problem.build()
    refuse(problem, "a plan without --problem", "d", "m", "a", "b", "sigma", "seed")
    if problem.prior:
        raise ValueError("a plan without --problem has no use for --prior")
    low, colon, high = (exponent or EXPONENTS).partition(":")
    first = checks.real("exponent", low, above=1.0)
    if not colon:
        return PowerLaw(first, scale)
    return PowerLaw((first, checks.real("exponent", high, above=first)), scale)


def _unit(multiple_of: int | None, data_parallel: int | None, micro_batch: int | None) -> int:
    """What every batch is a multiple of; a multiple that the trainer can't use is refused."""
    needed = math.prod(
        checks.count(name, value)
        for name, value in (("data-parallel", data_parallel), ("micro-batch", micro_batch))
        if value is not None
    )
    if multiple_of is None:
        return needed
    if multiple_of % needed:
        raise ValueError(
            f"multiple-of must be a multiple of data-parallel x micro-batch = {needed}, "
            f"got {multiple_of}"
        )
    return multiple_of


def _report(made: Plan) -> str:
    length = made.sequence_length if made.unit == "tokens" else 1
    rows = [
        (
            f"{row['first']} to {row['last']}",
            f"{row['batch']}",
            f"{row['before'] * (length or 1)}",
            f"{100 * row['batch'] * (row['last'] + 1 - row['first']) / made.samples:.1f} %",
        )
        for row in made.stage_table()
    ]
    wide = sys.stdout.encoding.lower().startswith("utf")
    lines = [
        f"{made.steps} steps, {made.spent} of {made.budget} {made.unit}",
        "",
        text_table(("steps", "batch, samples", f"{made.unit} before", "of the run"), rows),
        "",
        f"rate   {sparkline(made.rates, wide)}",
        f"batch  {sparkline(made.batches.astype(float), wide)}",
        "",
    ]
    lines += [
        f"{text}: {made.prediction[name]:.6g}"
        for name, text in SAYS.items()
        if name in made.prediction and (name != "boundary_loss" or made.prediction[name] > 0.0)
    ]
    return "\n".join([*lines, "", *(f"assumed: {text}" for text in made.assumptions)])


def _write(output: OutputDirectory, made: Plan) -> None:
    from batchlaw import plots

    with output.transaction() as files:
        files.path("plan.json").write_text(made.to_json())
        files.csv("plan.csv", made.step_table())
        plots.save(plots.plan_figure(made.rates, made.batches), files.path("plan.png"))
