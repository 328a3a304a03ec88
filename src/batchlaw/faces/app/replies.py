"""What the server answers: every field typed, so that the API's description is complete."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Literal["oracle", "planned", "constant"]


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Parts(Reply):
    """A risk in its parts."""

    total: float
    reducible: float = Field(description="all of it but the irreducible part")
    irreducible: float
    approximation: float
    bias: float
    variance: float
    fluctuation: float | None = Field(default=None, description="of data reuse; null for one pass")
    cross: float | None = Field(
        default=None, description="between GD and the rest, where epochs are reshuffled"
    )
    standard_error: dict[str, float] | None = Field(
        default=None, description="of parts that are simulated, by name; null where none is"
    )


class Scored(Reply):
    """Batches with what they leave."""

    batches: list[float] = Field(description="at the steps that the view shows")
    samples: float = Field(description="sum of the batches")
    effective: float = Field(description="B_eff, or rho_eff where data are reused")
    score: float = Field(
        description="B_eff over the oracle's, or the oracle's rho_eff over its own"
    )
    against_constant: float = Field(description="noise left, over a constant batch's")
    against_constant_error: float | None = Field(
        default=None, description="its standard error; null where it is not simulated"
    )
    risk: Parts


class Curves(Reply):
    """One schedule's risk along the run."""

    total: list[float]
    noise: list[float]


class Schedule(Scored):
    name: Name


class Drawn(Scored):
    """The whole batches that a drawing asks for."""

    path: Curves | None = Field(description="at the steps of /api/along, where there is one")


class Stage(Reply):
    first: int
    last: int
    batch: int
    before: int = Field(description="samples before its first step")


class View(Reply):
    """Rates, influence, schedules and their risks."""

    steps: list[int] = Field(description="that are shown: all of them, or 800 evenly spaced")
    rate: list[float]
    kappa: list[float] = Field(description="influence")
    share: list[float] = Field(description="influence over its largest")
    root: list[float] = Field(description="square root of the share")
    summary: str = Field(description="B_eff, or rho_eff where data are reused")
    noise: str = Field(description="the part that batches change: variance or fluctuation")
    schedules: list[Schedule]
    stages: list[Stage] = Field(description="of the planned schedule")
    prediction: dict[str, float]
    assumptions: list[str]
    method: str
    trace: float = Field(description="sum of the problem's eigenvalues, in units of 1 / rate")
    relative_error: float | None = Field(description="estimated, of the excess; null if unknown")
    notes: list[str]


class Path(Curves):
    name: Name


class Along(Reply):
    """The risk after some of the updates."""

    steps: list[int] = Field(description="updates made")
    paths: list[Path]
    reason: str = Field(default="", description="why there are no paths, or nothing")


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
    reason: str = Field(default="", description="why there are no points, or nothing")


class Measured(Point):
    error: float = Field(description="standard error of the value")
    exact: float = Field(description="the value without Monte Carlo")


class Started(Reply):
    id: str


class CheckState(Reply):
    """How far a Monte Carlo check is, and what it found so far."""

    done: int = Field(description="repetitions")
    repetitions: int
    finished: bool
    cancelled: bool
    error: str = Field(description="why it failed, or nothing")
    points: list[Measured]
    apart: float | None = Field(description="largest distance from the exact value, in s.e.")


class Refusal(Reply):
    """Why a request was refused, in one line."""

    detail: str
    field: str | None = Field(default=None, description="the field at fault, where there is one")
    reason: str | None = Field(
        default=None,
        description="the line without the field that it begins with, in the page's labels; null "
        "where it begins with something else",
    )
