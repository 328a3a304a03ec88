"""Plans in the form that trainers read: batch sizes, and rates with the same horizon.

``TRAINERS`` has them by name, in the order in which they are listed everywhere. To add one, write a
file here with a ``Trainer`` and put it in the list below; ``register`` adds one at run time.
Each file names the versions of the trainer whose rules it follows.
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
