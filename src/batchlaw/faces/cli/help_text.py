"""Help as plain text: each entry wrapped to the terminal's width with a hanging indent."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cyclopts.help import HelpPanel, PlainFormatter

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

# Wider than any paragraph: cyclopts pads and breaks text at the width of its console.
UNBROKEN_WIDTH = 10_000
HANGING_INDENT = 4


class HelpText:
    """A cyclopts ``HelpFormatter``: its plain one, on a console too wide to break lines."""

    def __init__(self) -> None:
        self._plain = PlainFormatter()

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        _print(console, lambda wide: self._plain(wide, options, panel))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        _print(console, lambda wide: self._plain.render_usage(wide, options, usage))

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        _print(console, lambda wide: self._plain.render_description(wide, options, text))


def _print(console: Console, render: Callable[[Console], None]) -> None:
    from rich.console import Console

    wide = Console(width=UNBROKEN_WIDTH, color_system=None)
    with wide.capture() as captured:
        render(wide)
    for line in captured.get().splitlines():
        console.print(_wrapped(line, console.width), highlight=False, markup=False, soft_wrap=True)


def _wrapped(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * HANGING_INDENT if indent else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
