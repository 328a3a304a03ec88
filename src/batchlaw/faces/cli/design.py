"""``batchlaw design``: short runs to make next, from the law so far or from none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.design.by_words import budget_by_words, rates_by_words, word
from batchlaw.design.logs_by_words import PATH
from batchlaw.design.next_runs import MOST, NextRuns, RunSet, next_runs
from batchlaw.design.short_runs import ShortRun
from batchlaw.design.vocabulary import rate_words
from batchlaw.faces.cli.inputs import Options, Whole, option_class
from batchlaw.faces.cli.law_file import read_law
from batchlaw.faces.cli.table import text_table
from batchlaw.schedule.optimizers import optimizer_word, rule_by_words, rule_words
from batchlaw.schedule.registry import RATE_SCHEDULES
from batchlaw.schedule.update_rule import UpdateRule

TARGET = {"steps": "Updates T of the target run.", "gamma": "Peak rate of the target run."}

if TYPE_CHECKING:
    TargetRates: TypeAlias = Options
    RuleOptions: TypeAlias = Options
else:
    TargetRates = option_class(
        "TargetRates", tuple(replace(w, help=TARGET.get(w.name, w.help)) for w in rate_words())
    )
    RuleOptions = option_class(
        "RuleOptions", (optimizer_word("the law's, and named without one"), *rule_words().values())
    )


def design(
    *,
    law: Path | None = None,
    rates: TargetRates = TargetRates(),  # noqa: B008 - frozen
    rule: RuleOptions = RuleOptions(),  # noqa: B008
    budget: Whole | None = None,
    mean_batch: Whole | None = None,
    loss: float | None = None,
    error: float | None = None,
    most_runs: Whole = MOST,
    max_compute: float = 1.0,
    min_batch: Whole = 1,
    max_batch: Whole | None = None,
    multiple_of: Whole = 1,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    output_dir: Path | None = None,
) -> int:
    """Choose two to six short runs after which the value of a batch schedule is known best.

    The value is the difference in final loss between a batch schedule and the constant batch at the
    target run. Prints the best set for each number of runs with its cost and the standard deviation
    that is expected after it, and recommends one; an approximation.

    Parameters
    ----------
    law
        JSON file of the law so far; without it parameters are expected ones with wide spreads.
    budget
        Samples of the target run.
    mean_batch
        The same as a mean over its updates.
    loss
        Without a law: about the final loss of the target run; 3 by default.
    error
        Standard deviation of a run's losses around the law; by default what the law's runs show,
        or 0.3 % of the loss.
    most_runs
        The largest number of runs, up to 6.
    max_compute
        The most samples of all short runs together, as a share of the target run's.
    min_batch
        Smallest batch of a short run.
    max_batch
        Largest batch of a short run.
    multiple_of
        Every batch of a short run is a multiple of this.
    json_
        Print JSON instead of tables.
    output_dir
        Directory for a file with step, rate and batch of each recommended run, and for runs.csv,
        the list that ``fit --run-list`` reads once each run's log is beside it.
    """
    output = None if output_dir is None else OutputDirectory(output_dir)
    gamma = rates_by_words(_target(rates.words()))
    if budget is None and mean_batch is None:
        raise InputError("budget", f"must be given, or {arg('mean_batch')}")
    samples = budget_by_words({"budget": budget, "mean_batch": mean_batch}, gamma.size)
    found = next_runs(
        gamma,
        samples,
        law=None if law is None else read_law(law),
        rule=_rule(rule.words()),
        loss=loss,
        error=error,
        most_runs=most_runs,
        max_compute=max_compute,
        min_batch=min_batch,
        max_batch=max_batch,
        multiple_of=multiple_of,
    )
    if output is not None:
        with output.transaction() as files:
            named = _named(found.recommended)
            files.csv("runs.csv", [_to_log(name) for name in named])
            for name, run in named.items():
                files.csv(f"{name}.csv", _updates(run))
    if json_:
        print(json.dumps(_document(found, gamma.size, samples), indent=2))
        return 0
    print(_report(found, gamma.size, samples))
    if output_dir is not None:
        print(f"\nruns.csv and a file with step, rate and batch for each run in {output_dir}")
    return 0


def _to_log(name: str) -> dict[str, str]:
    """A row of the list of runs: where the log goes, and what was set."""
    return {PATH: f"{name}_log.csv", "rates": f"{name}.csv", "batch": f"{name}.csv"}


def _target(words: dict[str, Any]) -> dict[str, Any]:
    """The words of the target's rates, whose length and peak have no default."""
    if word(words, "rates") in RATE_SCHEDULES:
        for name in TARGET:
            if name not in words:
                raise InputError(name, "must be given: it is that of the target run")
    return words


def _rule(words: dict[str, Any]) -> UpdateRule | None:
    if words and "optimizer" not in words:
        raise InputError("rule", f"must be given with {arg(next(iter(words)))}")
    return rule_by_words(words) if words else None


def _named(chosen: RunSet) -> dict[str, ShortRun]:
    return {f"run_{k}": run for k, run in enumerate(chosen.runs, start=1)}


def _updates(run: ShortRun) -> list[dict[str, Any]]:
    pairs = zip(run.rates, run.batches, strict=True)
    return [
        {"step": t, "rate": rate, "batch": batch} for t, (rate, batch) in enumerate(pairs, start=1)
    ]


def _report(found: NextRuns, steps: int, samples: int) -> str:
    now, best = found.now, found.recommended
    expected = ", ".join(f"{name} {change:+.4f}" for name, change in found.differences.items())
    rows = [
        [
            f"{len(each.runs)}{' *' if each is best else ''}",
            f"{each.samples:.1%}",
            f"{each.updates:.1%}",
            f"{each.deviation:.4f}",
            f"{each.of_parameters:.4f}",
        ]
        for each in (now, *found.sets)
    ]
    runs = [
        [name, f"{run.steps}", f"{run.peak:g}", run.shape, run.batch, f"{run.samples}"]
        for name, run in _named(best).items()
    ]
    lines = [
        f"Recommended: {len(best.runs)} runs with {best.samples:.1%} of the target's samples. The "
        "standard deviation of a",
        f"schedule's difference to the constant batch falls from {now.deviation:.4f} to "
        f"{best.deviation:.4f} in final loss.",
        "",
        text_table(["run", "updates", "peak", "rates", "batch", "samples"], runs),
        "",
        f"The best set for each number of runs, for a target of {steps} updates and {samples} "
        "samples:",
        "",
        text_table(
            ["runs", "samples", "updates", "standard deviation", "of parameters alone"], rows
        ),
        "",
        f"Differences expected so far: {expected}",
        f"Errors around the law: {found.error:.4f} (standard deviation)",
        *(f"note: {note}" for note in found.notes),
    ]
    return "\n".join(lines)


def _document(found: NextRuns, steps: int, samples: int) -> dict[str, Any]:
    return {
        "target": {"steps": steps, "samples": samples},
        "now": _summary(found.now),
        "sets": [_summary(each) for each in found.sets],
        "recommended": len(found.recommended.runs),
        "differences": found.differences,
        "error": found.error,
        "notes": list(found.notes),
        "batchlaw": __version__,
    }


def _summary(each: RunSet) -> dict[str, Any]:
    return {
        "runs": [run.row(name) for name, run in _named(each).items()],
        "standard_deviation": each.deviation,
        "of_parameters": each.of_parameters,
        "samples": each.samples,
        "updates": each.updates,
    }
