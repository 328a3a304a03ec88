"""Errors as data: which input, what was needed, what was given. The sentence is built last."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

# Brackets around argument names; they occur in no message and no file name.
_OPEN, _CLOSE = "\u27e6", "\u27e7"
_ARGUMENT = re.compile(f"{_OPEN}(\\w+){_CLOSE}")


def arg(name: str) -> str:
    """Mark another argument's name inside a message, so that an interface can translate it."""
    return f"{_OPEN}{name}{_CLOSE}"


def _rename(text: str, name: Callable[[str], str]) -> str:
    return _ARGUMENT.sub(lambda match: name(match[1]), text)


class InputError(ValueError):
    """Input that cannot be used; the program itself is fine.

    ``str(error)`` reads "where: subject needed, got value: hint", for example
    "budget must be at least 64, got 48".

    Attributes
    ----------
    field
        The argument at fault, by its name in the library.
    needed
        What was needed, a sentence without its subject: "must be at least 1". Other arguments
        in it are written ``arg("max_batch")``.
    got
        What was given, as text; empty if there is nothing to show.
    hint
        What to do about it, if that is not obvious.
    subject
        Starts the sentence in place of the field's name: a file, a value.
    where
        The file that contains the input, if any.
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
        # Pass them all: unpickling in another process rebuilds the exception from its arguments.
        super().__init__(field, needed, got, hint, subject, where)
        self.field = field
        self.needed = needed
        self.got = got
        self.hint = hint
        self.subject = subject
        self.where = where

    def sentence(self, name: Callable[[str], str] = str) -> str:
        """The error as one line, with every argument renamed by ``name``."""
        line = f"{self.where}: " if self.where else ""
        line += f"{_rename(self.subject, name) or name(self.field)} {_rename(self.needed, name)}"
        line += f", got {_rename(self.got, name)}" if self.got else ""
        line += f": {_rename(self.hint, name)}" if self.hint else ""
        return " ".join(line.split())

    def predicate(self, name: Callable[[str], str] = str) -> str:
        """The sentence without its subject, for an interface that shows a label before it."""
        return self._with(subject=" ", where="").sentence(name)

    def renamed(self, name: Callable[[str], str]) -> Self:
        """The same error with arguments under the names that the user knows."""
        return self._with(
            field=name(self.field),
            needed=_rename(self.needed, name),
            got=_rename(self.got, name),
            hint=_rename(self.hint, name),
            subject=_rename(self.subject, name),
        )

    def within(self, where: object) -> Self:
        """The same error, located in the file ``where``."""
        return self._with(where=str(where))

    def _with(self, **changes: str) -> Self:
        names = ("field", "needed", "got", "hint", "subject", "where")
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def __str__(self) -> str:
        return self.sentence()


class Unstable(InputError):  # noqa: N818 - a public name; it describes the run
    """Rates or batches at which the run diverges."""
