"""``batchlaw plan``: batch sizes for a run, what they gain, and settings for a trainer."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import OutputDirectory, read_schedule
from batchlaw.design.by_words import problem_by_words, problem_seed, rates_by_words
from batchlaw.design.glossary import EXCESS
from batchlaw.design.rule_scores import DIVERGED
from batchlaw.design.run_length import CostModel
from batchlaw.design.vocabulary import problem_words
from batchlaw.faces.cli.inputs import (
    Flag,
    Options,
    RateOptions,
    Whole,
    choice_of,
    option_class,
)
from batchlaw.faces.cli.table import sparkline, text_table
from batchlaw.from_data.laws.training_law import TrainingLaw
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import EXPONENTS, PowerLaw, Spectrum
from batchlaw.plans.influence_verdict import UNPREDICTED
from batchlaw.plans.law_plan import same_rule
from batchlaw.plans.plan import NOISE, Plan, samples_of_budget
from batchlaw.plans.planner import STAGES, digest, plannable
from batchlaw.plans.planner import plan as make_plan
from batchlaw.plans.trainers import TRAINERS, export
from batchlaw.plans.verdict import CONSTANT_BATCH, PLAN, Verdict
from batchlaw.schedule.optimizers import (
    optimizer_of,
    optimizer_word,
    options_of,
    rule_by_words,
    rule_words,
)
from batchlaw.schedule.update_rule import OPTIMIZERS, UpdateRule

# Changes against the constant batch, in per cent: the whole risk first.
CHANGES = {
    "total_against_constant": "whole risk",
    "excess_against_constant": f"excess, the {EXCESS}",
    "variance_against_constant": "exact variance",
    "fluctuation_against_constant": "fluctuation",
    NOISE: "noise left in the final risk, to first order",
    "worst_noise_against_constant": "the same, at worst over the exponents",
}
OTHERS = {
    "noise_against_square_root": "the same noise, over that of the square-root rule without limits",
    "no_such_schedule_is_below": "no schedule under these limits can be below",
    "worst_ratio_over_exponents": "at worst over the exponents, over the rule that knows it",
    "effective_batch": "effective batch",
    "constant_batch": "the constant batch",
    "batch_exponent": "what is left of the noise falls with the batch to the power of",
    "boundary_loss": "what fewer candidate boundaries can have lost, relative",
}
# Ends of the bands of a law of training runs.
BAND = ("90 % from", "to")
# Predictions that make shares of noise superfluous.
NOTE_OF_EXCESS = {"excess_against_constant", "median_excess_against_constant"}
# Shares of noise in the excess, for plans that do not know it.
SHARES = (0.01, 0.1, 0.5)

FORMAT_HELP = f"Print the plan for a trainer instead of the table: {', '.join(TRAINERS)}."
_FACTORS = [
    f"{trainer.batch_factor} for the format {name}"
    for name, trainer in TRAINERS.items()
    if trainer.batch_factor
]
FACTOR_HELP = f"Batches of different stages differ by powers of this factor; {', '.join(_FACTORS)}."

if TYPE_CHECKING:
    PlanProblem: TypeAlias = Options
    RuleOptions: TypeAlias = Options
    ProcedureName: TypeAlias = str
else:
    PlanProblem = option_class("PlanProblem", problem_words("an unknown power law"))
    RuleOptions = option_class(
        "RuleOptions", (optimizer_word("it must be named"), *rule_words().values())
    )
    ProcedureName = choice_of(tuple(plannable()))


def plan(
    *,
    rates: RateOptions = RateOptions(),  # noqa: B008 - frozen
    problem: PlanProblem = PlanProblem(),  # noqa: B008
    rule: RuleOptions = RuleOptions(),  # noqa: B008
    exponent: str | None = None,
    scale: float | None = None,
    noise: str | None = None,
    law: Path | None = None,
    choose_steps: Flag = False,
    choose_peak: Flag = False,
    budget: Whole | None = None,
    tokens: Whole | None = None,
    sequence_length: Whole | None = None,
    stages: Whole = STAGES,
    min_batch: Whole = 1,
    max_batch: Whole | None = None,
    multiple_of: Whole | None = None,
    batch_factor: Annotated[Whole | None, Parameter(help=FACTOR_HELP)] = None,
    data_parallel: Whole | None = None,
    micro_batch: Whole | None = None,
    procedure: ProcedureName = "one-pass",
    dataset_size: Whole | None = None,
    replacement: Flag = False,
    bold: Flag = False,
    loss: float | None = None,
    lowest_loss: float | None = None,
    step_seconds: str | None = None,
    width: Whole | None = None,
    format_: Annotated[str | None, Parameter(name="--format", help=FORMAT_HELP)] = None,
    output_dir: Path | None = None,
) -> int:
    """Plan the batch sizes of a run, or say that a constant batch is as good.

    First the recommendation, what it is worth and how good the evidence is for this optimizer and
    these rates; then the stages, rules that people use, and the rest.

    Parameters
    ----------
    exponent
        Exponent of an unknown power-law spectrum: one number, or a range LOW:HIGH whose worst
        case is planned for; by default 1.2:3 for SGD and momentum, and 1.2, 1.5 and 2 for Adam.
    scale
        Trace of that spectrum, in units of 1 / rate; 0.5 / peak rate by default.
    noise
        CSV file with a column noise: the gradient noise at every step, up to a common factor;
        or "model", with a problem: its label noise and bias along the run.
    law
        A law fitted to your own runs, from batchlaw fit: the plan has the least final loss that it
        predicts, and the optimizer is that of the runs.
    choose_steps
        With a law: choose the number of updates too, for the same budget.
    choose_peak
        With a law: choose the peak rate too, within those of its runs.
    budget
        Samples to spend.
    tokens
        Tokens to spend instead; needs sequence-length.
    sequence_length
        Tokens per sample.
    stages
        Maximum number of stages of constant batch size.
    min_batch
        Smallest batch, in samples.
    max_batch
        Largest batch, in samples.
    multiple_of
        Every batch is a multiple of this; data-parallel times micro-batch by default.
    data_parallel
        Data-parallel size of the trainer.
    micro_batch
        Samples per micro-batch on one rank.
    procedure
        How samples are drawn: each used once, or from a dataset that is reused.
    dataset_size
        Samples in that dataset.
    replacement
        Draw multi-pass batches with replacement.
    bold
        Print the best schedule found, even where a constant batch is recommended; with a law also
        over batches that its runs have not shown.
    loss
        Final loss with a constant batch; with lowest-loss, the worth is stated in the loss.
    lowest_loss
        The lowest loss that the model can reach, for example the limit of a fitted scaling law.
    step_seconds
        Seconds of an update, for the time of the run: one number, for batches of up to width
        samples at a time; or at two batch sizes, as 64:0.41,256:0.93.
    width
        Samples that are processed in one step; larger batches take several. Any number by default.
    output_dir
        Directory for plan.json, plan.csv and plan.png.
    """
    trainer = None if format_ is None else TRAINERS[checks.choice("format", format_, TRAINERS)]
    fitted, text = (None, "") if law is None else _read_law(law)
    update = _rule(rule) if fitted is None else _rule_of(fitted, rule)
    gamma = rates_by_words(rates.words())
    if fitted is not None:
        _refuse_spectrum(problem, exponent, scale)
    spectrum = _spectrum(problem, exponent, scale)
    if noise == "model" and not isinstance(spectrum, Problem):
        raise InputError("noise", f'must be a CSV file, or "model" with {arg("problem")}')
    if budget is None and tokens is None:
        raise InputError(
            "budget",
            f"must be given in samples; or {arg('tokens')}, with {arg('sequence_length')}",
        )
    samples = samples_of_budget(budget, tokens, sequence_length)
    if batch_factor is None and trainer is not None:
        batch_factor = trainer.batch_factor
    inputs = {
        "rates": rates.words(),
        "problem": {k: str(v) if v == math.inf else v for k, v in problem.words().items()},
        "rule": rule.words(),
        "exponent": exponent,
        "scale": scale,
        "procedure": procedure,
        "dataset_size": dataset_size,
        "noise": None if noise is None else Path(noise).name,
        "replacement": replacement,
    }
    if law is not None:
        inputs["law"] = {"file": law.name, "sha256": digest(text)}
    planned = make_plan(
        gamma,
        samples if tokens is None else tokens,
        spectrum=spectrum,
        law=fitted,
        rule=update,
        noise=noise if noise in (None, "model") else read_schedule(Path(noise), "noise"),
        stages=stages,
        min_batch=min_batch,
        max_batch=max_batch,
        multiple_of=_unit(multiple_of, data_parallel, micro_batch),
        batch_factor=batch_factor,
        unit="samples" if tokens is None else "tokens",
        sequence_length=sequence_length,
        procedure=procedure,
        dataset_size=dataset_size,
        replacement=replacement,
        bold=bold,
        loss=loss,
        lowest_loss=lowest_loss,
        choose_steps=choose_steps,
        choose_peak=choose_peak,
        cost=_cost(step_seconds, width),
        inputs=inputs,
        seed=problem_seed(problem.words()) if "problem" in problem.words() else None,
    )
    if output_dir is not None:
        _write(OutputDirectory(output_dir), planned)
    if format_ is not None:
        _print_export(planned, format_, sequence_length, data_parallel, micro_batch)
        return 0
    print(_report(planned))
    if output_dir is not None:
        print(f"\nplan.json, plan.csv and plan.png in {output_dir}")
    return 0


def _rule(options: Options) -> UpdateRule:
    """The rule of the named optimizer; there is no default, because the plan depends on it."""
    words = options.words()
    if "optimizer" not in words:
        *others, last = OPTIMIZERS
        raise InputError("rule", f"must be named: {', '.join(others)} or {last}")
    return rule_by_words(words)


def _read_law(path: Path) -> tuple[TrainingLaw, str]:
    """A law and the text of its file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        raise InputError("law", "must be a file that can be read", f"{path}") from None
    try:
        return TrainingLaw.from_json(text), text
    except InputError as error:
        raise error.within(path.name) from None


def _rule_of(law: TrainingLaw, options: Options) -> UpdateRule:
    """The law's optimizer; options that are not its own are refused."""
    words = options.words()
    if words:
        given = rule_by_words({"optimizer": optimizer_of(law.rule)} | words)
        own, others = options_of(law.rule), options_of(given)
        names = [name for name in words if name != "optimizer" and own.get(name) != others[name]]
        if optimizer_of(given) != optimizer_of(law.rule) or names:
            return same_rule(law, given)
    return law.rule


def _refuse_spectrum(problem: PlanProblem, exponent: str | None, scale: float | None) -> None:
    given = problem.words() | {"exponent": exponent, "scale": scale}
    for name, value in given.items():
        if value is not None:
            raise InputError(name, f"has no use with {arg('law')}, which replaces a spectrum")


def _print_export(
    planned: Plan,
    format_: str,
    sequence_length: int | None,
    data_parallel: int | None,
    micro_batch: int | None,
) -> None:
    written = export(
        planned,
        format_,
        sequence_length=sequence_length,
        data_parallel=data_parallel,
        micro_batch=micro_batch,
    )
    print(written.text, end="")
    if written.warning:
        print(f"batchlaw: {written.warning}", file=sys.stderr)


def _spectrum(problem: PlanProblem, exponent: str | None, scale: float | None) -> Spectrum | None:
    """None where nothing is known of it."""
    words = problem.words()
    if "problem" in words:
        for name, value in (("exponent", exponent), ("scale", scale)):
            if value is not None:
                raise InputError(name, "describes an unknown spectrum, not a problem's")
        return problem_by_words(words)
    for name in words:
        raise InputError(name, f"has no use without {arg('problem')}")
    if exponent is None:
        return None if scale is None else PowerLaw(EXPONENTS, scale)
    low, colon, high = exponent.partition(":")
    first = checks.real("exponent", low, above=1.0)
    if not colon:
        return PowerLaw(first, scale)
    last = checks.real("exponent", high, above=1.0)
    if not first < last:
        raise InputError("exponent", "must be LOW:HIGH with LOW < HIGH", repr(exponent))
    return PowerLaw((first, last), scale)


def _cost(step_seconds: str | None, width: int | None) -> CostModel | None:
    """One number, or BATCH:SECONDS at two batch sizes."""
    if step_seconds is None:
        if width is not None:
            raise InputError("width", f"has no use without {arg('step_seconds')}")
        return None
    if ":" not in step_seconds:
        return CostModel(checks.real("step_seconds", step_seconds, above=0.0), width=width)
    points = [part.partition(":") for part in step_seconds.split(",")]
    if len(points) != 2 or width is not None:
        needed = "must be one number, or BATCH:SECONDS,BATCH:SECONDS without a width"
        raise InputError("step_seconds", needed, repr(step_seconds))
    numbers = [
        (checks.real("step_seconds", size), checks.real("step_seconds", seconds, above=0.0))
        for size, _, seconds in points
    ]
    return CostModel.measured({checks.count("step_seconds", b): seconds for b, seconds in numbers})


def _unit(multiple_of: int | None, data_parallel: int | None, micro_batch: int | None) -> int:
    """The number that every batch is a multiple of; one that the trainer can't use is refused."""
    needed = math.prod(
        checks.count(name, value)
        for name, value in (("data_parallel", data_parallel), ("micro_batch", micro_batch))
        if value is not None
    )
    if multiple_of is None:
        return needed
    if multiple_of % needed:
        raise InputError(
            "multiple_of",
            f"must be a multiple of {arg('data_parallel')} x {arg('micro_batch')} = {needed}",
            f"{multiple_of}",
        )
    return multiple_of


def _report(planned: Plan) -> str:
    length = planned.sequence_length if planned.unit == "tokens" else 1
    rows = [
        (
            f"{row['first']} to {row['last']}",
            f"{row['batch']}",
            f"{row['before'] * (length or 1)}",
            f"{100 * row['batch'] * (row['last'] + 1 - row['first']) / planned.samples:.1f} %",
        )
        for row in planned.stage_table()
    ]
    wide = (sys.stdout.encoding or "").lower().startswith("utf")
    lines = [
        *_verdict(planned),
        f"{planned.steps} steps, {planned.spent} of {planned.budget} {planned.unit}",
        "",
        text_table(("steps", "batch, samples", f"{planned.unit} before", "of the run"), rows),
        "",
        f"rate   {sparkline(planned.rates, wide)}",
        f"batch  {sparkline(planned.batches.astype(float), wide)}",
        "",
    ]
    lines += _rules(planned) + _details(planned)
    shown = {k: v for k, v in planned.prediction.items() if k != "boundary_loss" or v > 0.0}
    lines += [f"{text}: {shown[name]:.6g}" for name, text in OTHERS.items() if name in shown]
    assumed = [text for text in planned.assumptions if not text.startswith(UNPREDICTED)]
    return "\n".join([*lines, "", *(f"assumed: {text}" for text in assumed)])


def _verdict(planned: Plan) -> list[str]:
    """What to do, what it is worth, how sure that is, and how long the run takes."""
    verdict = planned.verdict
    if verdict is None:
        return []
    return [
        f"recommended: {verdict.recommendation}",
        f"worth: {verdict.worth}",
        f"evidence: {verdict.evidence}",
        *_time(planned),
        "",
    ]


def _time(planned: Plan) -> list[str]:
    given = planned.prediction
    if "seconds" not in given:
        return []
    ours, theirs = (_hours(given[name]) for name in ("seconds", "seconds_of_constant"))
    return [f"time: {ours} ({theirs} with the constant batch)"]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600.0:.3g} h" if seconds >= 3600.0 else f"{seconds:.3g} s"


def _rules(planned: Plan) -> list[str]:
    """Rules that people use, scored in the same way, and by what the plan was chosen."""
    verdict = planned.verdict
    if verdict is not None and verdict.differences:
        return _losses(verdict)
    if verdict is None or not verdict.rules:
        return []
    regrets = verdict.regrets
    # For a known problem there is one number, for a range of problems there are three.
    one = all(low == high for low, _, high in verdict.rules.values())
    rows = {
        name: [_change(x) for x in (*(ratios[:1] if one else ratios), *_known(regrets, name))]
        for name, ratios in verdict.rules.items()
    }
    spread = ["against constant"] if one else ["at best", "median", "at worst"]
    spread += ["regret"] if regrets else []
    kept = [(name, *row) for name, row in rows.items() if name not in verdict.steps]
    changed = [(name, f"{steps}", *rows[name]) for name, steps in verdict.steps.items()]
    lines = [text_table(("other rules, the excess", *spread), kept), ""]
    if changed:
        lines += [text_table(("with rates of their own", "steps", *spread), changed), ""]
    return [*lines, *_chosen_by(regrets), ""]


def _losses(verdict: Verdict) -> list[str]:
    """By a law of training runs: settings that were tried, and rules, in the final loss."""
    lines = []
    if verdict.settings:
        rows = [
            (
                f"{row['steps']:.0f}",
                f"{row['peak']:.3g}",
                f"{row['batch']:.3g}",
                f"{row['loss']:.4f}",
                *(f"{row[name]:+.4f}" for name in ("change", "low", "high")),
            )
            for row in verdict.settings
        ]
        columns = "steps", "peak rate", "constant batch", "final loss", "to the given", *BAND
        lines += [text_table(columns, rows), ""]
    bands = {
        name: [f"{x:+.4f}" for x in (middle, low, high)]
        for name, (low, middle, high) in verdict.differences.items()
    }
    kept = [(name, *row) for name, row in bands.items() if name not in verdict.steps]
    changed = [(name, f"{n}", *bands[name]) for name, n in verdict.steps.items()]
    title = "against constant", *BAND
    lines += [text_table(("other rules, the final loss", *title), kept), ""]
    if changed:
        lines += [text_table(("with rates of their own", "steps", *title), changed), ""]
    return [*lines, "the rules are free of the limits on batches", ""]


def _chosen_by(regrets: Mapping[str, float]) -> list[str]:
    """Why a rule that looks better is not the plan."""
    if not regrets:
        return ["the rules are free of the limits on batches, and are not candidates for the plan"]
    ours, theirs = (_change(regrets[name]) for name in (PLAN, CONSTANT_BATCH))
    return [
        "regret: the excess over that of the best schedule found for the problem alone, at its",
        f"largest, by which a plan is chosen: {ours} for this one, {theirs} for a constant batch;",
        "the rules are free of the limits on batches",
    ]


def _known(regrets: Mapping[str, float], name: str) -> list[float]:
    return [regrets[name]] if name in regrets else []


def _change(ratio: float) -> str:
    return "diverges" if ratio >= DIVERGED else _percent(ratio - 1.0)


def _details(planned: Plan) -> list[str]:
    """What the plan changes: the whole first, and how that depends on what is not known."""
    given = planned.prediction
    lines = [f"  {text}: {_percent(given[k] - 1.0)}" for k, text in CHANGES.items() if k in given]
    if lines:
        lines.insert(0, "against a constant batch:")
    known = [f"{text}." for text in planned.assumptions if text.startswith(UNPREDICTED)]
    if NOTE_OF_EXCESS & given.keys() or NOISE not in given:
        return [*known, *lines]
    shares = ", ".join(f"{100 * share:g} %" for share in SHARES)
    changes = ", ".join(_percent(planned.excess_change(share)) for share in SHARES)
    return [
        *known,
        f"if batch noise is {shares} of the excess (the loss above the lowest that the model can "
        f"reach),\nthe excess changes by {changes}",
        *lines,
    ]


def _percent(change: float) -> str:
    return f"{100 * change:+#.3g} %"


def _write(output: OutputDirectory, planned: Plan) -> None:
    from batchlaw import plots

    with output.transaction() as files:
        files.path("plan.json").write_text(planned.to_json())
        files.csv("plan.csv", planned.step_table())
        plots.save(plots.plan_figure(planned.rates, planned.batches), files.path("plan.png"))
