"""Training runs of PyTorch models, from plain cells; PyTorch is loaded by the first of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.study.data import ALPHABET, digits, python_sources
from batchlaw.evidence.study.regression import plain
from batchlaw.evidence.study.schedules import OPTIMIZERS

if TYPE_CHECKING:
    from batchlaw.torch_support.small_models import TrainingTask


@lru_cache(maxsize=3)
def training_task(name: str) -> TrainingTask:
    """ "transformer", "mlp" or "logistic"."""
    from batchlaw.torch_support.small_models import classifier_task, text_task

    if name == "transformer":
        text = python_sources()
        return text_task(text.training, text.validation, len(ALPHABET))
    return classifier_task(name == "mlp", digits())


def train_model(
    name: str, optimizer: str, rates: FloatArray, batches: IntArray, seed: int
) -> dict[str, Any]:
    """Final losses of one run."""
    from batchlaw.torch_support import training

    task, model, _ = _trained(name, optimizer, rates, batches, seed)
    return {
        "validation": training.evaluate(task, model, task.validation),
        "training": training.evaluate(task, model, task.training),
    }


def model_pilot(
    name: str, optimizer: str, rates: FloatArray, batches: IntArray, seed: int
) -> dict[str, Any]:
    """The spectrum at the end of one run."""
    from batchlaw.torch_support import training

    return plain(training.measured_spectrum(*_trained(name, optimizer, rates, batches, seed)))


def _trained(
    name: str, optimizer: str, rates: FloatArray, batches: IntArray, seed: int
) -> tuple[TrainingTask, Any, Any]:
    """The task, the trained model and its optimizer."""
    from batchlaw.torch_support import training

    training.one_thread()
    task = training_task(name)
    model = training.fresh(task, seed)
    steps = training.optimizer(OPTIMIZERS[optimizer], model)
    training.train(task, model, steps, rates, batches, seed)
    return task, model, steps
