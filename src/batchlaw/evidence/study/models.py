"""Training runs of PyTorch models, from plain cells; PyTorch is loaded by the first of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.study.curve import stored
from batchlaw.evidence.study.data import (
    ALPHABET,
    LONG_TRAINING_TEXT,
    TRAINING_TEXT,
    digits,
    python_sources,
)
from batchlaw.evidence.study.regression import plain
from batchlaw.evidence.study.schedules import OPTIMIZERS

if TYPE_CHECKING:
    from batchlaw.torch_support.small_models import TrainingTask


# Transformers by name: their size, as small_models has it, and the characters they train on.
TRANSFORMERS = {
    "transformer": ("SMALL", TRAINING_TEXT),
    "text": ("SMALL", LONG_TRAINING_TEXT),
    "text-large": ("LARGE", LONG_TRAINING_TEXT),
}


def data_of(name: str) -> str:
    """What identifies the data of a task: its name, or the digest of its text."""
    if name not in TRANSFORMERS:
        return name
    return python_sources(TRANSFORMERS[name][1]).digest


@lru_cache(maxsize=3)
def training_task(name: str) -> TrainingTask:
    """One of ``TRANSFORMERS``, "mlp" or "logistic"."""
    from batchlaw.torch_support import small_models

    if name in TRANSFORMERS:
        size, length = TRANSFORMERS[name]
        text = python_sources(length)
        return small_models.text_task(
            text.training, text.validation, len(ALPHABET), getattr(small_models, size)
        )
    return small_models.classifier_task(name == "mlp", digits())


def train_model(
    name: str, optimizer: str, rates: FloatArray, batches: IntArray, seed: int
) -> dict[str, Any]:
    """Final losses of one run, and its curves."""
    from batchlaw.torch_support.curves import Curve

    curve = Curve(training_task(name), rates.size)
    train_plain(name, optimizer, rates, batches, seed, curve)
    return stored(curve.columns)


def train_plain(
    name: str,
    optimizer: str,
    rates: FloatArray,
    batches: IntArray,
    seed: int,
    after: Callable[[int, Any], None] = lambda updates, model: None,
) -> tuple[TrainingTask, Any, Any]:
    """The task, the trained model and its optimizer; ``after`` every update gets the model."""
    from batchlaw.torch_support import training

    training.one_thread()
    task = training_task(name)
    model = training.fresh(task, seed)
    steps = training.optimizer(OPTIMIZERS[optimizer], model)
    training.train(task, model, steps, rates, batches, seed, lambda updates: after(updates, model))
    return task, model, steps


def observe(name: str) -> None:
    """One observation of a fresh model, to time it."""
    from batchlaw.torch_support import training
    from batchlaw.torch_support.curves import Curve

    task = training_task(name)
    Curve(task, 1)(1, training.fresh(task, 1))


def model_pilot(
    name: str, optimizer: str, rates: FloatArray, batches: IntArray, seed: int
) -> dict[str, Any]:
    """The spectrum at the end of one run."""
    from batchlaw.torch_support import training

    trained = train_plain(name, optimizer, rates, batches, seed)
    return plain(training.measured_spectrum(*trained))
