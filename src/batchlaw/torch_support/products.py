"""Products of a PyTorch model's matrices with vectors, averaged over the data in chunks.

With outputs f(x_i; w), loss l_i and gradients g_i the products are

    Gauss-Newton         mean_i J_i^T (d^2 l_i / df^2) J_i v
    Hessian              mean_i (d^2 l_i / dw^2) v
    gradient covariance  mean_i g_i (g_i . v) - g (g . v)

and for a diagonal P those of P^{-1/2} A P^{-1/2}.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError

Loss = Callable[[Any, Any], Tensor]
Pairs = tuple[Tensor, Tensor] | Iterable[tuple[Any, Any]]
Diagonal = Tensor | Sequence[Tensor]


class Products:
    """Products of one model's matrices with flat vectors, in the coordinates P^{1/2} w."""

    def __init__(
        self, model: nn.Module, loss: Loss, data: Pairs, root: Tensor | None, chunk: int
    ) -> None:
        self.model, self.loss, self.data, self.chunk = model, loss, data, chunk
        self.weights = {k: w.detach() for k, w in model.named_parameters() if w.requires_grad}
        if not self.weights:
            raise InputError("model", "must have parameters that require gradients", "none")
        self.rest = {k: w.detach() for k, w in model.named_parameters() if not w.requires_grad}
        self.rest |= dict(model.named_buffers())
        first = next(iter(self.weights.values()))
        self.dtype, self.device = first.dtype, first.device
        self.shapes = [w.shape for w in self.weights.values()]
        self.dimension = sum(w.numel() for w in self.weights.values())
        self.root = root
        self.samples = sum(self.size(x) for x, _ in self.chunks())
        if not self.samples:
            raise InputError("data", "must hold at least one sample", "none")
        self._check_mean()
        self._mean: Tensor | None = None

    @staticmethod
    def size(inputs: Any) -> int:
        return int(inputs.shape[0])

    def chunks(self) -> Iterator[tuple[Any, Any]]:
        data: Any = self.data
        if isinstance(data, tuple) and all(isinstance(x, Tensor) for x in data):
            _check_batch(data)
            data = zip(*(x.split(self.chunk) for x in data), strict=True)
        for batch in data:
            _check_batch(batch)
            inputs, targets = batch
            yield self._fit(inputs), self._fit(targets)

    def _fit(self, x: Tensor) -> Tensor:
        return x.to(self.device, self.dtype if x.is_floating_point() else None)

    def _check_mean(self) -> None:
        inputs, targets = next(iter(self.chunks()))
        outputs = self.outputs(self.weights, inputs[:2])
        if not isinstance(outputs, Tensor):
            raise InputError("model", "must return a tensor", type(outputs).__name__)
        joint = self._one_number(outputs, targets[:2])
        if self.size(inputs) < 2:
            return
        single = [self._one_number(outputs[i : i + 1], targets[i : i + 1]) for i in (0, 1)]
        # Losses of opposite signs may cancel, so the tolerance is relative to the larger one.
        tolerance = max(1e-3, 4.0 * torch.finfo(self.dtype).eps)
        if abs(joint - sum(single) / 2.0) > tolerance * max(abs(x) for x in single):
            raise InputError(
                "loss",
                "must be the mean over samples",
                hint=f"of two it is {joint:.6g}, where their mean is {sum(single) / 2.0:.6g}",
            )

    def _one_number(self, outputs: Tensor, targets: Any) -> float:
        value = self.loss(outputs, targets)
        if not isinstance(value, Tensor) or value.dim():
            got = (
                f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            )
            raise InputError("loss", "must return one number as a tensor", got)
        if not bool(torch.isfinite(value)):
            raise InputError("loss", "must be finite", f"{float(value)}")
        return float(value)

    def outputs(self, weights: dict[str, Tensor], inputs: Any) -> Tensor:
        out: Tensor = functional_call(self.model, weights | self.rest, (inputs,))
        return out

    def tree(self, vector: Tensor) -> dict[str, Tensor]:
        parts = torch.split(vector, [math.prod(shape) for shape in self.shapes])
        return {k: v.view(s) for k, v, s in zip(self.weights, parts, self.shapes, strict=True)}

    @staticmethod
    def flat(tree: dict[str, Tensor]) -> Tensor:
        return torch.cat([x.reshape(-1) for x in tree.values()])

    def through(self, apply: Callable[[Tensor], Tensor], vector: FloatArray) -> FloatArray:
        """P^{-1/2} A P^{-1/2} v, from NumPy to NumPy."""
        v = torch.as_tensor(vector, dtype=self.dtype, device=self.device).reshape(-1)
        out = apply(v if self.root is None else v / self.root)
        out = out if self.root is None else out / self.root
        result: FloatArray = out.double().cpu().numpy()
        if not np.isfinite(result).all():
            raise InputError("loss", "must have finite derivatives on all of the data")
        return result

    def gauss_newton(self, vector: Tensor) -> Tensor:
        total = torch.zeros_like(vector)
        for inputs, targets in self.chunks():
            out, tangent, pull = self._push(inputs, vector)
            slope = grad(lambda f, y=targets: self.loss(f, y))
            # Second derivatives are symmetric, so reverse mode, which every PyTorch loss supports.
            (curved,) = vjp(slope, out)[1](tangent)
            total += self.size(inputs) * self.flat(pull(curved)[0])
        return total / self.samples

    def hessian(self, vector: Tensor) -> Tensor:
        total = torch.zeros_like(vector)
        for inputs, targets in self.chunks():
            slope = grad(lambda w, x=inputs, y=targets: self.loss(self.outputs(w, x), y))
            (product,) = vjp(slope, self.weights)[1](self.tree(vector))
            total += self.size(inputs) * self.flat(product)
        return total / self.samples

    def covariance(self, vector: Tensor) -> Tensor:
        """Without per-sample gradients: g_i . v is a derivative along v."""
        total = torch.zeros_like(vector)
        for inputs, targets in self.chunks():
            out, tangent, pull = self._push(inputs, vector)
            slopes = self._slopes(out, targets)
            along = (slopes * tangent).flatten(1).sum(1)
            weighted = slopes * along.view(-1, *[1] * (slopes.dim() - 1))
            total += self.flat(pull(weighted)[0])
        mean = self.mean_gradient()
        return total / self.samples - mean * (mean @ vector)

    def mean_gradient(self) -> Tensor:
        if self._mean is None:
            total = torch.zeros(self.dimension, dtype=self.dtype, device=self.device)
            for inputs, targets in self.chunks():
                slope = grad(lambda w, x=inputs, y=targets: self.loss(self.outputs(w, x), y))
                total += self.size(inputs) * self.flat(slope(self.weights))
            self._mean = total / self.samples
        return self._mean

    def group_gradients(self, batch: int) -> Iterator[Tensor]:
        """Mean gradients of groups of ``batch`` samples, as rows, times P^{-1/2}."""
        slope = vmap(grad(lambda w, x, y: self.loss(self.outputs(w, x), y)), (None, 0, 0))
        for inputs, targets in self.chunks():
            n = self.size(inputs) // batch
            if n:
                x, y = (z[: n * batch].unflatten(0, (n, batch)) for z in (inputs, targets))
                rows = torch.cat([g.flatten(1) for g in slope(self.weights, x, y).values()], 1)
                yield rows if self.root is None else rows / self.root

    def _push(self, inputs: Any, vector: Tensor) -> tuple[Tensor, Tensor, Any]:
        def run(weights: dict[str, Tensor]) -> Tensor:
            return self.outputs(weights, inputs)

        tangent = jvp(run, (self.weights,), (self.tree(vector),))[1]
        out, pull = vjp(run, self.weights)[:2]
        return out, tangent, pull

    def _slopes(self, out: Tensor, targets: Any) -> Tensor:
        def one(f: Tensor, y: Tensor) -> Tensor:
            return self.loss(f[None], y[None])

        slopes: Tensor = vmap(grad(one))(out, targets)
        return slopes


@contextmanager
def products(
    model: nn.Module,
    loss: Loss,
    data: Pairs,
    preconditioner: Diagonal | None,
    chunk: int,
    double: bool,
) -> Iterator[Products]:
    """The products of a model in evaluation mode; its mode is restored.

    Attention runs as plain matrix products: the fused kernels have no forward derivatives.
    """
    chunk = checks.count("chunk", chunk)
    if not isinstance(model, nn.Module):
        raise InputError("model", "must be a torch.nn.Module", type(model).__name__)
    if not callable(loss):
        raise InputError("loss", "must be a function of outputs and targets", repr(loss))
    if not isinstance(data, Iterable) or isinstance(data, Iterator | Tensor):
        raise InputError(
            "data",
            "must be a pair of tensors, or batches that can be gone through many times "
            "(a list, a DataLoader)",
            type(data).__name__,
        )
    if double:
        model = copy.deepcopy(model).double()
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with sdpa_kernel(SDPBackend.MATH):
            matrix = Products(model, loss, data, None, chunk)
            matrix.root = _root(preconditioner, matrix)
            yield matrix
    finally:
        for module, training in modes:
            module.training = training


def _check_batch(batch: Any) -> None:
    kinds = [type(x).__name__ for x in batch] if isinstance(batch, tuple | list) else []
    if len(kinds) != 2 or not all(isinstance(x, Tensor) for x in batch):
        raise InputError(
            "data",
            "must be pairs of tensors, inputs and targets",
            ", ".join(kinds) or type(batch).__name__,
        )
    inputs, targets = batch
    if not inputs.dim() or not targets.dim() or len(inputs) != len(targets):
        raise InputError(
            "data",
            "must have the samples along their first axis",
            f"shapes {tuple(inputs.shape)} and {tuple(targets.shape)}",
            subject="inputs and targets",
        )


def _root(preconditioner: Diagonal | None, matrix: Products) -> Tensor | None:
    if preconditioner is None:
        return None
    parts = [preconditioner] if isinstance(preconditioner, Tensor) else list(preconditioner)
    flat = torch.cat([p.detach().reshape(-1) for p in parts]).to(matrix.device, matrix.dtype)
    if flat.numel() != matrix.dimension:
        raise InputError(
            "preconditioner",
            f"must have one entry for each of the {matrix.dimension} parameters",
            f"{flat.numel()}",
        )
    if not bool((torch.isfinite(flat) & (flat > 0)).all()):
        raise InputError("preconditioner", "must be positive and finite everywhere")
    return flat.sqrt()
