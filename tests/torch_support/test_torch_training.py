"""Real trainings that are killed: the resumed run ends with the weights of the undisturbed one."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch

from paths import TESTS

pytestmark = [pytest.mark.torch, pytest.mark.process]

SCRIPT = TESTS / "torch_training.py"
ALONE = [sys.executable]
# One machine, over the loopback interface alone, on a port that is free.
TWO_RANKS = [
    *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--nnodes=1"),
    *("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"),
]
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def train(launcher, *arguments):
    return subprocess.run(
        [*launcher, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | LOOPBACK,
    )


def weights(folder):
    final = torch.load(folder / "final.pt", weights_only=True)
    assert (final["visits"] == 1).all()
    assert final["sampler"]["updates"] == final["rates"]["updates"] == 12
    return final["model"]


def interrupt(launcher, tmp_path, *options):
    """One training that ends and one that is killed: the end of the one, the other's folder."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    done = train(launcher, whole, killed, *options, "--kill-in", 8)
    at = torch.load(killed / "checkpoint.pt", weights_only=True)["sampler"]
    assert (at["updates"], at["samples"]) == (6, 4 * 4 + 2 * 16)
    assert not (killed / "final.pt").exists()
    return done, weights(whole), killed


def resume(launcher, folder, *options):
    done = train(launcher, folder, *options)
    assert done.returncode == 0, done.stderr
    return weights(folder)


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_killed_training_resumes_to_the_same_weights_bit_for_bit(tmp_path):
    done, whole, killed = interrupt(ALONE, tmp_path, "--dropout", 0.3)
    assert done.returncode == -signal.SIGKILL
    assert same(resume(ALONE, killed, "--dropout", 0.3), whole)


def test_two_killed_ranks_resume_to_the_same_weights_and_one_to_the_same_sums(tmp_path):
    done, whole, killed = interrupt(TWO_RANKS, tmp_path)
    assert "exitcode  : -9" in done.stderr
    shutil.copytree(killed, tmp_path / "alone")
    assert same(resume(TWO_RANKS, killed), whole)
    alone = resume(ALONE, tmp_path / "alone")
    for name, expected in whole.items():
        torch.testing.assert_close(alone[name], expected, rtol=1e-9, atol=1e-11)
