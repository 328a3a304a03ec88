"""Plans in a PyTorch training loop: the only room that imports torch.

``PlanSampler`` yields the batches, ``PlanRates`` sets the learning rate, and both count the
same updates. See docs/training.md.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "batchlaw.torch_support must have PyTorch: install batchlaw with its extra, torch"
    ) from None

from batchlaw.torch_support.plan_rates import PlanRates
from batchlaw.torch_support.plan_sampler import PlanSampler
from batchlaw.torch_support.shares import MicroBatch

__all__ = ["MicroBatch", "PlanRates", "PlanSampler"]
