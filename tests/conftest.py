import os

# One thread a worker: the workers use every core, and more threads would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import re

import numpy as np
import pytest
from hypothesis import settings

import batchlaw as bl
from marks import file_marks, parsed

# The same examples on every run: a failure can be repeated, and nothing is flaky.
settings.register_profile("batchlaw", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("batchlaw")


def pytest_ignore_collect(collection_path, config):
    """A file all of whose tests are left out is not imported: PyTorch alone takes seconds."""
    left_out = set(re.findall(r"not (\w+)", config.getoption("markexpr")))
    is_test = collection_path.match("test_*.py")
    if is_test and left_out & file_marks(parsed(collection_path)):
        return True
    return None  # pytest decides


@pytest.fixture(scope="session")
def paper() -> bl.Problem:
    return bl.Problem.paper()


@pytest.fixture(scope="session")
def small() -> bl.Problem:
    """A problem of six directions with a strong top one."""
    mu = np.array([0.9, 0.5, 0.25, 0.12, 0.06, 0.03])
    energy = np.array([1.0, 0.4, 2.0, 0.3, 0.7, 1.5])
    return bl.Problem.from_spectrum(mu, energy, 1.3, approximation=0.3)
