"""Spectra of PyTorch models: leading eigenvalues by Lanczos, traces by Hutchinson, noise scale.

Matrices are used only through their products with vectors (``products``). The model is in
evaluation mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.model_spectrum import ModelSpectrum
from batchlaw.torch_support.products import Diagonal, Loss, Pairs, Products, products

KINDS = ("gauss-newton", "hessian", "gradient-covariance")
# Rounding of float32 products limits Lanczos to this.
SINGLE_TOLERANCE = 1e-5


@dataclass(frozen=True)
class NoiseScale:
    """tr(C) / |g|^2, C the covariance of one sample's gradient: unbiased parts, jackknife errors.

    ``scale`` is infinite where the unbiased |g|^2 is not positive: the data do not distinguish
    the mean gradient from zero.
    """

    scale: float
    scale_error: float
    trace: float
    trace_error: float
    gradient_square: float
    gradient_square_error: float


def model_spectrum(
    model: nn.Module,
    loss: Loss,
    data: Pairs,
    *,
    count: int = 50,
    kind: str = "gauss-newton",
    preconditioner: Diagonal | None = None,
    noise: bool = False,
    probes: int = 16,
    chunk: int = 512,
    double: bool = False,
    tolerance: float | None = None,
    seed: int = 0,
) -> ModelSpectrum:
    """Leading eigenvalues, trace and, optionally, the gradient noise along the eigenvectors.

    Lanczos costs a few products per eigenvalue, each a few passes over the data. The trace
    is the sum of the leading eigenvalues and a Hutchinson estimate of the rest, ``probes`` more
    products with random signs outside the leading directions: its error is that of the rest only.

    Parameters
    ----------
    model, loss
        ``loss(model(inputs), targets)`` is the mean over the samples of a chunk.
    data
        (inputs, targets), two tensors with samples along the first axis, or an iterable of such
        batches that gives the same samples every time (a list, a DataLoader).
    count
        Number of eigenvalues, the largest ones (not by modulus); at most the dimension.
    kind
        "gauss-newton", "hessian" or "gradient-covariance".
    preconditioner
        Diagonal P > 0, flat or one tensor per parameter (``adam_preconditioner``).
    noise
        Whether to measure c_j = v_j^T C v_j and tr(C).
    chunk
        Samples processed at a time, for a pair of tensors.
    double
        Compute in float64 on a copy of the model; floating-point data are converted.
    tolerance
        Relative tolerance of ``eigsh``: machine precision with ``double``, else 1e-5.
    """
    checks.choice("kind", kind, KINDS)
    count = checks.count("count", count)
    probes = checks.count("probes", probes, minimum=2)
    with products(model, loss, data, preconditioner, chunk, double) as matrix:
        d = matrix.dimension
        apply = {
            "gauss-newton": matrix.gauss_newton,
            "hessian": matrix.hessian,
            "gradient-covariance": matrix.covariance,
        }[kind]
        rng = np.random.default_rng(seed)
        single = 0.0 if matrix.dtype == torch.float64 else SINGLE_TOLERANCE
        tolerance = single if tolerance is None else tolerance
        values, vectors = _leading(apply, matrix, min(count, d), tolerance, rng)
        image = np.stack([matrix.through(apply, v) for v in vectors.T], axis=1)
        residual = np.linalg.norm(image - vectors * values, axis=0).max()
        signs = _outside(vectors, rng.choice([-1.0, 1.0], (d, probes)))
        trace, error = _trace(matrix, apply, values, signs)
        along = total = total_error = None
        if noise:
            along = np.array([v @ matrix.through(matrix.covariance, v) for v in vectors.T])
            total, total_error = _trace(matrix, matrix.covariance, along, signs)
        size = max(abs(float(values[0])), np.finfo(float).tiny)
        return ModelSpectrum(
            kind,
            values,
            trace,
            error,
            d,
            matrix.samples,
            along,
            total,
            total_error,
            float(residual) / size,
        )


def gradient_noise_scale(
    model: nn.Module,
    loss: Loss,
    data: Pairs,
    *,
    batch: int = 1,
    preconditioner: Diagonal | None = None,
    chunk: int = 128,
    double: bool = False,
) -> NoiseScale:
    """The batch size at which noise and gradient are equally large, at the model's weights.

    From the mean gradients g_k of n groups of ``batch`` samples and their mean g:
    tr(C) = batch (n/(n-1)) (mean |g_k|^2 - |g|^2) and |g|^2 minus tr(C)/N, both unbiased (the
    small- and large-batch estimates), with delete-one jackknife errors over the groups;
    samples that do not fill a group are ignored. Gradients of ``chunk`` groups are in memory at a
    time.
    With a preconditioner both are measured in P^{-1}.
    """
    batch = checks.count("batch", batch)
    chunk = checks.count("chunk", chunk)
    with products(model, loss, data, preconditioner, batch * chunk, double) as matrix:
        n = sum(matrix.size(x) // batch for x, _ in matrix.chunks())
        if n < 2:
            raise InputError(
                "data", f"needs two groups of {batch} samples", f"{n}", subject="noise scale"
            )
        mean = torch.stack([g.sum(0) for g in matrix.group_gradients(batch)]).sum(0) / n
        squares, dots = [], []
        for g in matrix.group_gradients(batch):
            squares.append((g**2).sum(1))
            dots.append(g @ mean)
        square, dot = (torch.cat(x).double().cpu().numpy() for x in (squares, dots))
        whole = float((mean.double() ** 2).sum())
    if not np.isfinite(square).all():
        raise InputError("loss", "must have finite derivatives on all of the data")
    trace, size = _noise_parts(square.mean(), whole, n, batch)
    # |(n g - g_k)/(n-1)|^2, the large-batch square without group k.
    without = (n**2 * whole - 2.0 * n * dot + square) / (n - 1.0) ** 2
    if n < 3:
        return NoiseScale(_ratio(trace, size), math.inf, trace, math.inf, size, math.inf)
    traces, sizes = _noise_parts((n * square.mean() - square) / (n - 1), without, n - 1, batch)

    def spread(x: FloatArray) -> float:
        return float(np.sqrt((n - 1) / n * ((x - x.mean()) ** 2).sum()))

    known = size > 0.0 and bool((sizes > 0.0).all())
    error = spread(traces / sizes) if known else math.inf
    return NoiseScale(_ratio(trace, size), error, trace, spread(traces), size, spread(sizes))


def adam_preconditioner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensor:
    """P = sqrt(v_hat) + eps of an Adam or AdamW state, flat, in the order of the parameters."""
    by_parameter: dict[int, Tensor] = {}
    for group in optimizer.param_groups:
        for w in group["params"]:
            state = optimizer.state.get(w, {})
            if "exp_avg_sq" in state:
                v = state["exp_avg_sq"] / (1.0 - group["betas"][1] ** float(state["step"]))
                by_parameter[id(w)] = v.sqrt() + group["eps"]
    parts = []
    for name, w in model.named_parameters():
        if w.requires_grad:
            if id(w) not in by_parameter:
                raise InputError("optimizer", f"must hold Adam's second moments of {name}", "none")
            parts.append(by_parameter[id(w)].detach().reshape(-1))
    return torch.cat(parts)


def _noise_parts(square: Any, whole: Any, n: int, batch: int) -> tuple[Any, Any]:
    trace = batch * n / (n - 1.0) * (square - whole)
    return trace, whole - trace / (n * batch)


def _ratio(trace: float, size: float) -> float:
    return trace / size if size > 0.0 else math.inf


def _leading(
    apply: Callable[[Tensor], Tensor],
    matrix: Products,
    count: int,
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """The largest eigenvalues, decreasing, and their vectors; dense where Lanczos cannot run."""
    d = matrix.dimension
    if count > d // 2 and d <= 2000:
        dense = np.stack([matrix.through(apply, e) for e in np.eye(d)], axis=1)
        values, vectors = np.linalg.eigh((dense + dense.T) / 2.0)
    else:
        if count >= d:
            raise InputError("count", f"must be below the {d} parameters", f"{count}")
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((d, d), lambda v: matrix.through(apply, v), dtype=np.float64)
        start = rng.standard_normal(d)
        values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=tolerance)
    order = np.argsort(-values, kind="stable")[:count]
    return values[order], vectors[:, order]


def _outside(vectors: FloatArray, signs: FloatArray) -> FloatArray:
    """Probes with the leading directions projected out."""
    out: FloatArray = signs - vectors @ (vectors.T @ signs)
    return out


def _trace(
    matrix: Products,
    apply: Callable[[Tensor], Tensor],
    leading: FloatArray,
    signs: FloatArray,
) -> tuple[float, float]:
    """tr A = sum_j v_j^T A v_j + E s^T A s over signs s outside the v_j."""
    known = float(leading.sum())
    if leading.size == matrix.dimension:
        return known, 0.0
    rest = np.array([s @ matrix.through(apply, s) for s in signs.T])
    return known + float(rest.mean()), float(rest.std(ddof=1) / math.sqrt(rest.size))
