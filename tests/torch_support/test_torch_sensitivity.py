"""Measured sensitivity against influence on quadratics, where influence is exact."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import batchlaw as bl  # noqa: E402
from batchlaw.influences.adaptive import adam_influence  # noqa: E402
from batchlaw.torch_support.sensitivity import measured_sensitivity  # noqa: E402
from refused import refused  # noqa: E402

pytestmark = pytest.mark.torch

torch.set_num_threads(1)

MU = torch.tensor([1.0, 0.5, 0.2, 0.08], dtype=torch.float64)
NOISE = torch.tensor([0.3, 0.5, 0.1, 0.2], dtype=torch.float64)
UPDATES = (1, 4, 7, 10, 12)
RATES = bl.wsd(12, 0.3)


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.drop = nn.Dropout(0.5)


def noisy_quadratic(model, kick):
    """Gradient mu x + kick: the noise does not depend on where the run is."""
    return 0.5 * (MU * model.x**2).sum() + kick @ model.x


def kicks(_, generator):
    return NOISE.sqrt() * torch.randn(4, dtype=torch.float64, generator=generator)


def excess(model):
    return 0.5 * (MU * model.x**2).sum()


def sgd(**options):
    def start():
        model = Point()
        return model, torch.optim.SGD([model.x], lr=0.1, **options)

    return start


def noise_weight():
    return (NOISE / MU).numpy()


@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}], ids=str
)
def test_sensitivity_agrees_with_influence_on_a_quadratic(options):
    found = measured_sensitivity(
        sgd(**options), noisy_quadratic, kicks, excess, RATES, UPDATES, draws=30
    )
    rule = bl.sgd(**options, pytorch=bool(options))
    kappa = bl.influence(MU, RATES, multiplicity=noise_weight(), rule=rule)
    predicted = 0.5 * kappa[found.updates - 1]
    assert np.abs((found.mean - predicted) / found.error).max() < 3.0
    assert found.error.max() < 0.3 * predicted.max()
    ratio, error = found.ratio(predicted)
    assert abs(ratio - 1.0) < 3.0 * error < 0.5
    correlation, spread = found.correlation(predicted)
    assert correlation > 0.9
    assert spread < 0.1


def test_the_second_difference_is_exact_draw_by_draw_on_a_quadratic():
    """Linear dynamics: one kick's effect is half its squared displacement, at any scale."""
    runs = [
        measured_sensitivity(
            sgd(momentum=0.5), noisy_quadratic, kicks, excess, RATES, [5], draws=3, scale=scale
        )
        for scale in (0.1, 1.0, 5.0)
    ]
    for run in runs:
        np.testing.assert_allclose(run.effects, runs[1].effects, rtol=1e-9)
        np.testing.assert_allclose(run.drift, 0.0, atol=1e-13)
        np.testing.assert_array_equal(run.with_drift().effects, run.effects + run.drift)


def test_the_noise_of_an_early_update_slows_adam_down():
    """Far from the optimum: the noise enlarges v, later updates are smaller, the loss ends higher.

    That drift is no part of the influence, and here the larger part of the effect."""

    def start():
        model = Point()
        with torch.no_grad():
            model.x.fill_(3.0)
        return model, torch.optim.Adam([model.x], lr=0.1)

    rates = np.full(15, 0.1)
    found = measured_sensitivity(start, noisy_quadratic, kicks, excess, rates, [2, 9], draws=10)
    assert found.drift.mean(axis=0)[0] > 3.0 * found.drift.std(axis=0)[0] / np.sqrt(10)
    assert found.between(1, 5).updates.tolist() == [2]


def frozen_adam(beta1=0.9, decay=0.0):
    """Real AdamW in mid-run whose second moments hardly move: beta2 near 1, v given."""

    def start():
        model = Point()
        optimizer = torch.optim.AdamW(
            [model.x], lr=0.1, betas=(beta1, 1.0 - 1e-14), eps=0.0, weight_decay=decay
        )
        optimizer.state[model.x] = {
            "step": torch.tensor(1e18),
            "exp_avg": torch.zeros(4, dtype=torch.float64),
            "exp_avg_sq": P.square(),
        }
        return model, optimizer

    return start


P = torch.tensor([2.0, 0.7, 0.4, 0.1], dtype=torch.float64)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_sensitivity_of_torch_adam_with_frozen_scales_agrees_with_influence(decay):
    found = measured_sensitivity(
        frozen_adam(decay=decay), noisy_quadratic, kicks, excess, RATES, UPDATES, draws=30
    )
    kappa = adam_influence(
        MU / P, RATES, noise=(NOISE / P).numpy(), weight_decay=decay, debias=False
    )
    predicted = 0.5 * kappa[found.updates - 1]
    assert np.abs((found.mean - predicted) / found.error).max() < 3.0


def test_sensitivity_of_real_adam_is_near_influence_at_its_stationary_scales():
    """Starting from v = E g^2 at stationarity; the noise moves v, which frozen scales ignore."""
    second = NOISE.sqrt()

    def start():
        model = Point()
        optimizer = torch.optim.Adam([model.x], lr=0.1, betas=(0.9, 0.99))
        optimizer.state[model.x] = {
            "step": torch.tensor(1000.0),
            "exp_avg": torch.zeros(4, dtype=torch.float64),
            "exp_avg_sq": second.square(),
        }
        return model, optimizer

    rates = bl.wsd(40, 0.05)
    found = measured_sensitivity(
        start, noisy_quadratic, kicks, excess, rates, (5, 10, 20, 30, 40), draws=24
    )
    kappa = adam_influence(MU / second, rates, noise=(NOISE / second).numpy(), debias=False)
    ratio, error = found.ratio(0.5 * kappa[found.updates - 1])
    assert abs(ratio - 1.0) < 0.15 + 2.0 * error
    assert found.correlation(kappa[found.updates - 1])[0] > 0.95


def test_branches_share_everything_else():
    """No noise at the branched update: three equal branches, also with dropout and Adam."""

    def loss(model, kick):
        return 0.5 * (MU * model.drop(model.x - kick) ** 2).sum()

    def start():
        model = Point()
        return model, torch.optim.Adam([model.x], lr=0.1)

    def batch(t, generator):
        kick = kicks(t, generator)
        return torch.ones(4, dtype=torch.float64) if t == 3 else kick

    first = measured_sensitivity(start, loss, batch, excess, RATES, [2, 4], draws=2, seed=7)
    again = measured_sensitivity(start, loss, batch, excess, RATES, [2, 4], draws=2, seed=7)
    np.testing.assert_array_equal(first.effects, again.effects)
    assert (first.effects != 0.0).all()

    def quiet():
        model = Point()
        model.drop.p = 0.0
        return model, torch.optim.Adam([model.x], lr=0.1)

    none = measured_sensitivity(quiet, loss, batch, excess, RATES, [3], draws=2)
    np.testing.assert_array_equal(none.effects, 0.0)


def test_groups_keep_the_ratio_of_their_rates():
    seen = []

    def start():
        model = Point()
        groups = [{"params": [model.x], "lr": 0.1}, {"params": list(nn.Linear(1, 1).parameters())}]
        optimizer = torch.optim.SGD(groups, lr=0.02)
        optimizer.register_step_pre_hook(
            lambda opt, *_: seen.append([g["lr"] for g in opt.param_groups])
        )
        return model, optimizer

    measured_sensitivity(start, noisy_quadratic, kicks, excess, RATES, [12], draws=2)
    np.testing.assert_allclose(seen[:11], np.outer(RATES[:11], [1.0, 0.2]), rtol=1e-12)


def test_bad_input_is_refused_in_one_line():
    given = (sgd(), noisy_quadratic, kicks, excess, RATES)
    with refused("updates"):
        measured_sensitivity(*given, [13])
    with refused("draws"):
        measured_sensitivity(*given, [1], draws=1)
    found = measured_sensitivity(*given, [11, 12], draws=2)
    with refused("predicted"):
        found.ratio([1.0])
    with refused("predicted"):
        found.correlation([1.0, 2.0])
