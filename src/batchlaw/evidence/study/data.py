"""Data available on every machine: scikit-learn's bundled datasets, and Python's sources."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError

SETS = ("digits", "diabetes", "breast_cancer", "wine")
RANDOM_FEATURES = 128
# Characters of the sources used for training, by short and by long runs, and for validation.
TRAINING_TEXT, LONG_TRAINING_TEXT, VALIDATION_TEXT = 2_000_000, 4_000_000, 200_000
# Newline, then the printable ASCII characters; anything else is read as "?".
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))


@dataclass(frozen=True, eq=False)
class Population:
    """A finite population that samples are drawn from with replacement: its law is known exactly.

    Features have mean zero and tr(Sigma) = 1; labels mean zero and variance 1.
    """

    features: FloatArray
    labels: FloatArray

    @property
    def covariance(self) -> FloatArray:
        out: FloatArray = self.features.T @ self.features / self.labels.size
        return out

    @property
    def optimum(self) -> FloatArray:
        """Least squares."""
        return np.asarray(np.linalg.lstsq(self.features, self.labels)[0], np.float64)

    @property
    def residual_variance(self) -> float:
        return float(np.mean((self.labels - self.features @ self.optimum) ** 2))


@lru_cache(maxsize=8)
def population(name: str) -> Population:
    """One of ``SETS``, or "digits-features": random features of digits."""
    base = "digits" if name == "digits-features" else name
    features, target = _bundled(base)
    features = _pixels(features) if base == "digits" else _standard(features)
    if name == "digits-features":
        rng = np.random.default_rng(7)
        weights = rng.standard_normal((features.shape[1], RANDOM_FEATURES))
        features = _pixels(np.maximum(features @ weights, 0.0))
    features = features / np.sqrt(np.mean((features**2).sum(axis=1)))
    return Population(features, (target - target.mean()) / target.std())


@lru_cache(maxsize=1)
def digits() -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
    """Training inputs and classes, then those of validation: every fourth image."""
    features, target = _bundled("digits")
    features, classes = _pixels(features), target.astype(np.int64)
    held = np.arange(classes.size) % 4 == 3
    return features[~held], classes[~held], features[held], classes[held]


def _bundled(name: str) -> tuple[FloatArray, FloatArray]:
    try:
        from sklearn import datasets
    except ModuleNotFoundError:
        raise InputError(
            "task",
            "must have scikit-learn",
            hint="install batchlaw with its extra, study",
            subject="batchlaw study",
        ) from None
    loaded: Any = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(loaded[0], np.float64), np.asarray(loaded[1], np.float64)


def _pixels(features: FloatArray) -> FloatArray:
    """Centred, on one scale: standardising each pixel would give rarely used ones long tails."""
    kept = features[:, features.std(axis=0) > 1e-9]
    out: FloatArray = (kept - kept.mean(axis=0)) / np.sqrt(kept.var(axis=0).mean())
    return out


def _standard(features: FloatArray) -> FloatArray:
    """Columns of mean zero and variance one; constant ones are dropped."""
    spread = features.std(axis=0)
    kept = spread > 1e-9
    out: FloatArray = (features[:, kept] - features[:, kept].mean(axis=0)) / spread[kept]
    return out


@dataclass(frozen=True, eq=False)
class Text:
    """Character codes; training and validation come from different files."""

    training: NDArray[np.uint8]
    validation: NDArray[np.uint8]
    digest: str


@lru_cache(maxsize=2)
def python_sources(length: int = TRAINING_TEXT) -> Text:
    """The standard library's top-level modules, in alphabetical order; every tenth for validation.

    ``length`` is the number of characters to train on. The text depends on the version of Python,
    so its digest goes into every cell that uses it.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    names = sorted(name for name in sys.stdlib_module_names if (folder / f"{name}.py").is_file())
    texts = [_codes((folder / f"{name}.py").read_text("utf-8", "replace")) for name in names]
    validation = np.concatenate(texts[9::10])[:VALIDATION_TEXT]
    training = np.concatenate([t for k, t in enumerate(texts) if k % 10 != 9])[:length]
    digest = hashlib.sha256(training.tobytes() + validation.tobytes()).hexdigest()[:16]
    return Text(training, validation, digest)


def _codes(text: str) -> NDArray[np.uint8]:
    code = {ord(c): k for k, c in enumerate(ALPHABET)}
    unknown = code[ord("?")]
    return np.array([code.get(ord(c), unknown) for c in text.expandtabs(8)], dtype=np.uint8)
