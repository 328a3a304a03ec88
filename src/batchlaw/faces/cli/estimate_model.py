"""``batchlaw estimate module:function``: spectrum, noise and influence of a PyTorch model."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.faces.cli.table import sparkline
from batchlaw.influences.weights import influence
from batchlaw.model.model_spectrum import ModelSpectrum, NoisyNodes


def load(name: str) -> Any:
    """Call ``module:function`` and return its (model, loss, data)."""
    module, _, function = name.partition(":")
    wanted = "must be a module and a function in it"
    try:
        factory = getattr(importlib.import_module(module), function, None)
    except Exception as error:
        raise InputError("features", wanted, hint=_described(error), subject=name) from None
    if not callable(factory):
        raise InputError(
            "features", wanted, hint=f"{module} has no function {function!r}", subject=name
        )
    try:
        loaded = factory()
    except Exception as error:
        raise InputError(
            "features",
            f"must return (model, loss, data), it raised {_described(error)}",
            subject=name,
        ) from None
    if not isinstance(loaded, tuple) or len(loaded) != 3:
        got = f"a tuple of {len(loaded)}" if isinstance(loaded, tuple) else type(loaded).__name__
        raise InputError("features", "must return (model, loss, data)", got, subject=name)
    return loaded


def _described(error: Exception) -> str:
    """An error of the user's code in one line, with the place that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = [f for f in frames if not f.filename.startswith("<")][-1]
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first} ({Path(place.filename).name}:{place.lineno})"


@contextmanager
def _working_directory() -> Iterator[None]:
    """Make modules in the working directory importable."""
    directory = os.getcwd()
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        # By value, not by position: the imported code may have inserted paths before it.
        if directory in sys.path:
            sys.path.remove(directory)


def estimate_model(
    name: str, gamma: FloatArray, count: int, kind: str, seed: int, output_dir: Path | None
) -> tuple[str, dict[str, Any]]:
    """The report as text and as a document; also writes files if a directory is given."""
    output = None if output_dir is None else OutputDirectory(output_dir)
    try:
        from batchlaw.torch_support.spectra import gradient_noise_scale, model_spectrum
    except ModuleNotFoundError as error:
        raise InputError("features", "needs PyTorch for a model", hint=str(error)) from None
    with _working_directory():
        loaded = load(name)
        try:
            spectrum = model_spectrum(*loaded, count=count, kind=kind, noise=True, seed=seed)
            scale = gradient_noise_scale(*loaded)
        except (TypeError, AttributeError, LookupError, RuntimeError) as error:
            raise InputError(
                "features",
                "must run with its derivatives",
                hint=_described(error),
                subject=name,
            ) from None
    nodes = spectrum.nodes()
    kappa = influence(spectrum, gamma)
    if not kappa.any():
        raise InputError(
            "features",
            "must have gradient noise, all samples have the same gradient",
            subject=name,
        )
    document = {
        "model": name,
        "spectrum": {key: _plain(value) for key, value in asdict(spectrum).items()},
        "noise_scale": {key: _plain(value) for key, value in asdict(scale).items()},
        "influence": kappa.tolist(),
        "rates": gamma.tolist(),
        "batchlaw": __version__,
    }
    if output is not None:
        with output.transaction() as files:
            files.json("estimate.json", document)
            files.csv("spectrum.csv", _rows(nodes))
            files.csv(
                "influence.csv",
                [
                    {"step": t + 1, "rate": gamma[t], "influence": kappa[t]}
                    for t in range(kappa.size)
                ],
            )
    return _report(spectrum, scale, kappa), document


def print_model(report: str, document: dict[str, Any], as_json: bool) -> None:
    """Print the report, or the document as JSON."""
    print(json.dumps(document, indent=2) if as_json else report)


def _plain(value: Any) -> Any:
    """Arrays as lists; infinities and NaN, which JSON cannot hold, as null."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _rows(nodes: NoisyNodes) -> list[dict[str, float]]:
    """Rows that plan reads: each direction is weighted by the noise it receives."""
    return [
        {"eigenvalue": float(mu), "energy": 0.0, "multiplicity": float(weight)}
        for mu, weight in zip(nodes.eigenvalues, nodes.weight, strict=True)
    ]


def _report(spectrum: ModelSpectrum, scale: Any, kappa: FloatArray) -> str:
    wide = (sys.stdout.encoding or "").lower().startswith("utf")
    batches = np.sqrt(kappa)
    batches /= batches.mean()
    top = ", ".join(f"{x:.4g}" for x in spectrum.eigenvalues[:5])
    noise = f"{spectrum.noise_trace:.4g}" if spectrum.noise_trace is not None else "unknown"
    return "\n".join(
        [
            f"{spectrum.dimension} parameters, {spectrum.samples} samples, {spectrum.kind} matrix",
            f"largest eigenvalues {top}; trace {spectrum.trace:.4g} ± {spectrum.trace_error:.2g}",
            f"trace of the gradient noise {noise}; gradient noise scale {scale.scale:.4g} "
            f"± {scale.scale_error:.2g} samples",
            f"influence {sparkline(kappa, wide)}",
            f"batches   {sparkline(batches, wide)}",
            f"batches over their mean from {batches.min():.3g} to {batches.max():.3g}",
            "note: curvature at these weights, its unmeasured directions modelled by a power law",
        ]
    )
