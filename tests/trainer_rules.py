"""What trainers do with the text that batchlaw exports, by their documented rules.

Written from the rules, for tests alone. Sources:

- Megatron-LM (NVIDIA/Megatron-LM, Megatron Core 0.20.0, commit d98e8a64ddf3):
  megatron/core/num_microbatches_calculator.py (StepBatchsizeNumMicroBatchesCalculator),
  megatron/core/optimizer_param_scheduler.py (get_lr),
  megatron/training/training.py (update_train_iters, get_optimizer_param_scheduler),
  megatron/training/config/training_config.py (the arguments).
- OLMo-core (allenai/OLMo-core, 2.5.0, commit fa6c5014c9f6):
  src/olmo_core/train/callbacks/batch_size_scheduler.py, src/olmo_core/train/common.py (Duration),
  src/olmo_core/data/data_loader.py (global_batch_size), src/olmo_core/optim/scheduler.py.
- transformers (huggingface/transformers, 5.16.0.dev0, commit d56c55bf564d):
  src/transformers/training_args.py (gradient_accumulation_steps), src/transformers/trainer.py
  (the epoch loop), src/transformers/optimization.py (get_wsd_schedule).
- Lightning (Lightning-AI/pytorch-lightning, 2.6.2, commit 7f0c3436cd3f):
  src/lightning/pytorch/callbacks/gradient_accumulation_scheduler.py,
  src/lightning/pytorch/loops/training_epoch_loop.py,
  docs/source-pytorch/common/gradient_accumulation.rst.
- PyTorch (pytorch/pytorch): torch/utils/data/dataloader.py (batch_sampler, commit 0025348e03d0),
  torch/utils/data/sampler.py (BatchSampler, commit 00f75c85e35a).
"""

import ast
import csv
import itertools
import math
import shlex

SUFFIXES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def megatron_schedule(text, sequence_length=None):
    """(samples, batch) pairs: tokens become samples, rounded down, where a length is known."""
    pairs = []
    for entry in text.replace(",", " ").split():
        threshold, _, batch = entry.partition(":")
        at, size = _megatron_number(threshold), _megatron_number(batch)
        pairs.append((at if sequence_length is None else at // sequence_length, size))
    pairs.sort()
    starts = [at for at, _ in pairs]
    assert starts[0] == 0
    assert len(set(starts)) == len(starts)
    assert all(size > 0 for _, size in pairs)
    return pairs


def _megatron_number(text):
    factor = SUFFIXES.get(text[-1].upper(), 1)
    return int(float(text[:-1] if factor > 1 else text) * factor)


def megatron_arguments(text):
    """The arguments of the bash array, as argparse would see them."""
    words = shlex.split(text.partition("=(")[2].rpartition(")")[0], comments=True)
    return {name[2:]: value for name, value in zip(words[::2], words[1::2], strict=True)}


def megatron_run(text):
    """Batch and rate of every update, training by samples."""
    given = megatron_arguments(text)
    assert not {"global-batch-size", "train-iters", "rampup-batch-size"} & set(given)
    schedule = megatron_schedule(given["step-batch-size-schedule"], int(given["seq-length"]))
    batches, rates, consumed = [], [], 0
    while consumed < int(given["train-samples"]):
        batches.append([size for at, size in schedule if consumed >= at][-1])
        rates.append(_megatron_rate(consumed, given))
        consumed += batches[-1]
    return batches, rates


def _megatron_rate(consumed, given):
    peak, low = float(given["lr"]), float(given.get("min-lr", 0.0))
    warmup = int(given.get("lr-warmup-samples", 0))
    end = int(given.get("lr-decay-samples", given["train-samples"]))
    assert warmup < end
    if warmup and consumed <= warmup:
        first = float(given.get("lr-warmup-init", 0.0))
        return first + (peak - first) * consumed / warmup
    if given["lr-decay-style"] == "constant":
        return peak
    assert given["lr-decay-style"] == "WSD"
    if consumed > end:
        return low
    length = int(given["lr-wsd-decay-samples"])
    x = max(consumed - (end - length), 0) / length
    shapes = {
        "linear": 1 - x,
        "cosine": (1 + math.cos(math.pi * x)) / 2,
        "exponential": 2 * 0.5**x - 1,
        "minus_sqrt": 1 - math.sqrt(x),
    }
    return low + (peak - low) * shapes[given["lr-wsd-decay-style"]]


def olmo_settings(text):
    """Names and calls of a Python snippet: {name: value or (function, keywords)}."""
    settings = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            settings[node.targets[0].id] = _olmo_value(node.value)
    return settings


def _olmo_value(node):
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name.startswith("Duration."):
            return name.partition(".")[2], ast.literal_eval(node.args[0])
        return name, {each.arg: _olmo_value(each.value) for each in node.keywords}
    if isinstance(node, ast.List):
        return [_olmo_value(each) for each in node.elts]
    return ast.literal_eval(node)


def olmo_batches(batch_sizes, schedule, steps):
    """Tokens of every update. ``due`` before the batch is loaded: position >= the duration."""
    assert len(batch_sizes) == len(schedule)
    assert len({unit for unit, _ in schedule}) == 1
    starts = [value for _, value in schedule]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    for old, new in itertools.pairwise(batch_sizes):
        assert old != new
        assert max(old, new) % min(old, new) == 0
    batches, size, loaded = [], batch_sizes[0], 0
    for step in range(steps):
        position = {"steps": step, "tokens": sum(batches)}[schedule[0][0]]
        target = [b for b, at in zip(batch_sizes, starts, strict=True) if position >= at][-1]
        if (target > size and loaded % (target // size) == 0) or target < size:
            loaded, size = loaded * size // target, target
        batches.append(size)
        loaded += 1
    return batches


def olmo_rate(scheduler, peak, step, steps):
    """Its schedulers counted in steps; update t runs at t."""
    name, given = scheduler
    warmup = given["warmup"]
    if name == "CosWithWarmup":
        if step < warmup:
            return peak * step / warmup
        low, x = peak * given["alpha_f"], (step - warmup) / (steps - warmup)
        return low if step >= steps else low + (peak - low) * (1 + math.cos(math.pi * x)) / 2
    if step <= warmup:
        return peak * step / warmup
    if name == "ConstantWithWarmup":
        return peak
    assert name == "WSD"
    assert given["decay_fraction"] is None
    decay, low = given["decay"], given["decay_min_lr"]
    assert 0 <= low < peak
    return peak if step < steps - decay else low + (peak - low) * (steps - step) / decay


def accumulation_table(text):
    """The rows of the table as numbers, and ``aligned`` as text."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [
        {name: value if name == "aligned" else int(value) for name, value in row.items()}
        for row in csv.DictReader(lines)
    ]


def hugging_face_batches(table, replicas, micro_batch):
    """Samples of every update: the optimiser steps when the micro-batches of the epoch are a
    multiple of the accumulation; batch = micro-batch x replicas x micro-batches."""
    batches, count, held = [], 0, 0
    for row in table:
        while len(batches) < row["last_step"]:
            count, held = count + 1, held + 1
            if count % row["accumulation"] == 0:
                batches.append(held * micro_batch * replicas)
                held = 0
    return batches


def hugging_face_rate(arguments, step):
    """LambdaLR gives update t the factor of the t - 1 updates before it."""
    peak, done, warmup = arguments["learning_rate"], step - 1, arguments["warmup_steps"]
    given = arguments.get("lr_scheduler_kwargs", {})
    low = given.get("min_lr_ratio", 0.0)
    if done < warmup:
        return peak * (low + (1 - low) * done / warmup)
    if not given or done < warmup + given["num_stable_steps"]:
        return peak
    x = (done - warmup - given["num_stable_steps"]) / given["num_decay_steps"]
    if x >= 1:
        return peak * low
    shapes = {
        "linear": 1 - x,
        "cosine": (1 + math.cos(math.pi * x)) / 2,
        "1-sqrt": 1 - math.sqrt(x),
    }
    return peak * (low + (1 - low) * shapes[given["decay_type"]])


def call_arguments(text):
    """Keywords of a call written as ``name=value, ...``."""
    return {
        each.arg: ast.literal_eval(each.value)
        for each in ast.parse(f"f({text})").body[0].value.keywords
    }


def lightning_batches(scheduling, epochs, epoch_batches, size):
    """Samples of every update: a factor from its epoch (from 0) on, 1 before the first; an
    update at whole multiples of the factor and at the end of the epoch."""
    factors = {0: 1} | scheduling
    batches = []
    for epoch in range(epochs):
        factor = factors[max(at for at in factors if at <= epoch)]
        whole, rest = divmod(epoch_batches, factor)
        batches += [factor * size] * whole + [rest * size] * (rest > 0)
    return batches
