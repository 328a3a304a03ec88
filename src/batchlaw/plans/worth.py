"""What a plan is worth, in words: the loss where its level is known, else the excess."""

from __future__ import annotations

from dataclasses import dataclass

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.plans.verdict import range_of

UNKNOWN = "what that is in your loss is not known"
NOTHING = "nothing changes against a constant batch"


@dataclass(frozen=True)
class LossLevel:
    """The final loss with a constant batch, and the lowest that the model can reach."""

    loss: float
    lowest: float

    @classmethod
    def of(cls, loss: float | None, lowest_loss: float | None) -> LossLevel | None:
        """Both or neither."""
        if loss is None and lowest_loss is None:
            return None
        for name, value, other in (
            ("loss", loss, "lowest_loss"),
            ("lowest_loss", lowest_loss, "loss"),
        ):
            if value is None:
                raise InputError(name, f"must be given with {arg(other)}")
        level = cls(checks.real("loss", loss), checks.real("lowest_loss", lowest_loss))
        if not level.lowest < level.loss:
            needed = f"must be below {arg('loss')} = {level.loss:g}"
            raise InputError("lowest_loss", needed, f"{level.lowest:g}")
        return level

    def at(self, ratio: float) -> float:
        """The loss where the excess changes by this factor."""
        return self.lowest + ratio * (self.loss - self.lowest)

    def words(self, ratio: float) -> str:
        return f"final loss {self.at(ratio):.5g} instead of {self.loss:.5g}"


def worth_over_range(ratios: FloatArray, level: LossLevel | None) -> str:
    """Of (K,) ratios of the excess to a constant batch's, one per problem."""
    low, middle, high = range_of(ratios)
    excess = (
        f"the excess (the loss above the lowest that the model can reach) changes by "
        f"{percent(middle)} in the median problem, between {percent(low)} and {percent(high)} "
        f"over all {ratios.size}"
    )
    if level is None:
        return f"{excess}; {UNKNOWN}"
    ends = f"between {level.at(low):.5g} and {level.at(high):.5g} over all"
    return f"{level.words(middle)} in the median problem, {ends}; {excess}"


def worth_known(total: float, excess: float, level: LossLevel | None) -> str:
    """Of a known problem, whose whole risk is known; ``level`` is that of the user's model."""
    known = f"the whole risk changes by {percent(total)}, the excess by {percent(excess)}"
    return known if level is None else f"{level.words(excess)}; in the problem {known}"


def worth_of_noise(ratio: float, level: LossLevel | None) -> str:
    """Of a plan that knows only how much of the batch noise it leaves."""
    noise = f"the batch noise left in the final loss changes by {percent(ratio)}"
    if level is None:
        return f"{noise}; {UNKNOWN}, because the share of that noise in it is not"
    best, same = f"{level.at(ratio):.5g}", f"{level.loss:.5g}"
    return (
        f"final loss {best} if all of the excess is batch noise, {same} as with a constant batch "
        f"if none is; {noise}"
    )


def percent(ratio: float) -> str:
    """The change that a ratio to a constant batch's value stands for."""
    return f"{100 * (ratio - 1.0):+.3g} %"
