"""A page of the documentation as a script: its code blocks and command lines, in their order."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from paths import DOCS, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]

_FENCE = re.compile(r"```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?:\$ )?((?:\.venv/bin/)?(?:batchlaw|python3?|make) .+)")
_INLINE = re.compile(r"`((?:\.venv/bin/)?(?:batchlaw|python3?|make) [^`]+)`")


@dataclass(frozen=True)
class Part:
    """One block: its language ("" where it is indented), its text, and the line it starts at."""

    language: str
    text: str
    line: int

    @property
    def lines(self) -> list[str]:
        """Its lines, with a command that goes on after a backslash in one."""
        return self.text.replace("\\\n", " ").splitlines()

    @property
    def commands(self) -> list[list[str]]:
        """Its command lines in words, without comments."""
        if self.language not in ("", "text"):
            return []
        found = (_COMMAND.fullmatch(line) for line in self.lines)
        return [shlex.split(match[1], comments=True) for match in found if match]

    @property
    def shown(self) -> list[str]:
        """The lines that a block with "$ command" shows as its output; "..." leaves some out."""
        first, *rest = self.lines
        if not first.startswith("$ "):
            return []
        return [line.rstrip() for line in rest if line.strip() not in ("", "...")]


def parts(page: Path) -> list[Part]:
    text = page.read_text()
    found = [
        Part(match[1] or "text", match[2], text.count("\n", 0, match.start()) + 1)
        for match in _FENCE.finditer(text)
    ]
    # Blank the fences out, so that lines keep their numbers.
    plain = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in re.finditer(r"(?:^ {4}.*\n|^\n(?= {4}))+", plain, re.MULTILINE):
        block = "\n".join(line[4:] for line in match[0].splitlines())
        found.append(Part("", block.strip("\n"), plain.count("\n", 0, match.start()) + 1))
    return sorted((part for part in found if part.text.strip()), key=lambda part: part.line)


def inline_commands(page: Path) -> list[list[str]]:
    """Commands in the text; they may lack arguments, and "..." stands for some."""
    plain = _FENCE.sub("", page.read_text())
    return [" ".join(command.split()).split() for command in _INLINE.findall(plain)]


def inline_options(page: Path) -> set[str]:
    """Options that are named in the text, as in `--stages 5`."""
    plain = _FENCE.sub("", page.read_text())
    return set(re.findall(r"`(--[a-z][a-z-]*)[^`]*`", plain))
