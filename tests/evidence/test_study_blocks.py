"""The benchmark of batch schedules: its blocks, their files, and that nothing is lost."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.batches.rules import RULES
from batchlaw.datasets import layout
from batchlaw.evidence.study import block_hours, blocks
from batchlaw.evidence.study.blocks import BLOCKS, Block, block_cells, scheduled
from batchlaw.evidence.study.cells import pilot_cell, run_cell
from batchlaw.evidence.study.curve import columns_of
from batchlaw.evidence.study.schedules import (
    OPTIMIZERS,
    RANDOM,
    RATES,
    SIZES,
    random_batches,
    schedule_of,
)
from batchlaw.evidence.study.timing import StepCost
from batchlaw.faces.cli import main
from batchlaw.jobs.execution import compute_cells
from batchlaw.jobs.store import DONE, FAILED, REFUSED, Outcome, Store
from batchlaw.jobs.workers import worker_threads
from batchlaw.schedule.observation import POINTS, observed_updates
from refused import refused

pytestmark = pytest.mark.torch

GROUP = replace(
    BLOCKS["small-flat"].groups[0],
    rates="drop",
    steps=12,
    mean_batch=4,
    seeds=2,
    schedules=("constant", "early-large", "Seesaw", "like the rate"),
    few=("constant x2", "random 1"),
    few_seeds=1,
)
TINY = Block("tiny", "a test", (GROUP,))


class Inline:
    """Workers that compute in the calling process."""

    pool = type("Pool", (), {"map": staticmethod(lambda f, xs: [f(x) for x in xs])})

    @staticmethod
    def capacity():
        return 2


# Trains a block of its own in a process that can be killed.
TRAIN = """
import sys
from test_study_blocks import TINY
from batchlaw.evidence.study import blocks
blocks.BLOCKS["tiny"] = TINY
from batchlaw.faces.cli import main
sys.exit(main(["study", "--block", "tiny", "--workers", "1", "--output-dir", sys.argv[1]]))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """All runs of the tiny block."""
    with Store(tmp_path_factory.mktemp("study") / "blocks.sqlite") as opened:
        opened.put_many(compute_all(block_cells(TINY, opened)))
        yield opened


def compute_all(cells):
    return [outcome for cell in cells for outcome in compute_cells(run_cell, [cell])]


def test_a_run_is_observed_about_forty_times_and_denser_at_the_end():
    updates = observed_updates(3000)
    assert updates.size == POINTS
    assert updates[-1] == 3000
    gaps = np.diff(updates)
    assert (np.diff(gaps) <= 1).all()
    assert gaps[-1] < gaps[0] / 5
    assert observed_updates(1).tolist() == [1]


def test_every_block_compares_at_equal_samples():
    for block in BLOCKS.values():
        for group in block.groups:
            rates = RATES[group.rates](group.steps, group.peaks[0])
            for name in set(group.schedules) & set(RULES):
                spent = schedule_of(name, group.optimizer, rates, group.mean_batch).batches.sum()
                assert spent == group.steps * group.mean_batch


def test_sizes_span_a_factor_of_sixteen():
    sizes = [schedule_of(name, "adamw", np.ones(10), 8).batches[0] for name in SIZES]
    assert sorted([*sizes, 8]) == [2, 4, 8, 16, 32]


@pytest.mark.parametrize("number", RANDOM.values())
def test_random_schedules_are_piecewise_spend_the_budget_and_stay(number):
    batches = random_batches(3000, 24_000, number)
    assert batches.sum() == 24_000
    assert np.array_equal(batches, random_batches(3000, 24_000, number))
    # A segment of n updates may have two sizes that differ by one, from rounding.
    assert (np.abs(np.diff(batches)) > 1).sum() <= 5


def test_schedules_that_coincide_are_trained_once_under_their_first_name(store):
    one = replace(GROUP, rates="constant", steps=30)
    one = replace(one, schedules=("constant", "like the rate", "Seesaw"))
    named = {item.name: item.also for item in scheduled(replace(TINY, groups=(one,)), store)}
    assert named["constant"] == ("Seesaw",)
    assert "like the rate" in named  # the warmup


def test_a_trained_run_has_its_curves(store):
    for row in store.rows():
        columns = columns_of(row.result)
        assert columns["validation"][-1] == row.result["validation"]
        assert columns["update"][-1] == len(row.cell["batches"])
        assert min(columns["noise"]) > 0.0
        assert all(np.isfinite(values).all() for values in columns.values())


def test_the_gradient_noise_is_that_of_single_samples():
    """Against the covariance of every sample's gradient, one by one."""
    import torch

    from batchlaw.evidence.study.models import training_task
    from batchlaw.torch_support import curves, training

    task = training_task("mlp")
    task = replace(task, training=(task.training[0][:64], task.training[1][:64]))
    model = training.fresh(task, 0)
    singles = []
    for x, y in zip(*task.training, strict=True):
        loss = task.loss(model(x[None]), y[None])
        grads = torch.autograd.grad(loss, list(model.parameters()))
        singles.append(torch.cat([g.reshape(-1) for g in grads]).double().numpy())
    singles = np.array(singles)
    exact = singles.var(axis=0, ddof=1).sum()
    rng = np.random.default_rng(0)
    found = []
    for _ in range(60):
        order = torch.from_numpy(rng.permutation(64))
        shuffled = replace(task, training=tuple(part[order] for part in task.training))
        found.append(curves.gradient_noise(shuffled, model))
    noise = np.array([one.noise for one in found])
    error = noise.std(ddof=1) / np.sqrt(noise.size)
    assert noise.mean() == pytest.approx(exact, abs=4.0 * error)
    gradient = (singles.mean(axis=0) ** 2).sum() - exact / 64
    assert np.mean([one.gradient for one in found]) == pytest.approx(gradient, abs=error / 10)


def test_the_code_trains_the_runs_of_the_set():
    """Up to the first observation: later, other processors round otherwise."""
    from batchlaw.evidence.study.data import LONG_TRAINING_TEXT, python_sources
    from batchlaw.evidence.study.models import train_plain, training_task
    from batchlaw.torch_support.curves import Curve

    facts = json.loads((layout.FOLDER / "small-adamw" / layout.FACTS).read_text())
    if python_sources(LONG_TRAINING_TEXT).digest != facts["text"]["digest"]:
        pytest.skip("another version of Python, so another text")
    key = {"schedule": "constant x1/4", "rates": "wsd-linear", "seed": 0}
    runs = bl.datasets.batch_schedules("small-adamw")
    (run,) = (one for one in runs if key.items() <= one.facts.items())
    end = int(run.steps[0])
    rates = RATES["wsd-linear"](run.updates, run.facts["peak"])
    batches = run.batches[:end].astype(int)
    curve = Curve(training_task("text"), run.updates)
    train_plain("text", "adamw", rates[:end], batches, run.facts["seed"], curve)
    assert curve.columns["validation"] == pytest.approx([run.losses[0]], abs=1e-4)
    assert curve.columns["training"] == pytest.approx([run.columns["training"][0]], abs=1e-4)
    assert curve.columns["noise"] == pytest.approx([run.columns["noise"][0]], rel=1e-3)


def test_a_published_block_is_read_back_as_runs(store, tmp_path):
    from batchlaw.evidence.study.publish import publish

    publish(TINY, store, tmp_path / "tiny", {"python": "3"}, TINY)
    runs = bl.datasets.batch_schedules("tiny", folder=tmp_path)
    assert bl.datasets.blocks(tmp_path) == ("tiny",)
    assert len(runs) == len(list(store.rows())) == 4 * 2 + 2
    by_name = {run.facts["schedule"]: run for run in runs}
    assert by_name["Seesaw"].updates < 12
    assert by_name["Seesaw"].samples == by_name["constant"].samples == 48
    assert by_name["constant x2"].batches.tolist() == [8.0] * 12
    trained = OPTIMIZERS["adamw"]
    for option in fields(trained):
        assert getattr(by_name["constant"].rule, option.name) == getattr(trained, option.name)
    run = by_name["constant"]
    problem = bl.Problem.from_spectrum([1.0, 0.5], [1.0, 1.0], 1.0)
    assert bl.one_pass_risk(problem, run.rates, run.batches, rule=run.rule).total > 0.0
    rates = RATES["drop"](12, GROUP.peaks[0])
    assert by_name["early-large"].rates == pytest.approx(rates, rel=1e-8)
    row = next(r for r in store.rows() if r.cell["schedule"] == "early-large")
    run = next(
        r
        for r in runs
        if (r.facts["schedule"], r.facts["seed"]) == ("early-large", row.cell["seed"])
    )
    assert run.final_loss == pytest.approx(row.result["validation"], abs=1e-6)
    assert run.columns["noise"][-1] == pytest.approx(row.result["curve_noise"][-1], rel=1e-4)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "1 runs are missing"),
        (FAILED, "1 runs are missing"),
        (REFUSED, "every pilot diverged of text"),
    ],
)
def test_a_block_without_a_usable_pilot_is_not_published(status, reason, store, tmp_path):
    from batchlaw.evidence.study.publish import unfinished

    piloted = replace(GROUP, rates="wsd", schedules=("constant", "oracle"), few=())
    block = replace(TINY, groups=(GROUP, piloted))
    with Store(tmp_path / "blocks.sqlite") as opened:
        opened.put_many(Outcome(row.cell, row.result, row.status, 0.0) for row in store.rows())
        assert unfinished(TINY, opened) == ""
        if status:
            cell = pilot_cell(piloted, piloted.peaks[0])
            opened.put_many([Outcome(cell, {"reason": "x"}, status, 0.0)])
        assert unfinished(block, opened).startswith(reason)
        assert "\n" not in unfinished(block, opened)


def test_the_command_says_which_block_it_did_not_write(monkeypatch, tmp_path, capsys):
    piloted = replace(GROUP, rates="wsd", schedules=("constant", "oracle"), few=())
    monkeypatch.setitem(blocks.BLOCKS, "tiny", replace(TINY, groups=(piloted,)))
    monkeypatch.setattr("batchlaw.faces.cli.study_blocks.worker_processes", worker_threads)
    monkeypatch.setattr(block_hours, "step_cost", lambda group: StepCost(1e-3, 5e-4, 0.2))
    monkeypatch.setattr("batchlaw.faces.cli.study_blocks.run_cell", diverging)
    assert main(["study", "--block", "tiny", "--workers", "1", "--output-dir", str(tmp_path)]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == "tiny was not written: every pilot diverged of text, adamw, wsd"
    assert not (tmp_path / "tiny").exists()


def diverging(cell):
    raise bl.Unstable("rates", "diverged", subject="the run")


def test_a_changed_file_is_refused(store, tmp_path):
    from batchlaw.evidence.study.publish import publish

    publish(TINY, store, tmp_path / "tiny", {}, TINY)
    path = tmp_path / "tiny" / layout.RUNS
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())))
    with refused("block"):
        bl.datasets.batch_schedules(folder=tmp_path)
    assert bl.datasets.batch_schedules(folder=tmp_path, verify=False)


def test_the_training_loss_is_that_of_all_samples():
    """84 parts of 16 images of digits, and 4 more."""
    from batchlaw.evidence.study.models import training_task
    from batchlaw.torch_support import curves, training

    task = training_task("mlp")
    model = training.fresh(task, 0)
    whole = training.evaluate(task, model, task.training)
    assert curves.gradient_noise(task, model).loss == pytest.approx(whole, rel=1e-6)
    left = replace(task, training=tuple(part[:-4] for part in task.training))
    assert abs(curves.gradient_noise(left, model).loss - whole) > 1e-4
    for name in ("noise", "gradient"):
        moments = [getattr(curves.gradient_noise(one, model), name) for one in (task, left)]
        assert moments[0] == moments[1]


def test_the_larger_block_compares_constant_with_four_schedules():
    """Under the linear decay the default plan is constant."""
    (group,) = (g for g in BLOCKS["large-adamw"].groups if g.rates == "wsd-linear")
    rates = RATES[group.rates](group.steps, group.peaks[0])
    batches = {
        tuple(schedule_of(name, group.optimizer, rates, group.mean_batch).batches.tolist())
        for name in group.schedules
    }
    assert len(batches) >= 5


def test_the_checksums_and_facts_of_a_block(store, tmp_path):
    """Not of facts.json, which says how long the runs took."""
    from batchlaw.evidence.study.data import LONG_TRAINING_TEXT, python_sources
    from batchlaw.evidence.study.plan import versions
    from batchlaw.evidence.study.publish import publish

    publish(TINY, store, tmp_path / "tiny", versions(), TINY)
    lines = (tmp_path / "tiny" / layout.CHECKSUMS).read_text().splitlines()
    assert [line[66:] for line in lines] == sorted(layout.TABLES)
    facts = json.loads((tmp_path / "tiny" / layout.FACTS).read_text())
    assert facts["text"]["digest"] == python_sources(LONG_TRAINING_TEXT).digest
    assert "text" not in facts["versions"]
    facts_file = tmp_path / "tiny" / layout.FACTS
    facts_file.write_text("{}")
    assert bl.datasets.batch_schedules(folder=tmp_path)


def _remove(folder, name):
    (folder / name).unlink()


def _empty(folder, name):
    (folder / name).write_text("")


def _keep_one_line(folder, name):
    (folder / name).write_text((folder / name).read_text().splitlines()[0] + "\n")


def _not_compressed(folder, name):
    (folder / name).write_text("batches_id,last_update,batch\n")


@pytest.mark.parametrize(
    ("harm", "name", "verify"),
    [
        (_remove, layout.CHECKSUMS, True),
        (_empty, layout.CHECKSUMS, True),
        (_keep_one_line, layout.CHECKSUMS, True),
        (_remove, layout.CURVES, True),
        (_remove, layout.CURVES, False),
        (_not_compressed, layout.BATCHES, False),
    ],
)
def test_a_block_with_a_harmed_file_is_refused(harm, name, verify, store, tmp_path):
    from batchlaw.evidence.study.publish import publish

    publish(TINY, store, tmp_path / "tiny", {}, TINY)
    harm(tmp_path / "tiny", name)
    with refused("block") as error:
        bl.datasets.batch_schedules(folder=tmp_path, verify=verify)
    assert "\n" not in str(error.value)


def test_a_folder_or_block_that_is_not_there_is_refused(tmp_path):
    with refused("folder"):
        bl.datasets.batch_schedules(folder=tmp_path / "none")
    with refused("folder"):
        bl.datasets.blocks(tmp_path / "none")
    with refused("block") as error:
        bl.datasets.batch_schedules("small", folder=tmp_path)
    assert str(error.value).endswith("which has none, got 'small'")
    assert bl.datasets.blocks(tmp_path) == ()
    with refused("folder"):
        bl.datasets.batch_schedules(folder=tmp_path)


@pytest.mark.slow
@pytest.mark.process
def test_a_block_killed_midway_goes_on_and_ends_with_the_same_bytes(store, tmp_path):
    from batchlaw.evidence.study.plan import versions
    from batchlaw.evidence.study.publish import publish

    whole = tmp_path / "whole"
    publish(TINY, store, whole, versions(), TINY)
    here = os.path.dirname(__file__)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.path.dirname(here)])}
    command = [sys.executable, "-c", TRAIN, str(tmp_path)]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while count(tmp_path / "blocks.sqlite") < 3 and time.monotonic() < deadline:
        assert first.poll() is None
        time.sleep(0.2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = count(tmp_path / "blocks.sqlite")
    assert 3 <= done < 10
    assert not (tmp_path / "tiny").exists()
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert second.returncode == 0, second.stderr
    assert count(tmp_path / "blocks.sqlite") == 10
    for name in layout.TABLES:
        assert (tmp_path / "tiny" / name).read_bytes() == (whole / name).read_bytes()


def count(path):
    if not path.exists():
        return 0
    try:
        with Store(path, read_only=True) as opened:
            return sum(row.status == DONE for row in opened.rows())
    except (bl.InputError, OSError):
        return 0


def test_hours_trim_seeds_and_then_drop_blocks(monkeypatch):
    cost = StepCost(update=1e-3, sample=5e-4, observation=0.2)
    monkeypatch.setattr(block_hours, "step_cost", lambda group: cost)
    block = BLOCKS["small-flat"]
    full = block_hours.core_seconds(block, lambda group: cost, None).sum()
    hours = 0.8 * full / 7200
    kept, dropped = block_hours.fitted([block, BLOCKS["small-adamw"]], hours, Inline, None)
    assert [one.block.name for one in kept] == ["small-flat"]
    assert 3 <= kept[0].block.seeds < 5
    assert kept[0].seconds <= 0.8 * full
    assert dropped == ["small-adamw"]


def test_what_is_stored_costs_no_hours(monkeypatch, store):
    cost = StepCost(update=1e-3, sample=5e-4, observation=0.2)
    monkeypatch.setattr(block_hours, "step_cost", lambda group: cost)
    kept, dropped = block_hours.fitted([TINY], 1e-9, Inline, store)
    assert (kept[0].block, kept[0].seconds, dropped) == (TINY, 0.0, [])
    more = replace(TINY, groups=(replace(GROUP, seeds=4),))
    by_seed = block_hours.core_seconds(more, lambda group: cost, store)
    assert by_seed[:2].tolist() == [0.0, 0.0]
    whole = block_hours.core_seconds(more, lambda group: cost, None)
    # Every schedule that runs for all seeds has 48 samples; Seesaw has fewer updates.
    assert by_seed[2] == by_seed[3] == pytest.approx(whole[3], rel=1e-3)
    kept, _ = block_hours.fitted([more], 1.1 * by_seed[2] / 7200, Inline, store)
    assert kept[0].block.seeds == 3


def test_an_estimate_makes_no_store(monkeypatch, tmp_path, capsys):
    cost = StepCost(update=1e-3, sample=5e-4, observation=0.2)
    monkeypatch.setattr(block_hours, "step_cost", lambda group: cost)
    monkeypatch.setattr("batchlaw.faces.cli.study_blocks.worker_processes", worker_threads)
    monkeypatch.setitem(blocks.BLOCKS, "tiny", TINY)
    command = ["study", "--block", "tiny", "--estimate", "--output-dir", str(tmp_path / "none")]
    assert main(command) == 0
    assert "tiny: about" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_blocks_that_batchlaw_comes_with_are_not_made_again(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(blocks.BLOCKS, "tiny", TINY)
    monkeypatch.setattr("batchlaw.faces.cli.study_blocks.made_blocks", lambda: ("tiny",))
    assert main(["study", "--block", "tiny", "--output-dir", str(tmp_path)]) == 0
    assert "--again" in capsys.readouterr().err
    assert not (tmp_path / "blocks.sqlite").exists()


@pytest.mark.parametrize("options", [["--quick"], ["--task", "mlp"], ["--rates", "wsd"]])
def test_a_block_has_its_own_settings(options, capsys):
    assert main(["study", "--block", "small-adamw", *options]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
