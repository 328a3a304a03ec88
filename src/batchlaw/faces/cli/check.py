"""``batchlaw check``: find mistakes in a run before it starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import read_schedule
from batchlaw._base.version import __version__
from batchlaw.faces.cli.inputs import Whole
from batchlaw.influences.weights import influence_proxy
from batchlaw.model.spectrum import EXPONENTS, PowerLaw
from batchlaw.plans.check import Finding
from batchlaw.plans.check import check as find_mistakes
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainer_settings import TrainerSettings


@Parameter(name="*")
@dataclass(frozen=True)
class TrainerOptions:
    """The trainer's settings.

    Attributes
    ----------
    train_steps
        Updates in the run.
    train_samples
        Samples in the run.
    train_tokens
        Tokens in the run.
    sequence_length
        Tokens per sample; taken from the plan if there is one.
    data_parallel
        Number of data-parallel replicas.
    micro_batch
        Samples per replica in one forward pass.
    dataset_samples
        Samples in the dataset.
    counts
        Unit in which the trainer's learning-rate schedule counts.
    counted_batch
        Batch size by which the trainer multiplies steps to get samples (Megatron-LM with
        --train-iters: its global batch size).
    warmup
        Length of the warmup, in that unit.
    decay
        Length of the decay, in that unit.
    horizon
        Where the decay ends, in that unit; the end of the run by default.
    """

    train_steps: Whole | None = None
    train_samples: Whole | None = None
    train_tokens: Whole | None = None
    sequence_length: Whole | None = None
    data_parallel: Whole = 1
    micro_batch: Whole = 1
    dataset_samples: Whole | None = None
    counts: Literal["steps", "samples", "tokens"] = "steps"
    counted_batch: Whole | None = None
    warmup: Whole | None = None
    decay: Whole | None = None
    horizon: Whole | None = None

    def missing(self) -> list[str]:
        """Checks that are skipped because their settings are missing."""
        unchecked = {
            "the budget (train-samples or train-tokens)": (self.train_samples, self.train_tokens),
            "the warmup": (self.warmup,),
            "the decay": (self.decay,),
        }
        return [what for what, given in unchecked.items() if all(x is None for x in given)]

    def build(self, plan: Plan | None) -> TrainerSettings:
        """The settings, completed from the plan if there is one."""
        given = asdict(self)
        if plan is not None and plan.sequence_length is not None:
            if self.sequence_length not in (None, plan.sequence_length):
                raise InputError(
                    "sequence_length",
                    f"must be the plan's {plan.sequence_length}",
                    f"{self.sequence_length}",
                )
            given["sequence_length"] = plan.sequence_length
        if plan is not None:
            # A plan may leave a remainder too small for any stage: not a mistake.
            name = "train_tokens" if plan.unit == "tokens" else "train_samples"
            if given[name] == plan.budget:
                given[name] = plan.spent
        return TrainerSettings(**given)


def check(
    plan: Path | None = None,
    /,
    *,
    rates: Path | None = None,
    batches: Path | None = None,
    trainer: TrainerOptions = TrainerOptions(),  # noqa: B008 - frozen
    exponent: float | None = None,
    scale: float | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Find wrong horizons, budgets that do not add up, and stages that cannot run or matter.

    The exit code is 1 if an error was found, 0 if there are only warnings.

    Parameters
    ----------
    plan
        JSON file of a plan, instead of rates and batches.
    rates
        CSV file with a column rate, one row per step.
    batches
        CSV file with a column batch, one row per step.
    exponent
        Decay exponent a of the spectrum; with it, stages are judged by their influence.
    scale
        Trace of the covariance; needed with the exponent.
    json_
        Print JSON instead of text.
    """
    plan_read = None if plan is None else read_plan(plan)
    gamma, sizes = _schedules(plan_read, rates, batches)
    if (exponent is None) != (scale is None):
        missing, present = ("exponent", "scale") if exponent is None else ("scale", "exponent")
        raise InputError(missing, f"must be given together with {arg(present)}")
    if exponent is None and plan_read is not None:
        exponent, scale = _planned_spectrum(plan_read)
    influence = (
        None if exponent is None or scale is None else influence_proxy(gamma, exponent, scale)
    )
    findings = find_mistakes(gamma, sizes, trainer.build(plan_read), influence)
    print(_document(findings) if json_ else _report(findings, trainer.missing()))
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _planned_spectrum(plan: Plan) -> tuple[float | None, float | None]:
    """Exponent (the middle of its range) and trace of the power law a plan was made for."""
    problem = plan.inputs.get("problem", {})
    if "scale" not in plan.inputs or not isinstance(problem, dict) or problem.get("problem"):
        return None, None
    given = plan.inputs.get("exponent")
    exponents = EXPONENTS if given is None else [float(text) for text in given.split(":")]
    middle = (exponents[0] + exponents[-1]) / 2.0
    return middle, PowerLaw(middle, plan.inputs["scale"]).trace(float(plan.rates.max()))


def read_plan(path: Path) -> Plan:
    """A plan from its file."""
    try:
        return Plan.from_json(path.read_text())
    except OSError as error:
        needed, hint = "must be a readable plan", error.strerror or ""
        raise InputError("plan", needed, hint=hint, subject=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("plan", "must be a JSON file of text", subject=str(path)) from None
    except InputError as error:
        raise error.within(path) from None


def _schedules(
    plan: Plan | None, rates: Path | None, batches: Path | None
) -> tuple[FloatArray, FloatArray]:
    if plan is not None:
        if rates is not None or batches is not None:
            field = "batches" if rates is None else "rates"
            hint = "a plan brings its rates and batches"
            raise InputError(field, "must be left out with a plan", hint=hint)
        return plan.rates, plan.batches.astype(float)
    if rates is None or batches is None:
        subject = f"a plan, or both {arg('rates')} and {arg('batches')},"
        raise InputError("plan", "must be given", subject=subject)
    return read_schedule(rates, "rate"), read_schedule(batches, "batch")


def _report(findings: list[Finding], missing: list[str]) -> str:
    lines = [f"{finding.severity}: {finding.message}" for finding in findings]
    if missing:
        lines.append(f"not checked, because not given: {', '.join(missing)}")
    return "\n".join(lines if findings else ["nothing found", *lines])


def _document(findings: list[Finding]) -> str:
    counts = {
        f"{severity}s": sum(finding.severity == severity for finding in findings)
        for severity in ("error", "warning")
    }
    rows = [asdict(finding) for finding in findings]
    return json.dumps({"findings": rows, **counts, "batchlaw": __version__}, indent=2)
