"""The scores on the benchmark of batch schedules, and that the pages show what it says."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import batchlaw as bl
from batchlaw.datasets import layout
from paths import BENCHMARKS, DOCS

sys.path.insert(0, str(BENCHMARKS))
import batch_schedules as board

STEPS, SEEDS, NOISE = 30, 5, 0.02
TRUE = {"constant": 2.0, "early-large": 1.9, "late-large": 2.1, "linear ramp": 2.06}


def run(schedule, seed, loss, batches=None):
    facts = {
        "schedule": schedule,
        "seed": seed,
        "also": "doubling" if schedule == "late-large" else "",
    }
    sizes = np.full(STEPS, 8) if batches is None else batches
    return bl.Run(np.ones(STEPS), sizes, [STEPS], [loss], facts=facts)


def setting(seed=0, true=TRUE, noise=NOISE, few=()):
    """Runs with an effect of the schedule, one of the seed, and noise."""
    rng = np.random.default_rng(seed)
    shift = rng.normal(0.0, 0.1, SEEDS)
    runs = {
        name: {
            k: run(name, k, loss + shift[k] + rng.normal(0.0, noise))
            for k in range(2 if name in few else SEEDS)
        }
        for name, loss in true.items()
    }
    return board.Setting("block", "task", "adamw", "wsd", runs)


def test_a_difference_is_the_paired_one_and_its_interval_covers_as_often_as_it_says():
    covered, z = 0, []
    for k in range(1500):
        one = setting(k)
        change = one.difference("early-large")
        pairs = [
            one.losses("early-large")[seed] - one.losses("constant")[seed] for seed in range(SEEDS)
        ]
        assert change.mean == pytest.approx(np.mean(pairs), abs=1e-12)
        covered += abs(change.mean + 0.1) <= change.half
        z.append((change.mean + 0.1) / change.error)
    assert stats.binomtest(covered, 1500, 0.95).pvalue > 1e-3
    assert np.std(z) == pytest.approx(math.sqrt(12 / 10), rel=0.15)  # Student's t with 12


def test_schedules_with_fewer_seeds_are_corrected_for_the_seeds_they_have():
    z = []
    for k in range(300):
        one = setting(k, TRUE | {"random 1": 2.05}, few=("random 1",))
        change = one.difference("random 1")
        z.append((change.mean - 0.05) / change.error)
    assert "random 1" not in one.compared
    assert abs(np.mean(z)) < 4.0 / math.sqrt(300)
    assert np.std(z) == pytest.approx(1.1, rel=0.15)


def test_a_schedule_without_all_seeds_is_no_rival():
    one = setting()
    del one.runs["early-large"][2]  # diverged, say
    assert "early-large" not in one.compared
    assert one.named("doubling") == "late-large"
    assert "doubling" in board.planners(one)


def test_what_is_seen_in_eight_of_ten_is():
    error, freedom = 0.01, 12
    size = board.seen(error, freedom)
    rng = np.random.default_rng(0)
    means = rng.normal(size, error, 20_000)
    errors = error * np.sqrt(rng.chisquare(freedom, 20_000) / freedom)
    found = np.mean(means > stats.t.ppf(0.975, freedom) * errors)
    assert found == pytest.approx(0.8, abs=0.01)


def test_the_regret_of_equals_is_zero_in_the_mean():
    """The best of several noisy means would give every one a positive regret."""
    level = dict.fromkeys(TRUE, 2.0)
    regrets = [np.mean(board.regret(setting(k, level), "constant")) for k in range(400)]
    assert abs(np.mean(regrets)) < 4.0 * np.std(regrets) / math.sqrt(400)
    clear = setting(0, noise=1e-4)
    assert np.mean(board.regret(clear, "late-large")) == pytest.approx(0.2, abs=1e-3)
    assert np.mean(board.regret(clear, "early-large")) == pytest.approx(0.0, abs=1e-12)


class Oracle:
    """Knows the truth of ``setting``, with bands of a given width."""

    width = 0.03

    def fit(self, runs):
        assert {one.facts["schedule"] for one in runs} == {"constant"}

    def difference(self, one, constant):
        change = TRUE[one.facts["schedule"]] - TRUE["constant"]
        return change, change - self.width, change + self.width

    def predict(self, rates, batches):
        return 2.0


class Wrong(Oracle):
    def difference(self, one, constant):
        change, low, high = super().difference(one, constant)
        return -change, -high, -low


def test_the_truth_scores_the_ceiling_and_its_negative_does_not():
    found = [setting(k) for k in range(20)]
    header, lines = board.law_table(found, {"truth": Oracle, "wrong": Wrong})
    rows = {line[:2]: dict(zip(header, line, strict=True)) for line in lines}
    truth, wrong = rows["truth", "named"], rows["wrong", "named"]
    assert truth["right sign"] == "60 of 60"
    assert float(truth["correlation"]) == pytest.approx(float(truth["its ceiling"]), abs=0.01)
    assert float(truth["less the seeds' noise"]) < 0.005
    assert float(truth["rms error"]) == pytest.approx(NOISE * math.sqrt(2 / SEEDS), rel=0.3)
    assert float(wrong["correlation"]) == -float(truth["correlation"])
    assert wrong["right sign"].startswith("0 of")
    assert int(wrong["90 % band covers"].rstrip("%")) < 60 < int(truth["90 % band covers"][:-1])


class Level:
    """Has no ``difference``: the same loss for everything, in a band of the loss."""

    def fit(self, runs):
        self.loss = TRUE["constant"]

    def predict(self, rates, batches):
        return self.loss, self.loss - 0.08, self.loss + 0.08


def test_a_law_of_losses_alone_is_judged_by_their_difference_and_its_band_by_the_loss():
    one = setting(noise=1e-4)
    rows = board.predictions(Level, [one])
    assert [row.predicted for row in rows] == [0.0] * 3
    means = [one.mean(row.name) for row in rows]
    assert [row.covered for row in rows] == [abs(mean - 2.0) <= 0.08 for mean in means]
    assert {row.covered for row in rows} == {True, False}


def test_a_law_of_ones_own_is_named_by_its_module(monkeypatch, tmp_path):
    (tmp_path / "laws.py").write_text("class Mine:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert board.own_law("laws:Mine").__name__ == "Mine"
    with pytest.raises(SystemExit, match="must be module:name"):
        board.own_law("laws:Yours")


def test_a_law_that_cannot_be_fitted_is_left_out(capsys):
    class Absent(Oracle):
        def fit(self, runs):
            raise board.NoPilotError("no pilot")

    assert board.law_table([setting()], {"absent": Absent})[1] == []
    assert "no pilot" in capsys.readouterr().err


def test_an_error_in_a_law_is_not_hidden():
    class Mistaken(Oracle):
        def fit(self, runs):
            raise KeyError("loss")

    with pytest.raises(KeyError):
        board.law_table([setting()], {"mistaken": Mistaken})


def test_two_optimizers_are_compared_where_the_batches_are_the_same():
    one, other = setting(1), setting(2)
    other.block, other.optimizer = "other", "momentum"
    for name, sign in (("early-large", 1), ("linear ramp", -1)):
        for seed in range(SEEDS):
            sizes = np.full(STEPS, 8) + sign
            for each in (one, other):
                each.runs[name][seed] = run(name, seed, each.losses(name)[seed], sizes)
    for seed in range(SEEDS):  # A pilot's batches, which the other does not have.
        other.runs["late-large"][seed] = run("late-large", seed, 9.0, np.full(STEPS, 7))
    _, lines = board.memory_table([one, other])
    assert [line[:4] for line in lines] == [
        ("block", "other", "wsd", "2"),
        ("block", "other", "all", "2"),
    ]
    assert board.memory_table([one, setting()])[1] == []


def test_a_page_without_a_place_for_tables_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit, match="no place"):
        board.write_into(page, {"noise": "table"})
    begin, end = board.marks("noise")
    page.write_text(f"a\n{begin}old{end}\nb\n")
    board.write_into(page, {"noise": "new"})
    assert page.read_text() == f"a\n{begin}new{end}\nb\n"


@pytest.mark.process
def test_the_set_is_small_and_is_read_without_pandas_and_torch():
    assert sum(path.stat().st_size for path in layout.FOLDER.rglob("*")) < 5e6
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('pandas', 'torch', 'sklearn', 'matplotlib')))\n"
        "import batchlaw as bl\n"
        "print(len(bl.datasets.batch_schedules()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(bl.datasets.batch_schedules())


@pytest.fixture(scope="module")
def found():
    return board.settings()


@pytest.mark.parametrize("name", sorted(board.TABLES))
def test_the_tables_of_the_study_are_those_of_the_data(name, found):
    begin, end = board.marks(name)
    page = (DOCS / "study.md").read_text()
    shown = page.split(begin, 1)[1].split(end, 1)[0]
    assert shown == board.markdown(*board.TABLES[name](found))


def test_the_scores_of_a_law_are_those_of_the_data(found):
    begin, end = board.marks("laws")
    shown = (DOCS / "study.md").read_text().split(begin, 1)[1].split(end, 1)[0]
    name = "SGD's influence, scaled"
    header, lines = board.law_table(found, {name: board.baselines()[name]})
    ours = [line for line in shown.splitlines() if line.startswith(f"| {name} ")]
    assert ours == board.markdown(header, lines).splitlines()[2:]


def test_the_blocks_of_the_datasheet_are_those_there_are():
    begin, end = board.marks("blocks")
    shown = (DOCS / "batch_schedules.md").read_text().split(begin, 1)[1].split(end, 1)[0]
    assert shown == board.markdown(*board.block_table(None))
