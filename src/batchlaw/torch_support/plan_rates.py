"""PlanRates: the learning rates of a plan, in step with the sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.plans.plan import Plan
from batchlaw.torch_support.plan_sampler import PlanSampler, digest

UPDATES = "updates of the state"


class PlanRates(LRScheduler):
    """A learning-rate scheduler: update t runs at the plan's rate t, times the group's scale.

    Call ``step()`` once per update, after the optimizer's. The optimizer's own rate is replaced.

    Parameters
    ----------
    optimizer
        The optimizer whose rates are set.
    plan
        A Plan, or the (T,) rates of the updates.
    sampler
        The sampler of the same run. A sampler of another plan is refused, and so is a step or
        a state where the two have counted different updates.
    scales
        One factor per parameter group; needed where the groups start at different rates.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        plan: Plan | ArrayLike,
        *,
        sampler: PlanSampler | None = None,
        scales: Sequence[float] | None = None,
    ) -> None:
        self.rates = checks.vector("rates", plan.rates if isinstance(plan, Plan) else plan)
        self.scales = _check_scales(optimizer, scales)
        if sampler is not None:
            _refuse_another_plan(plan, self.rates.size, sampler)
        self.sampler = sampler
        super().__init__(optimizer)

    @property
    def updates(self) -> int:
        """Updates done; the next one runs at ``rates[updates]``."""
        return int(self.last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Rates of the groups for the next update; after the last update, its rates."""
        rate = float(self.rates[min(self.updates, self.rates.size - 1)])
        return [rate * scale for scale in self.scales]

    def step(self, epoch: int | None = None) -> None:
        """Go to the rate of the next update."""
        if epoch is not None:
            raise InputError("epoch", "must be called without an epoch", f"{epoch}", subject="step")
        if self.updates >= self.rates.size:
            raise InputError(
                "step", f"must be called at most {self.rates.size} times, once per update"
            )
        if self.updates >= 0:  # the constructor's own call brings it to 0
            self._refuse_more_groups()
            self._refuse_another_position(self.updates + 1)
        super().step()

    def state_dict(self) -> dict[str, Any]:
        """The updates done, and a digest of the rates; valid only between two updates."""
        self._refuse_another_position(self.updates)
        return {"updates": self.updates, **self._identity()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at a saved update; with a sampler, load its state first."""
        identity = self._identity()
        missing = {"updates", *identity} - set(state_dict)
        if missing:
            got = f"none of {sorted(missing)}"
            raise InputError("state_dict", "must be of PlanRates", got, subject="state")
        for name, value in identity.items():
            if state_dict[name] != value:
                raise InputError(
                    "state_dict",
                    f"must have the same {name}: {value}",
                    f"{state_dict[name]}",
                    subject="state",
                )
        updates = checks.count("state_dict", state_dict["updates"], 0, subject=UPDATES)
        if updates > self.rates.size:
            raise InputError(
                "state_dict",
                f"must be at most {self.rates.size}",
                f"{updates}",
                subject=UPDATES,
            )
        self._refuse_more_groups()
        self._refuse_another_position(updates)
        self.last_epoch, self._step_count = updates, updates + 1
        self._set_rates()

    def _set_rates(self) -> None:
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _identity(self) -> dict[str, Any]:
        return {"rates": digest(self.rates), "scales": list(self.scales)}

    def _refuse_more_groups(self) -> None:
        groups = len(self.optimizer.param_groups)
        if groups != len(self.scales):
            raise InputError(
                "optimizer",
                f"must have all its groups before PlanRates is made: {len(self.scales)} then",
                f"{groups}",
            )

    def _refuse_another_position(self, updates: int) -> None:
        if self.sampler is not None and self.sampler.updates != updates:
            raise InputError(
                "sampler",
                "must be at the same update",
                f"{updates} and {self.sampler.updates}",
                subject=f"rates and {arg('sampler')}",
            )


def _check_scales(optimizer: Optimizer, scales: Sequence[float] | None) -> tuple[float, ...]:
    groups = optimizer.param_groups
    if scales is None:
        starts = sorted({float(group["lr"]) for group in groups})
        if len(starts) > 1:
            raise InputError("scales", f"must be given for groups that start at different {starts}")
        return (1.0,) * len(groups)
    if len(scales) != len(groups):
        raise InputError(
            "scales", f"must have one entry per group: {len(groups)}", f"{len(scales)}"
        )
    return tuple(checks.real("scales", scale, at_least=0.0) for scale in scales)


def _refuse_another_plan(plan: Plan | ArrayLike, steps: int, sampler: PlanSampler) -> None:
    if steps != sampler.batches.size:
        raise InputError(
            "sampler",
            "must have the same updates",
            f"{steps} and {sampler.batches.size}",
            subject=f"rates and {arg('sampler')}",
        )
    if isinstance(plan, Plan) and not np.array_equal(plan.batches, sampler.batches):
        raise InputError(
            "sampler",
            "must come from one plan",
            "other batches",
            subject=f"rates and {arg('sampler')}",
        )
