"""Plan -> what a trainer reads: batch sizes, with learning-rate settings of the same horizon.

``TRAINERS`` are the known ones by name, in the order in which faces show them. A further one is a
file here with a ``Trainer``, and its place in the list below; ``register`` takes one at run time.
The rules of each are facts of the versions that its file names.
"""

from batchlaw.plans.trainers.accumulation import ACCUMULATION
from batchlaw.plans.trainers.json_file import JSON
from batchlaw.plans.trainers.megatron import MEGATRON
from batchlaw.plans.trainers.olmo import OLMO
from batchlaw.plans.trainers.pytorch_table import PYTORCH
from batchlaw.plans.trainers.rates import Match
from batchlaw.plans.trainers.registry import TRAINERS, export, register
from batchlaw.plans.trainers.trainer import Export, Layout, Trainer

__all__ = ["TRAINERS", "Export", "Layout", "Match", "Trainer", "export", "register"]

for _trainer in (JSON, MEGATRON, OLMO, ACCUMULATION, PYTORCH):
    register(_trainer)
