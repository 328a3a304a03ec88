"""Small models for training comparisons: logistic regression, an MLP, a character transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from batchlaw._base.checks import FloatArray, IntArray

HIDDEN = 32
# Width and layers of the transformers: 69 000 and 820 000 parameters.
SMALL, LARGE = (48, 2), (128, 4)
HEADS, CONTEXT = 4, 64
# Windows of text for the loss, and for the spectrum.
LOSS_WINDOWS, SPECTRUM_WINDOWS = 256, 128

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """A model to train, and its data by index.

    Attributes
    ----------
    start
        Returns a fresh model; the caller seeds torch.
    samples, sampling
        Number of samples, and how they are drawn (see ``PlanSampler``).
    fetch
        Inputs and targets at given indices.
    loss
        loss(outputs, targets), the mean over samples.
    validation, training, measured
        Fixed pairs of inputs and targets: held out, from the training data, for the spectrum.
    """

    start: Callable[[], nn.Module]
    samples: int
    sampling: str
    fetch: Callable[[IntArray], Pair]
    loss: Callable[[Tensor, Tensor], Tensor]
    validation: Pair
    training: Pair
    measured: Pair


def classifier_task(
    hidden: bool, data: tuple[FloatArray, IntArray, FloatArray, IntArray]
) -> TrainingTask:
    """Logistic regression, or one hidden layer of tanh; samples are drawn with replacement."""
    x, held_x = (torch.from_numpy(data[k]).float() for k in (0, 2))
    y, held_y = (torch.from_numpy(data[k]) for k in (1, 3))
    inputs, classes = x.shape[1], int(y.max()) + 1

    def start() -> nn.Module:
        if not hidden:
            return nn.Linear(inputs, classes)
        return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, classes))

    def fetch(indices: IntArray) -> Pair:
        rows = torch.from_numpy(indices)
        return x[rows], y[rows]

    return TrainingTask(
        start,
        x.shape[0],
        "with replacement",
        fetch,
        functional.cross_entropy,
        (held_x, held_y),
        (x, y),
        (x, y),
    )


def text_task(
    training: NDArray[np.uint8],
    validation: NDArray[np.uint8],
    letters: int,
    size: tuple[int, int] = SMALL,
) -> TrainingTask:
    """Next characters of windows: one pass over shuffled positions, most of them left unused."""

    def windows(text: NDArray[np.uint8], starts: IntArray) -> Pair:
        rows = torch.from_numpy(text[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64))
        return rows[:, :-1], rows[:, 1:]

    def spread(text: NDArray[np.uint8], count: int) -> Pair:
        return windows(text, np.linspace(0, text.size - CONTEXT - 1, count).astype(np.int64))

    return TrainingTask(
        lambda: CharacterModel(letters, *size),
        training.size - CONTEXT,
        "one pass",
        lambda indices: windows(training, indices),
        _next_character_loss,
        spread(validation, LOSS_WINDOWS),
        spread(training, LOSS_WINDOWS),
        spread(training, SPECTRUM_WINDOWS),
    )


def _next_character_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.transpose(1, 2), targets)


class Block(nn.Module):
    """Causal attention and an MLP, each after a layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.mix(self.before(x)).view(n, length, 3 * HEADS, width // HEADS)
        q, k, v = parts.transpose(1, 2).chunk(3, dim=1)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, width))
        result: Tensor = x + self.down(functional.gelu(self.up(self.between(x))))
        return result


class CharacterModel(nn.Module):
    """A transformer that predicts the next character."""

    def __init__(self, letters: int, width: int, layers: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        nn.init.normal_(self.letter.weight, std=0.02)

    def forward(self, codes: Tensor) -> Any:
        return self.head(self.norm(self.blocks(self.letter(codes) + self.place)))
