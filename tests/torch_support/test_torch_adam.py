"""Adam's steps against PyTorch's own optimizers, on the same batches."""

import numpy as np
import pytest
import torch

import batchlaw as bl
from batchlaw.risk import runs

pytestmark = pytest.mark.torch

RATES = bl.wsd(40, 0.05)
BATCHES = np.tile([1, 4, 2, 3], 10)


def trained(optimizer, features, labels):
    """The weights after one pass with ``optimizer(weights)``, rates set before each step."""
    weights = torch.zeros(features.shape[1], dtype=torch.float64, requires_grad=True)
    stepper = optimizer([weights])
    ends = np.cumsum(BATCHES)
    for rate, start, end in zip(RATES, ends - BATCHES, ends, strict=True):
        stepper.param_groups[0]["lr"] = float(rate)
        z, y = torch.from_numpy(features[start:end]), torch.from_numpy(labels[start:end])
        stepper.zero_grad()
        (0.5 * ((z @ weights - y) ** 2).mean()).backward()
        stepper.step()
    return weights.detach().numpy()


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.9), (0.95, 0.95)])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_are_those_of_torch(small, betas, decay):
    features, labels = small.sample(int(BATCHES.sum()), seed=2)
    rule = bl.adam(*betas, eps=1e-6, weight_decay=decay)
    ours = runs.one_pass_sgd((features, labels), RATES, BATCHES, rule=rule)
    options = {"betas": betas, "eps": 1e-6}
    theirs = trained(
        lambda weights: torch.optim.AdamW(weights, weight_decay=decay, **options), features, labels
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    if not decay:
        plain = trained(lambda weights: torch.optim.Adam(weights, **options), features, labels)
        np.testing.assert_allclose(ours, plain, rtol=1e-9)
