"""Spectra of PyTorch models against dense matrices, in float64."""

import json
import re
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.func import functional_call, hessian, jacrev  # noqa: E402
from torch.nn import functional  # noqa: E402

from batchlaw.faces.cli import main  # noqa: E402
from batchlaw.torch_support.spectra import (  # noqa: E402
    KINDS,
    adam_preconditioner,
    gradient_noise_scale,
    model_spectrum,
)
from refused import refused  # noqa: E402

torch.set_num_threads(1)
# torch warns of itself: its first forward derivative compiles helpers with torch.jit.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


def half_square(output, target):
    return 0.5 * ((output.squeeze(-1) - target) ** 2).mean()


def features(n=60, d=12, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.7
    return torch.tensor(Z), torch.tensor(Z @ rng.standard_normal(d) + rng.standard_normal(n))


def linear(d=12):
    torch.manual_seed(0)
    return nn.Linear(d, 1, bias=False, dtype=torch.float64)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def classes(n=60):
    return features(n)[0], torch.arange(n) % 3


def dense_matrices(model, loss, data):
    """Gauss-Newton, Hessian and gradient covariance as matrices, by other calls than ours."""
    names = [k for k, _ in model.named_parameters()]
    shapes = [w.shape for w in model.parameters()]
    flat = torch.cat([w.detach().reshape(-1) for w in model.parameters()])
    inputs, targets = data

    def outputs(w):
        parts = torch.split(w, [s.numel() for s in shapes])
        tree = {k: p.view(s) for k, p, s in zip(names, parts, shapes, strict=True)}
        return functional_call(model, tree, (inputs,))

    n = len(inputs)
    J = jacrev(outputs)(flat)
    out = outputs(flat)
    G = torch.zeros(flat.numel(), flat.numel(), dtype=flat.dtype)
    g = []
    for i in range(n):
        inner = hessian(lambda f, i=i: loss(f[None], targets[i : i + 1]))(out[i])
        G += J[i].T @ inner @ J[i] / n
        g.append(jacrev(lambda w, i=i: loss(outputs(w)[i : i + 1], targets[i : i + 1]))(flat))
    g = torch.stack(g)
    H = hessian(lambda w: loss(outputs(w), targets))(flat)
    C = (g - g.mean(0)).T @ (g - g.mean(0)) / n
    return dict(zip(KINDS, (x.detach().numpy() for x in (G, H, C)), strict=True)), g.detach()


CASES = {
    "regression": (linear, half_square, features),
    "logistic": (
        linear,
        lambda f, y: functional.binary_cross_entropy_with_logits(f.squeeze(-1), (y > 0).to(f)),
        features,
    ),
    "network": (mlp, functional.cross_entropy, classes),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_leading_eigenvalues_match_the_dense_matrix(case, kind):
    make, loss, draw = CASES[case]
    model, data = make(), draw()
    matrices, _ = dense_matrices(model, loss, data)
    found = model_spectrum(model, loss, data, count=5, kind=kind, chunk=17, noise=True)
    values, vectors = np.linalg.eigh(matrices[kind])
    size = abs(values).max()
    np.testing.assert_allclose(found.eigenvalues, values[::-1][:5], atol=1e-10 * size, rtol=0)
    top = vectors[:, ::-1][:, :5]
    C = matrices["gradient-covariance"]
    np.testing.assert_allclose(
        found.noise, np.einsum("ij,ik,kj->j", top, C, top), rtol=1e-7, atol=1e-12
    )
    assert found.residual < 1e-10
    assert found.samples == 60
    trace = np.trace(matrices[kind])
    assert abs(found.trace - trace) < 4 * found.trace_error + 1e-10 * size
    assert abs(found.noise_trace - np.trace(C)) < 4 * found.noise_trace_error + 1e-10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "scale"), [(nn.MSELoss(), 2.0), (nn.HuberLoss(delta=1e6), 1.0)])
def test_losses_without_forward_derivatives_have_spectra_too(loss, scale, kind):
    """Twice the half square, and the half square itself where no residual reaches delta."""
    inputs, targets = features()
    found = model_spectrum(linear(), loss, (inputs, targets[:, None]), count=4, kind=kind)
    ours = model_spectrum(linear(), half_square, (inputs, targets), count=4, kind=kind)
    power = 2 if kind == "gradient-covariance" else 1
    np.testing.assert_allclose(found.eigenvalues, scale**power * ours.eigenvalues, rtol=1e-9)


def test_all_eigenvalues_give_the_trace_exactly():
    found = model_spectrum(linear(), half_square, features(), count=50)
    Z = features()[0].numpy()
    np.testing.assert_allclose(
        found.eigenvalues, np.linalg.eigvalsh(Z.T @ Z / 60)[::-1], rtol=1e-10
    )
    assert found.trace == pytest.approx(np.trace(Z.T @ Z / 60), rel=1e-12)
    assert found.trace_error == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_preconditioned_products_match_the_dense_matrix(kind):
    model, data = mlp(), classes()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        functional.cross_entropy(model(data[0]), data[1]).backward()
        optimizer.step()
    P = adam_preconditioner(model, optimizer)
    second = torch.cat([optimizer.state[w]["exp_avg_sq"].reshape(-1) for w in model.parameters()])
    np.testing.assert_allclose(P, (second / (1 - 0.999**3)).sqrt() + 1e-8, rtol=1e-12)
    found = model_spectrum(
        model, functional.cross_entropy, data, count=4, kind=kind, preconditioner=P
    )
    root = P.sqrt().numpy()
    dense = dense_matrices(model, functional.cross_entropy, data)[0][kind] / np.outer(root, root)
    expected = np.linalg.eigvalsh(dense)[::-1][:4]
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-9, atol=1e-10 * expected[0])


def test_chunks_batches_and_single_precision_agree():
    model, (x, y) = mlp(), classes()
    options = {"count": 4, "kind": "gauss-newton"}
    whole = model_spectrum(model, functional.cross_entropy, (x, y), **options).eigenvalues
    batches = [(x[:25], y[:25]), (x[25:], y[25:])]
    other = model_spectrum(model, functional.cross_entropy, batches, **options).eigenvalues
    np.testing.assert_allclose(other, whole, rtol=1e-10)
    model.float()
    data = (x.float(), y)
    single = model_spectrum(model, functional.cross_entropy, data, **options).eigenvalues
    np.testing.assert_allclose(single, whole, rtol=1e-4)
    double = model_spectrum(model, functional.cross_entropy, data, double=True, **options)
    np.testing.assert_allclose(double.eigenvalues, whole, rtol=1e-5)
    assert next(model.parameters()).dtype == torch.float32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Embedding(7, 4)
        self.mix = nn.Linear(4, 12)
        self.drop = nn.Dropout(0.5)
        self.write = nn.Linear(4, 7)

    def forward(self, tokens):
        q, k, v = self.mix(self.read(tokens)).unsqueeze(1).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.write(self.drop(mixed.squeeze(1)))


def test_attention_works_and_the_mode_of_the_model_is_kept():
    torch.manual_seed(0)
    model = Attention().double()
    tokens = torch.randint(0, 7, (10, 6))

    def loss(f, y):
        return functional.cross_entropy(f.flatten(0, 1), y.flatten())

    data = (tokens[:, :-1], tokens[:, 1:])
    for kind in KINDS:
        assert model_spectrum(model, loss, data, count=3, kind=kind).residual < 1e-9
    scale = gradient_noise_scale(model, loss, data)
    assert scale.trace > 0.0
    assert model.training
    assert model.drop.training


class Tied(nn.Module):
    """One matrix reads and writes, a normalisation in between, and a layer that nobody uses."""

    def __init__(self):
        super().__init__()
        self.read = nn.Embedding(5, 3)
        self.normal = nn.BatchNorm1d(3)
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)
        self.write = nn.Linear(3, 5, bias=False)
        self.write.weight = self.read.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, tokens):
        return self.write(torch.tanh(self.normal(self.read(tokens)) * self.scale))


def test_products_are_those_of_the_parameters_that_train_each_counted_once():
    """By plain autograd, one sample and one entry at a time, on the module itself."""
    torch.manual_seed(3)
    model = Tied().double()
    tokens = torch.randint(0, 5, (24,))
    with torch.no_grad():
        model.scale.uniform_(0.5, 2.0)
        model.normal.running_mean.uniform_(-1.0, 1.0)
        model.normal.running_var.uniform_(0.5, 2.0)
    data = (tokens, tokens.roll(1))
    weights = [model.read.weight, model.normal.weight, model.normal.bias]
    weights += [model.unused.weight, model.unused.bias]

    def gradient(value, create=False):
        parts = torch.autograd.grad(
            value, weights, create_graph=create, retain_graph=True, allow_unused=True
        )
        pairs = zip(parts, weights, strict=True)
        return torch.cat([(torch.zeros_like(w) if g is None else g).reshape(-1) for g, w in pairs])

    model.eval()
    d = sum(w.numel() for w in weights)
    G, H, rows = torch.zeros(d, d), torch.zeros(d, d), []
    for x, y in zip(*data, strict=True):
        out = model(x[None])
        loss = functional.cross_entropy(out, y[None])
        slopes = gradient(loss, create=True)
        rows.append(slopes.detach())
        H = H + torch.stack([gradient(s) if s.requires_grad else 0 * slopes for s in slopes]) / 24
        J = torch.stack([gradient(f) for f in out[0]])
        p = out[0].softmax(0).detach()
        G = G + J.T @ (torch.diag(p) - torch.outer(p, p)) @ J / 24
    g = torch.stack(rows)
    C = (g - g.mean(0)).T @ (g - g.mean(0)) / 24
    model.train()
    for kind, dense in zip(KINDS, (G, H, C), strict=True):
        found = model_spectrum(
            model, functional.cross_entropy, data, kind=kind, noise=True, chunk=7
        )
        assert found.dimension == d
        expected = np.linalg.eigvalsh(dense.detach().numpy())[::-1]
        np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-12)
        assert found.noise_trace == pytest.approx(float(C.trace()), rel=1e-10)
    scale = gradient_noise_scale(model, functional.cross_entropy, data, chunk=5)
    trace = float(g.var(0, correction=1).sum())
    assert scale.scale == pytest.approx(trace / (float((g.mean(0) ** 2).sum()) - trace / 24))
    assert model.normal.training


def test_noise_scale_matches_its_definition_and_a_real_jackknife():
    model, data = linear(), features()
    _, g = dense_matrices(model, half_square, data)

    def parts(g):
        n = len(g)
        trace = float(g.var(0, correction=1).sum())
        return trace, float((g.mean(0) ** 2).sum()) - trace / n

    found = gradient_noise_scale(model, half_square, data, chunk=7)
    trace, square = parts(g)
    assert found.trace == pytest.approx(trace, rel=1e-10)
    assert found.gradient_square == pytest.approx(square, rel=1e-10)
    assert found.scale == pytest.approx(trace / square, rel=1e-10)
    keep = [torch.arange(60) != k for k in range(60)]
    left = np.array([parts(g[k]) for k in keep])
    for values, error in (
        (left[:, 0], found.trace_error),
        (left[:, 1], found.gradient_square_error),
        (left[:, 0] / left[:, 1], found.scale_error),
    ):
        jackknife = np.sqrt(59 / 60 * ((values - values.mean()) ** 2).sum())
        assert error == pytest.approx(jackknife, rel=1e-8)
    pairs = gradient_noise_scale(model, half_square, data, batch=2)
    trace, square = parts(g.view(30, 2, -1).mean(1))
    assert pairs.trace == pytest.approx(2 * trace, rel=1e-10)
    assert pairs.gradient_square == pytest.approx(square, rel=1e-10)
    P = torch.linspace(0.5, 2.0, 12, dtype=torch.float64)
    scaled = gradient_noise_scale(model, half_square, data, preconditioner=P)
    trace, square = parts(g / P.sqrt())
    assert scaled.trace == pytest.approx(trace, rel=1e-10)
    assert scaled.gradient_square == pytest.approx(square, rel=1e-10)


@pytest.mark.parametrize("batch", [1, 4])
def test_noise_scale_of_gaussian_regression_matches_the_closed_form(batch):
    """tr(C) = tr(Sigma) (m.Sigma m + s2) + |Sigma m|^2 and g = Sigma m."""
    rng = np.random.default_rng(2)
    sigma = np.arange(1, 9) ** -1.5
    m = rng.standard_normal(8)
    Z = rng.standard_normal((4000, 8)) * np.sqrt(sigma)
    model = linear(8)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(m)[None])
    data = (torch.tensor(Z), torch.tensor(0.7 * rng.standard_normal(4000)))
    found = gradient_noise_scale(model, half_square, data, batch=batch)
    square = ((sigma * m) ** 2).sum()
    trace = sigma.sum() * ((sigma * m**2).sum() + 0.49) + square
    assert abs(found.trace - trace) < 3 * found.trace_error < 0.3 * trace
    assert abs(found.gradient_square - square) < 3 * found.gradient_square_error < 0.3 * square
    assert abs(found.scale - trace / square) < 3 * found.scale_error < 0.4 * trace / square


def test_noise_scale_is_infinite_where_the_gradient_is_lost_in_noise():
    model = linear(4)
    with torch.no_grad():
        model.weight.zero_()
    x = torch.ones(4, 4, dtype=torch.float64)
    found = gradient_noise_scale(model, half_square, (x, torch.tensor([1.0, -1.0, 1.0, -1.0])))
    assert found.scale == found.scale_error == np.inf


def test_bad_input_is_refused_in_one_line():
    model, data = linear(), features()
    with refused("kind"):
        model_spectrum(model, half_square, data, kind="fisher")
    with refused("loss"):
        model_spectrum(model, lambda f, y: ((f[:, 0] - y) ** 2).sum(), data)
    # Also where the two losses are small, and where they all but cancel.
    with refused("loss"):
        model_spectrum(model, lambda f, y: 1e-9 * ((f[:, 0] - y) ** 2).sum(), data)
    model_spectrum(model, lambda f, y: (f[:, 0] * 0.0 + 1.0 - 2.0 * (y > y[:1])).mean(), data)
    with refused("preconditioner"):
        model_spectrum(model, half_square, data, preconditioner=torch.ones(3))
    with refused("preconditioner"):
        model_spectrum(model, half_square, data, preconditioner=torch.zeros(12))
    with refused("optimizer"):
        adam_preconditioner(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with refused("data"):
        gradient_noise_scale(model, half_square, data, batch=40, chunk=2)


X, Y = features()
BAD_DATA = {
    "an iterator": (iter([(X, Y)]), "data"),
    "one tensor": (X, "data"),
    "arrays": ((X.numpy(), Y.numpy()), "data"),
    "two inputs": ([((X, X), Y)], "data"),
    "three": ((X, Y, Y), "data"),
    "lengths": ((X, Y[:32]), "data"),
    "nothing": ([], "data"),
    "nan": ((X.clone().fill_diagonal_(np.nan), Y), "loss"),
    "a late nan": (
        (torch.where(torch.arange(60)[:, None] == 50, np.nan, X), Y),
        "loss",
    ),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_in_one_line(name):
    data, field = BAD_DATA[name]
    for measure in (model_spectrum, gradient_noise_scale):
        with refused(field) as error:
            measure(linear(), half_square, data)
        assert "\n" not in str(error.value)


def test_a_model_or_loss_of_another_kind_is_refused_in_one_line():
    data = features()
    with refused("model"):
        model_spectrum(3, half_square, data)
    with refused("loss"):
        model_spectrum(linear(), 3, data)
    with refused("loss"):
        model_spectrum(linear(), lambda f, y: (f[:, 0] - y) ** 2, data)
    with refused("loss"):
        model_spectrum(linear(), lambda f, y: 1.0, data)
    with refused("model"):
        model_spectrum(nn.LSTM(12, 2).double(), half_square, data)


MODULE = """
import numpy as np, torch
rng = np.random.default_rng(0)
Z = rng.standard_normal((80, 6)) * np.arange(1, 7) ** -0.7
y = Z @ rng.standard_normal(6) + rng.standard_normal(80)

def build():
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1, bias=False, dtype=torch.float64)
    loss = lambda out, y: 0.5 * ((out.squeeze(-1) - y) ** 2).mean()
    return model, loss, (torch.tensor(Z), torch.tensor(y))

def wrong():
    return 1

def two():
    return 1, 2

def raises():
    raise RuntimeError("no data\\nto be had")

def needs(path):
    return path

def shapes():
    model, loss, (inputs, targets) = build()
    return model, loss, (inputs[:, :5], targets)

def silent():
    model, loss, (inputs, targets) = build()
    return model, loss, (inputs, model(inputs).detach().squeeze(-1))

value = 3
"""


def test_estimate_takes_a_function_that_returns_a_model(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_training.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "my_training", raising=False)  # of a page's commands
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    command = ["estimate", "my_training:build", "--steps", "32", "--gamma", "0.1"]
    assert main([*command, "--output-dir", str(out)]) == 0
    assert "6 parameters, 80 samples" in capsys.readouterr().out
    document = json.loads((out / "estimate.json").read_text())
    import my_training

    covariance = my_training.Z.T @ my_training.Z / 80
    np.testing.assert_allclose(
        document["spectrum"]["eigenvalues"], np.linalg.eigvalsh(covariance)[::-1], rtol=1e-8
    )
    assert len(document["influence"]) == 32
    run = ["--optimizer", "sgd", "--steps", "32", "--budget", "256"]
    assert main(["plan", "--problem", str(out / "spectrum.csv"), *run]) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:build", "must be a module and a function"),
        ("math:no_such_function", "must be a module and a function"),
        (":build", "must be a module and a function"),
        ("my_training:value", "my_training has no function 'value'"),
        ("my_training:wrong", r"must return \(model, loss, data\), got int"),
        ("my_training:two", r"must return \(model, loss, data\), got a tuple of 2"),
        ("my_training:raises", r"it raised RuntimeError: no data \(my_training.py:\d+\)"),
        ("my_training:needs", "it raised TypeError: needs.* missing 1 required"),
        ("my_training:shapes", "must run with its derivatives: RuntimeError: mat1 and mat2"),
        ("my_training:silent", "must have gradient noise"),
        ("typo:build", "must be a module and a function in it: SyntaxError"),
    ],
)
def test_a_function_that_is_not_one_is_refused_in_one_line(
    tmp_path, monkeypatch, capsys, name, words
):
    (tmp_path / "my_training.py").write_text(MODULE)
    (tmp_path / "typo.py").write_text("def build(:")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_training", raising=False)
    path = sys.path.copy()
    assert main(["estimate", name, "--steps", "32"]) == 2
    assert sys.path == path
    error = capsys.readouterr().err
    assert re.search(words, error)
    assert error.count("\n") == 1


def test_options_of_files_are_refused_with_a_model(capsys):
    assert main(["estimate", "my_training:build", "--centre"]) == 2
    assert "--centre is for files, got my_training:build" in capsys.readouterr().err
