"""A setting as the page requests it: the words of a case, with limits on the total work."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from batchlaw._base.errors import InputError
from batchlaw._base.words import refuse_unused
from batchlaw.batches.limits import Limits
from batchlaw.design.case import REPETITIONS
from batchlaw.design.vocabulary import DEFAULTS, problem_words
from batchlaw.faces.app.controls import MOST_DIRECTIONS, page_name
from batchlaw.faces.app.fields import page_of
from batchlaw.risk.procedure import Procedure, procedure_by_words
from batchlaw.schedule.optimizers import rule_by_words, rule_words
from batchlaw.schedule.update_rule import OPTIMIZERS, UpdateRule

# Steps x directions.
MOST_WORK = 2 * 10**7
# The mean field of multi-pass keeps pairs of points, so its work grows faster.
MOST_REUSE_STEPS = 8192
# Numbers touched by a simulated view (seconds), and directions, whose covariance it stores.
MOST_SIMULATED, MOST_SAMPLED = 10**10, 4096
# Drawing a Gaussian number costs about this many additions, an entry of a permutation too.
DRAW_COST = 30
VIEW_SCHEDULES = 3
# The problem whose spectrum comes with the request.
UPLOADED = "spectrum"

# No unknown fields, and no text or booleans in place of numbers.
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

# Limits that the page offers; a batch factor belongs to the trainer that needs it.
LIMITS = tuple(limit.name for limit in fields(Limits) if limit.name != "batch_factor")
# Page name -> word, where they differ.
_WORDS = {page_name(word): word for word in DEFAULTS if page_name(word) != word}


def shown_presets(optimizer: str) -> dict[str, Any]:
    """Presets of an optimizer that the page has fields for: a flag is settled by the name."""
    known = OPTIMIZERS.get(optimizer)
    presets = {} if known is None else known.presets
    return {name: value for name, value in presets.items() if value is not True}


def _own_options(optimizer: str) -> dict[str, Any]:
    """What an optimizer's options are where nothing is given."""
    known = OPTIMIZERS[optimizer]
    defaults = {option.name: option.default for option in fields(known.kind)}
    return defaults | shown_presets(optimizer)


def with_influence() -> list[str]:
    """The optimizers whose updates have an influence."""
    return [name for name, each in OPTIMIZERS.items() if each.kind.has_influence]


class SpectrumFile(BaseModel):
    """An uploaded spectrum: eigenvalues, the target's energy and the multiplicity of each."""

    model_config = STRICT

    eigenvalue: Annotated[
        list[Annotated[float, Field(ge=1e-15, le=1e15)]],
        Field(min_length=1, max_length=MOST_DIRECTIONS),
    ]
    energy: Annotated[
        list[Annotated[float, Field(ge=0.0, le=1e30)]],
        Field(min_length=1, max_length=MOST_DIRECTIONS),
    ]
    multiplicity: (
        Annotated[
            list[Annotated[float, Field(ge=1e-6, le=1e30)]],
            Field(min_length=1, max_length=MOST_DIRECTIONS),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        lengths = [len(self.eigenvalue), len(self.energy)]
        if self.multiplicity is not None:
            lengths.append(len(self.multiplicity))
        if len(set(lengths)) > 1:
            raise InputError(UPLOADED, "must have columns of the same length", f"{lengths}")
        return self


class PageSetting(BaseModel):
    """Everything a view depends on; the defaults are the paper's one-pass experiment.

    ``setting_fields.page_setting`` adds the fields.
    """

    model_config = STRICT

    if TYPE_CHECKING:  # the fields read in this package
        problem: str = ""
        optimizer: str = ""
        sigma: float = 1.0
        spectrum: SpectrumFile | None = None
        steps: int = 0
        m: int = 0
        budget: int = 0
        multiple_of: int = 1

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        """Options that are not given have the optimizer's presets."""
        if isinstance(given, dict) and isinstance(given.get("optimizer"), str):
            return shown_presets(given["optimizer"]) | given
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse a bad setting before anything is computed."""
        self._check_upload()
        procedure, rule = self.procedure_and_rule()
        procedure.check_rule(rule)
        if procedure.reuses and not rule.has_influence:
            raise InputError(
                "optimizer",
                f"must be {' or '.join(with_influence())} where data are reused",
                rule.name,
                hint="the mean field of Adam is for one pass",
            )
        self._check_work(procedure, procedure.solves(rule))
        self.limits.capped(procedure.max_batch).units(self.steps, self.budget)
        return self

    def _check_upload(self) -> None:
        if self.problem != UPLOADED:
            if self.spectrum is not None:
                raise InputError(UPLOADED, f"has no use with problem {self.problem}")
            return
        if self.spectrum is None:
            raise InputError(UPLOADED, "must be uploaded for this problem")
        others = {word.name for word in problem_words()} - {"problem", "sigma"}
        refuse_unused(self.words(), sorted(others), "an uploaded spectrum")

    def _check_work(self, procedure: Procedure, solved: bool) -> None:
        most = MOST_WORK // self.directions
        if self.steps > most:
            raise InputError(
                "steps", f"must be at most {most} for {self.directions} directions", f"{self.steps}"
            )
        if solved and procedure.reuses and self.steps > MOST_REUSE_STEPS:
            needed = f"must be at most {MOST_REUSE_STEPS} where data are reused"
            raise InputError("steps", needed, f"{self.steps}")
        if solved:
            return
        self.refuse_unsampled()
        work = REPETITIONS * self.repetition_work(procedure, VIEW_SCHEDULES, self.budget)
        if work > MOST_SIMULATED:
            raise InputError(
                "procedure",
                f"is simulated, and a view may touch {MOST_SIMULATED:.0e} numbers",
                f"{work:.1e}",
                hint="take fewer samples, updates or directions",
                subject=procedure.name,
            )

    def repetition_work(self, procedure: Procedure, schedules: int, budget: float) -> float:
        """Numbers touched by one repetition of a simulation."""
        M, N = self.sampled_directions, getattr(procedure, "samples", 0)
        runs = schedules * budget * M
        if not procedure.reuses:
            return runs
        # Drawing a dataset and one order per schedule; then its covariance, and GD for reference.
        draws = N * DRAW_COST * (M + schedules)
        return runs + draws + (N + 2 * self.steps) * M**2

    def refuse_unsampled(self) -> None:
        """Refuse a problem that can't be sampled, or whose samples have too many features."""
        if self.problem == "sketch":
            raise InputError(
                "problem",
                "must be one that samples can be drawn from, not the average of all sketches",
                hint="take the paper's, a truncation or a spectrum",
            )
        if self.sampled_directions > MOST_SAMPLED:
            raise InputError(
                UPLOADED,
                f"must have at most {MOST_SAMPLED} directions in all to be sampled",
                f"{self.sampled_directions:g}",
            )

    def uses(self, name: str) -> bool:
        """Whether a field has any effect given the others; only then does the page show it."""
        page = page_of(type(self).model_fields[name])
        shown, hidden = page.get("shown_with", {}), page.get("hidden_with", {})
        return all(getattr(self, other) in values for other, values in shown.items()) and not any(
            getattr(self, other) in values for other, values in hidden.items()
        )

    def words(self) -> dict[str, Any]:
        """The setting as words, for ``design.by_words``.

        An unused field is left out at its default; with another value it is passed on, and
        refused there. So are options of the update rule that are as the optimizer has them.
        """
        options, own = rule_words(), _own_options(self.optimizer)
        words = {}
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            usual = own.get(name, info.default)
            if value != usual or (self.uses(name) and name not in options):
                words[_WORDS.get(name, name)] = value
        return words

    def procedure_and_rule(self) -> tuple[Procedure, UpdateRule]:
        """The procedure, and the rule of its updates."""
        words = self.words()
        return procedure_by_words(words), rule_by_words(words)

    @property
    def work(self) -> int:
        """Steps x directions."""
        return self.steps * self.directions

    @property
    def directions(self) -> int:
        """Distinct eigenvalues, as the solvers count them."""
        return self.m if self.spectrum is None else len(self.spectrum.eigenvalue)

    @property
    def sampled_directions(self) -> float:
        """Features of a sample: directions counted with their multiplicity."""
        if self.spectrum is None or self.spectrum.multiplicity is None:
            return self.directions
        return sum(self.spectrum.multiplicity)

    @property
    def limits(self) -> Limits:
        """Limits on every batch of the plan."""
        return Limits(**{name: getattr(self, name) for name in LIMITS})

    @property
    def whole_budget(self) -> int:
        """The part of the budget that batches in whole multiples can spend."""
        return self.budget // self.multiple_of * self.multiple_of
