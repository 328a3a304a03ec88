"""Published laws of loss curves: a file each, all fitted by the same recipe."""

from batchlaw.from_data.laws.published.base import FittedCurve, PublishedLaw
from batchlaw.from_data.laws.published.descent import MultiPowerDescent
from batchlaw.from_data.laws.published.forcing_memory import ForcingMemoryLaw
from batchlaw.from_data.laws.published.functional import FunctionalScalingLaw
from batchlaw.from_data.laws.published.momentum import MomentumLaw
from batchlaw.from_data.laws.published.multi_power import MultiPowerLaw

PUBLISHED: tuple[PublishedLaw, ...] = (
    MultiPowerDescent(),
    MultiPowerLaw(),
    MomentumLaw(),
    FunctionalScalingLaw(),
    ForcingMemoryLaw(),
)

__all__ = ["PUBLISHED", "FittedCurve", "PublishedLaw"]
