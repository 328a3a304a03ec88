"""The command line: one file a command, loaded when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from batchlaw._base.version import __version__
from batchlaw.faces.cli.help_text import HelpText

app = App(
    name="batchlaw",
    help="Which updates of an SGD run deserve the samples?",
    version=__version__,
    help_format="markdown",
    help_formatter=HelpText(),
    print_error=False,
    exit_on_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
app.command(
    "batchlaw.faces.cli.reproduce:reproduce",
    help="Run the paper's four experiments and compare every figure.",
)
app.command(
    "batchlaw.faces.cli.plan:plan",
    help="Batch sizes for a run: what they buy, and something to paste into a trainer.",
)
app.command(
    "batchlaw.faces.cli.estimate:estimate",
    help="Spectrum and influence from a sample of features, with a band, for a plan.",
)
app.command(
    "batchlaw.faces.cli.check:check",
    help="Find a broken horizon, budget or stage before a run.",
)
app.command(
    "batchlaw.faces.cli.risk:risk",
    help="Risk of batch schedules in its parts, without Monte Carlo.",
)
app.command(
    "batchlaw.faces.cli.law:law",
    help="The paper's scaling laws at a setting: terms, horizons, and which conditions hold.",
)
app.command(
    "batchlaw.faces.cli.verify:verify",
    help="Check the paper's claims with exact risks: a verdict for each, and a report.",
)
app.command(
    "batchlaw.faces.cli.static_batch:static_batch",
    help="The best constant batch size, and where a larger one stops helping.",
)
app.command(
    "batchlaw.faces.cli.sweep:app",
    name="sweep",
    help="Many settings at once: a grid or a random design, resumable, on a cluster too.",
)
app.command(
    "batchlaw.faces.cli.explore:explore",
    help="Open a page on which schedules, influence and risks can be seen and moved.",
)
app.command(
    "batchlaw.faces.cli.study:study",
    help="Train real models with each batch schedule, at equal steps and samples.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Bad input is one line on stderr and exit code 2, without a traceback.

    1 means that the work could not be finished, or that figures which must agree do not.
    """
    try:
        code = app(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except (CycloptsError, ValueError) as error:
        print(f"batchlaw: {_one_line(error)}", file=sys.stderr)
        return 2
    except MemoryError:
        print("batchlaw: out of memory: ask for fewer steps or repetitions", file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(f"batchlaw: numbers out of range: {_one_line(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has left; point stdout elsewhere so that closing it is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"batchlaw: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("batchlaw: interrupted", file=sys.stderr)
        return 130
    return code if isinstance(code, int) else 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
