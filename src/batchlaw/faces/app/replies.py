"""The server's replies: every field typed, so that the API's description is complete."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from batchlaw.design.glossary import EXCESS

Name = Literal["greedy", "best", "planned", "constant"]
# Of an optimizer without influence: when the plan and the best schedule are searched for.
Search = Literal["", "on request", "too large"]


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Parts(Reply):
    """A risk, part by part."""

    total: float
    excess: float = Field(
        description=f"the {EXCESS}: total minus the irreducible part and the approximation"
    )
    reducible: float = Field(description="total minus the irreducible part")
    irreducible: float
    approximation: float
    bias: float
    variance: float
    fluctuation: float | None = Field(
        default=None, description="from data reuse; null for one pass"
    )
    cross: float | None = Field(
        default=None, description="between GD and the rest, where epochs are reshuffled"
    )
    standard_error: dict[str, float] | None = Field(
        default=None, description="of simulated parts, by name; null if the risk is not simulated"
    )


class Against(Reply):
    """A schedule's risk over that of the constant batch: the whole, the excess, and the noise."""

    total: float
    excess: float
    noise: float
    bias: float | None = Field(
        default=None, description="with Adam, whose batches move it; null where they do not"
    )
    standard_error: dict[str, float] | None = Field(
        default=None, description="of each, by name; null if the risk is not simulated"
    )


class Scored(Reply):
    """Batches, and the risk they lead to."""

    batches: list[float] = Field(description="at the steps shown in the view")
    samples: float = Field(description="sum of the batches")
    effective: float | None = Field(
        description="B_eff, or rho_eff where data are reused; null with Adam, which has neither"
    )
    score: float | None = Field(
        description="B_eff over the greedy schedule's, or that schedule's rho_eff over its own"
    )
    against_constant: Against
    risk: Parts


class Curves(Reply):
    """One schedule's risk along the run."""

    total: list[float]
    noise: list[float]
    uncertainty: list[float] | None = Field(
        default=None, description="stated relative error of the excess; null if there is none"
    )


class Schedule(Scored):
    name: Name


class Drawn(Scored):
    """The whole batches closest to a drawing."""

    path: Curves | None = Field(description="at the steps of /api/along; null if unavailable")


class Stage(Reply):
    first: int
    last: int
    batch: int
    before: int = Field(description="samples before its first step")


class Influence(Reply):
    """How much of each update's noise survives in the final risk."""

    kappa: list[float]
    share: list[float] = Field(description="relative to its maximum")
    root: list[float] = Field(description="square root of the share")


class Sensitivity(Reply):
    """d excess / d log B_t at the constant batch, by cause."""

    scales: list[float] = Field(description="through the second moment, which scales the steps")
    noise: list[float] = Field(description="through the noise that the update injects")


class Rule(Reply):
    """A rule that people use: its excess over that of a constant batch."""

    name: str
    best: float
    median: float
    worst: float
    steps: int | None = Field(description="its updates, if it changes the rates; else null")


class Verdict(Reply):
    """What the plan recommends, in sentences, and the rules that it was compared with."""

    optimizer: str
    recommendation: str
    worth: str
    evidence: str
    rules: list[Rule]


class View(Reply):
    """Rates, influence or sensitivity, schedules and their risks."""

    verdict: Verdict | None
    verdict_reason: str = Field(description="why there is no verdict; else empty")
    search: Search = Field(
        description="whether /api/search adds a plan or the best schedule: on request, or not at "
        "all because the run is too large; empty where there is nothing to add"
    )
    certificate: str = Field(description="what is known of the best schedule found; else empty")
    steps: list[int] = Field(description="steps shown: all of them, or 800 evenly spaced")
    rate: list[float]
    influence: Influence | None = Field(description="null for Adam, whose updates have none")
    sensitivity: Sensitivity | None = Field(description="with Adam, in place of the influence")
    summary: str | None = Field(
        description="B_eff, or rho_eff where data are reused; null with Adam"
    )
    noise: str = Field(description="the part that batches change: variance or fluctuation")
    schedules: list[Schedule]
    stages: list[Stage] = Field(description="of the planned schedule; empty if there is none")
    prediction: dict[str, float]
    assumptions: list[str]
    method: str
    trace: float = Field(description="sum of the problem's eigenvalues, in units of 1 / rate")
    relative_error: float | None = Field(description="estimated, of the excess; null if unknown")
    approximations: list[str] = Field(description="with Adam: what its risk neglects")
    notes: list[str]


class Path(Curves):
    name: Name


class Along(Reply):
    """The risk after each of some updates."""

    steps: list[int] = Field(description="number of updates made")
    paths: list[Path]
    reason: str = Field(default="", description="why there are no paths; else empty")
    note: str = Field(default="", description="how good an approximation is; else empty")


class Searched(Reply):
    """A view with the plan and the best schedule found, and the risk along the run."""

    view: View
    along: Along


class Point(Reply):
    """One schedule of a family."""

    family: str
    budget: int
    summary: float = Field(description="1 / B_eff, or rho_eff")
    value: float = Field(description="variance, or fluctuation")


class Collapse(Reply):
    """The noise of four families of schedules against one summary of them."""

    term: str = Field(description="variance, or fluctuation")
    summary: str = Field(description="1 / B_eff, or rho_eff")
    families: list[str]
    points: list[Point]
    reason: str = Field(default="", description="why there are no points; else empty")


class Measured(Point):
    error: float = Field(description="standard error of the value")
    exact: float = Field(description="the value without Monte Carlo")


class Started(Reply):
    id: str


class CheckState(Reply):
    """Progress of a Monte Carlo check, and its results so far."""

    done: int = Field(description="repetitions done")
    repetitions: int
    finished: bool
    cancelled: bool
    error: str = Field(description="why it failed; else empty")
    points: list[Measured]
    apart: float | None = Field(description="largest distance from the exact value, in s.e.")


class Refusal(Reply):
    """Why a request was refused, in one line."""

    detail: str
    field: str | None = Field(default=None, description="the field at fault, if any")
    reason: str | None = Field(
        default=None,
        description="the sentence without the field at its beginning, in the page's labels; null "
        "if it begins with something else",
    )
