"""``batchlaw worth``: where a batch schedule changes the risk at all, as a map over settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.design.run_length import MIN_STEPS
from batchlaw.design.schedule_worth import NODES, WorthMap, worth_map
from batchlaw.faces.cli.inputs import Whole, choice_of
from batchlaw.faces.cli.progress import progress_bars
from batchlaw.faces.cli.table import text_table, without_infinities
from batchlaw.model.problem import Problem
from batchlaw.schedule.registry import RATE_SCHEDULES
from batchlaw.schedule.update_rule import check_stable

# Falls of the excess that the table asks for.
GAINS = (0.01, 0.1)
EXPONENTS = "1.5:1.2,2:1.5,1.5:1.5,1.2:1.5,1.5:2.2,2:2.5"
SIGMAS = "0.3,1,3"
HORIZONS, BATCHES = "3:10000", "1:1024"
POINTS = 8
# Exact risks of this many updates take seconds each.
MAX_STEPS = 10**6

if TYPE_CHECKING:
    RateName: TypeAlias = str
else:
    RateName = choice_of(tuple(RATE_SCHEDULES))


def worth(
    *,
    exponents: str = EXPONENTS,
    sigma: str = SIGMAS,
    horizon: str = HORIZONS,
    batch: str = BATCHES,
    gamma: float = 0.1,
    m: float = 1e6,
    rates: RateName = "wsd",
    points: Whole = POINTS,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    output_dir: Path | None = None,
) -> int:
    """Map where a batch schedule is worth it: where the optimum changes the excess of one pass.

    For every spectrum, noise level and number of steps times rate it prints the largest mean batch
    at which the best schedule of the same samples, of real batches, lowers the excess by 1 % and by
    10 %. The excess is the risk above that of the best predictor of the sketched model. Risks are
    exact.

    Parameters
    ----------
    exponents
        Pairs A:B separated by commas: eigenvalues fall as i^-A, target energies as i^-B.
    sigma
        Standard deviations of the label noise, separated by commas.
    horizon
        Range LOW:HIGH of steps times rate.
    batch
        Range LOW:HIGH of mean batch sizes, in powers of two.
    gamma
        Peak rate.
    m
        Sketch dimension M; "inf" for no limit.
    rates
        Learning-rate schedule, with its default parameters.
    points
        Run lengths on the map.
    json_
        Print JSON instead of a table.
    output_dir
        Directory for worth.csv and worth.png.
    """
    gamma = checks.real("gamma", gamma, above=0.0)
    pairs = [_exponents(text, gamma, m) for text in exponents.split(",")]
    lengths = _lengths(horizon, gamma, checks.count("points", points, minimum=2))
    sizes = _sizes(batch)
    levels = [checks.real("sigma", text, at_least=0.0) for text in sigma.split(",")]
    output = None if output_dir is None else OutputDirectory(output_dir)
    with progress_bars() as stage:
        total = len(pairs) * len(levels) * len(lengths) * len(sizes)
        found = worth_map(
            pairs,
            levels,
            lengths,
            sizes,
            peak=gamma,
            sketch=m,
            shape=RATE_SCHEDULES[rates].make,
            progress=None if stage is None else stage("settings", total),
        )
    if output is not None:
        _write(output, found)
    setting = {"rates": rates, "gamma": gamma, "m": m}
    if json_:
        document = {
            "settings": found.rows(),
            "notes": _notes(found),
            "setting": setting,
            "batchlaw": __version__,
        }
        print(json.dumps(without_infinities(document), indent=2))
        return 0
    print(_report(found, setting))
    if output_dir is not None:
        print(f"\nworth.csv and worth.png in {output_dir}")
    return 0


def _pair(name: str, text: str) -> tuple[float, float]:
    first, colon, second = text.partition(":")
    if not colon:
        raise InputError(name, "must be two numbers with a colon between them", repr(text))
    return checks.real(name, first), checks.real(name, second)


def _exponents(text: str, gamma: float, m: float) -> tuple[float, float]:
    """A pair A:B for which there is a problem that the rate is stable for."""
    a, b = _pair("exponents", text)
    try:
        problem = Problem.power_law_nodes(a, b, m, kind="sketch", nodes=NODES)
    except InputError as error:
        if error.field not in ("a", "b"):
            raise
        subject = f"{error.field.upper()} of A:B in {arg('exponents')}"
        raise InputError("exponents", error.needed, error.got, error.hint, subject) from None
    check_stable([gamma], float(problem.eigenvalues[0]))
    return a, b


def _range(name: str, text: str) -> tuple[float, float]:
    low, high = _pair(name, text)
    if not 0.0 < low < high:
        raise InputError(name, "must be a range LOW:HIGH of positive numbers", repr(text))
    return low, high


def _lengths(horizon: str, gamma: float, points: int) -> list[int]:
    low, high = (end / gamma for end in _range("horizon", horizon))
    if low < MIN_STEPS or high > MAX_STEPS:
        raise InputError(
            "horizon",
            f"must be between {MIN_STEPS * gamma:g} and {MAX_STEPS * gamma:g} at rate {gamma:g}, "
            f"{MIN_STEPS} to {MAX_STEPS} updates",
            repr(horizon),
        )
    return [int(T) for T in np.unique(np.geomspace(low, high, points).round())]


def _sizes(batch: str) -> list[int]:
    low, high = _range("batch", batch)
    sizes = [2**k for k in range(31) if low <= 2**k <= high]
    if len(sizes) < 2:
        raise InputError("batch", "must hold two powers of two", repr(batch))
    return sizes


def _report(found: WorthMap, setting: dict[str, Any]) -> str:
    by_gain = [found.largest_batch(gain) for gain in GAINS]
    rows = [
        [
            f"{a:g}, {b:g}",
            f"{sigma:g}",
            *(
                _both([int(largest[e, s, t]) for largest in by_gain])
                for t in range(len(found.steps))
            ),
        ]
        for e, (a, b) in enumerate(found.exponents)
        for s, sigma in enumerate(found.sigmas)
    ]
    header = ["a, b", "sigma", *(f"{x:.3g}" for x in found.horizons)]
    gains = " / ".join(f"{100 * gain:g} %" for gain in GAINS)
    return "\n".join(
        [
            f"one pass, {setting['rates']}, peak rate {setting['gamma']:g}, M = {setting['m']:g}",
            f"largest mean batch (of {found.batches[0]} to {found.batches[-1]}) at which the best "
            f"schedule lowers the excess by {gains},",
            "by steps times rate; -: at no batch",
            "",
            text_table(header, rows),
            *(f"\nnote: {note}" for note in _notes(found)),
        ]
    )


def _notes(found: WorthMap) -> list[str]:
    """A sentence about exponents that the paper's laws do not cover."""
    outside = [f"{a:g}:{b:g}" for a, b in found.exponents if b >= a + 1.0]
    if not outside:
        return []
    return [
        f"outside the paper's theory, which needs B < A + 1: {', '.join(outside)}; the risks are "
        "exact there too"
    ]


def _both(sizes: list[int]) -> str:
    return " / ".join(f"{size}" if size else "-" for size in sizes)


def _write(output: OutputDirectory, found: WorthMap) -> None:
    from batchlaw import plots

    with output.transaction() as files:
        files.csv("worth.csv", found.rows())
        plots.save(plots.worth_figure(found), files.path("worth.png"))
