"""How the page shows each value: label, slider, bounds. The rest comes from its word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchlaw.design.vocabulary import FIELDS
from batchlaw.schedule.adam import EIGEN, GENERIC

# Largest numbers of steps, directions, samples and stages that the page accepts.
MOST_STEPS, MOST_DIRECTIONS, MOST_SAMPLES, MOST_STAGES = 200_000, 1024, 10**12, 64
# A logarithmic slider.
LOG = "log"


@dataclass(frozen=True)
class Control:
    """How a value is shown.

    Attributes
    ----------
    label
        Text before the input; the value's name by default.
    slider
        Usual range, and its step or ``LOG``. The input accepts more.
    low, high
        Bounds of the input, where tighter than the word's own.
    whole
        Whole numbers only, although the word accepts others.
    default
        Default on the page, where the registries have none.
    empty
        What an empty input means (its placeholder).
    titles
        Display names of choices; others are shown as they are.
    help
        Meaning, where the page accepts less than the word does.
    hidden_with
        Values of other fields for which this one is hidden, in addition to the registries.
    choices
        Those of the word's values that the page offers; empty for all. The first is its default.
    """

    label: str = ""
    slider: tuple[float, float, float | str] | None = None
    low: float | None = None
    high: float | None = None
    whole: bool = False
    default: Any = None
    empty: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    help: str = ""
    hidden_with: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    choices: tuple[str, ...] = ()


_WITHOUT_MOMENTUM = {"momentum": (0,)}

CONTROLS: dict[str, Control] = {
    "rates": Control(
        "schedule",
        titles={"wsd": "WSD"},
        help="Shape of the learning rate; wsd is warmup, stable, decay.",
    ),
    "steps": Control("updates T", (16, 8192, LOG), low=10, high=MOST_STEPS),
    "peak": Control("peak rate", (0.001, 1, LOG), high=1e6),
    "warmup": Control(
        "warmup ends at",
        (0, 0.45, 0.01),
        help="End of the warmup, as a share of the steps; 0 for none.",
    ),
    "stable": Control(
        "decay starts at",
        (0.05, 0.95, 0.01),
        help="End of WSD's stable phase, as a share of the steps.",
    ),
    "decay": Control("decay shape"),
    "final": Control("last rate / peak", empty="1/T or 0"),
    "power": Control("power of decay", (0.25, 4, 0.05)),
    "drops": Control("rate drops at"),
    "factor": Control("factor of a drop", (0.05, 1, 0.05)),
    "problem": Control(
        "spectrum",
        titles={
            "paper": "the paper's",
            "power-law": "power law",
            "sketch": "mean sketch",
            "truncation": "first M",
            "spectrum": "from a file",
        },
        help="The paper's sketch; new draws of a sketched power law; the power law's leading M "
        "directions; the average over sketches; or your own spectrum.",
    ),
    "d": Control("dimension d", high=10_000),
    "m": Control("sketch size M", (4, 1024, LOG), high=MOST_DIRECTIONS, whole=True),
    "a": Control("exponent a", (1.1, 4, 0.05), high=10),
    "b": Control("source exponent b", (1.1, 4, 0.05), high=10),
    "sigma": Control("label noise", (0, 3, 0.05), high=1e6),
    "seed": Control("seed of the draws", high=2**32 - 1),
    "prior": Control("mean over targets"),
    "spectrum": Control("file"),
    "procedure": Control(
        titles={"one-pass": "one pass", "multi-pass": "many passes"},
        help="Fresh samples; independent batches from a dataset of N samples; or epochs over a "
        "reshuffled dataset, whose risk is simulated.",
    ),
    "samples": Control("samples N", (16, 8192, LOG), high=10**7),
    "replacement": Control("with replacement"),
    "momentum": Control(slider=(0, 0.98, 0.01)),
    "nesterov": Control("Nesterov", hidden_with=_WITHOUT_MOMENTUM),
    "pytorch": Control("PyTorch's form", hidden_with=_WITHOUT_MOMENTUM),
    "average": Control(empty="last"),
    "optimizer": Control(
        titles={"sgd": "SGD", "momentum": "momentum", "adam": "Adam", "adamw": "AdamW"},
        help="Update rule: SGD, plain or with a momentum of your own; PyTorch's momentum of 0.9; "
        "Adam; or AdamW with a weight decay of 0.01. Adam is for one pass.",
    ),
    "beta1": Control(slider=(0, 0.99, 0.01)),
    "beta2": Control(slider=(0.9, 0.999, 0.001)),
    "weight_decay": Control("weight decay", (0, 0.5, 0.01), high=1e6),
    "basis": Control(
        "coordinates",
        choices=(GENERIC, EIGEN),
        titles={GENERIC: "generic", EIGEN: "eigenvectors"},
        help="The coordinates in which Adam works: generic, with one scale for all of them, the "
        "limit of a random basis; or the eigenvectors of the features' covariance.",
    ),
    "budget": Control("samples in all", (64, 1e6, LOG), default=512),
    "min_batch": Control("smallest batch"),
    "max_batch": Control("largest batch", empty="none"),
    "multiple_of": Control("multiple of"),
    "stages": Control("stages", (1, 16, 1), high=MOST_STAGES, default=4),
    "sequence_length": Control("tokens per sample", high=10**9),
    "data_parallel": Control("data parallel", high=10**6),
    "micro_batch": Control("micro-batch", high=10**6),
    "epoch_samples": Control("samples per epoch"),
}

# Words, and an argument of ``plan``, that have another name on the page.
_PAGE_NAMES = {"gamma": "peak", "dataset_size": "samples"}


def page_name(name: str) -> str:
    """The page's name for a word, or for an argument of the library."""
    word = FIELDS.get(name, name)
    return _PAGE_NAMES.get(word, word)


def control(name: str) -> Control:
    """How a value is shown; by default as its word says."""
    return CONTROLS.get(name, Control())


def label(name: str) -> str:
    """The label of a value, given any of its names."""
    name = page_name(name)
    return control(name).label or name
