"""Errors as data: which input, what was needed, what came. Sentences are made at the edge."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

# Brackets that no message and no file name has, around the names of arguments.
_OPEN, _CLOSE = "\u27e6", "\u27e7"
_ARGUMENT = re.compile(f"{_OPEN}(\\w+){_CLOSE}")


def arg(name: str) -> str:
    """Another argument's name inside a message; a face may show its own name for it."""
    return f"{_OPEN}{name}{_CLOSE}"


class InputError(ValueError):
    """Input that cannot be used. Nothing is wrong with the program.

    ``str(error)`` reads "where: subject needed, got what came: hint", for example
    "budget must be at least 64, got 48".

    Attributes
    ----------
    field
        The argument that is at fault, as the library names it.
    needed
        What was needed, a sentence without its subject: "must be at least 1". Other arguments
        in it are written ``arg("max_batch")``.
    got
        What came, as text; empty where there is nothing to show.
    hint
        What to do about it, if that is not plain.
    subject
        Begins the sentence in place of the field's name: a file, a value.
    where
        The file that the input stands in, if it does.
    """

    def __init__(
        self,
        field: str,
        needed: str,
        got: str = "",
        hint: str = "",
        subject: str = "",
        where: str = "",
    ) -> None:
        # All of them: an exception that crosses processes is made again from its arguments.
        super().__init__(field, needed, got, hint, subject, where)
        self.field = field
        self.needed = needed
        self.got = got
        self.hint = hint
        self.subject = subject
        self.where = where

    def sentence(self, name: Callable[[str], str] = str) -> str:
        """One line, with the names that ``name`` gives to arguments."""

        def named(text: str) -> str:
            return _ARGUMENT.sub(lambda match: name(match[1]), text)

        line = f"{self.where}: " if self.where else ""
        line += f"{named(self.subject) or name(self.field)} {named(self.needed)}"
        line += f", got {named(self.got)}" if self.got else ""
        line += f": {named(self.hint)}" if self.hint else ""
        return " ".join(line.split())

    def predicate(self, name: Callable[[str], str] = str) -> str:
        """The sentence without its subject, for a face that puts a label before it."""
        return self._with(subject=" ", where="").sentence(name)

    def renamed(self, name: Callable[[str], str]) -> Self:
        """The same error in other names, for input that reached the library under them."""

        def again(text: str) -> str:
            return _ARGUMENT.sub(lambda match: name(match[1]), text)

        return self._with(
            field=name(self.field),
            needed=again(self.needed),
            got=again(self.got),
            hint=again(self.hint),
            subject=again(self.subject),
        )

    def within(self, where: object) -> Self:
        """The same error, said to be in a file."""
        return self._with(where=str(where))

    def _with(self, **changes: str) -> Self:
        names = ("field", "needed", "got", "hint", "subject", "where")
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def __str__(self) -> str:
        return self.sentence()


class Unstable(InputError):  # noqa: N818 - a public name, and what the run is
    """Rates or batches at which the run diverges."""
