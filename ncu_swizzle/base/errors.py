"""What can go wrong, and the exit code of each.

    NcuSwizzleError
    ├── GateFailed           1  a limit that the user set was exceeded
    ├── UsageError           2  the command line, or a file that it names, is invalid
    │   ├── UnknownKernel       no such kernel in the catalogue
    │   ├── LaunchLacking       a kernel's grid, block or arguments are missing or do not fit
    │   ├── BadProblem          a problem size outside the kernel's limits
    │   ├── BadCatalog          an invalid family.toml
    │   ├── Untrusted           a project file asks for what needs --trust
    │   ├── BadFile             missing, or neither a report nor a saved profile
    │   ├── DamagedFile         truncated or changed after it was written
    │   └── NotWritable         the output cannot be written
    ├── EnvironmentLacking   3  no GPU, no ncu, no permission, no PyCUDA
    │   └── CountersForbidden   only privileged users may read the GPU's counters
    ├── ProgramFailed        4  the profiled program or ncu failed
    │   ├── WrongOutput         the kernel's output differs from the reference
    │   ├── NothingProfiled     ncu succeeded but saw no kernel
    │   └── TimeLimit           it exceeded its time limit
    ├── NotComparable        5  the values do not allow a verdict
    ├── InternalError       70  a bug in ncu-swizzle; a file has the traceback
    └── Interrupted        130  Ctrl-C; finished work is kept
        ├── Terminated     143  SIGTERM
        └── HungUp         129  SIGHUP

Every error says what failed (``str(error)``), and ``hint`` says what to type next, see `Hint`. Values that they quote
are shortened, see `shortened`. OSErrors are also interpreted here, by their number.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

LONGEST_WORD = 255  # characters of a value in an error: any file name stays whole
LONGEST_LINE = 1000
LONGEST_TEXT = 8000
LONGEST_TYPED = 128 << 10  # characters of a command: Linux passes no longer word to a program
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OUTPUT_LOST = (*FULL, errno.EBADF, errno.EIO)  # how writing to stdout fails
REFUSED = (errno.EACCES, errno.EPERM)
OUT_OF_MEMORY = "use a smaller --problem, or fewer or smaller files"

# What to type after an OSError, whatever was being done.
REMEDIES = {
    **dict.fromkeys(FULL, "free some disk space, or name another path"),
    errno.ENAMETOOLONG: "give a shorter path: a file name has at most 255 bytes, a path 4095",
    errno.E2BIG: "pass fewer and shorter options: the system limits a command line",
    errno.ELOOP: "readlink shows where each symbolic link of the path leads",
    errno.EMFILE: "allow more open files: ulimit -n 4096",
    errno.ENFILE: "close other programs: this machine has too many files open",
    errno.EAGAIN: "close other programs, or allow more processes: ulimit -u",
    errno.ENOMEM: OUT_OF_MEMORY,
}


def did_you_mean(name: str, choices: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the end of an error about an unknown name: ``, did you mean 'kernel2'?``, or "" if none is close."""
    import difflib

    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return f", did you mean {near[0]!r}?" if near else ""


def as_word(name: str) -> str:
    """Return a file's name as a word of a command: ``./-a.cu`` for ``-a.cu``, which would be read as options."""
    return f"./{name}" if name.startswith("-") else name


class Typed(str):
    """A part of a hint that is typed as it stands: a command, or options for the command that failed."""

    __slots__ = ()

    @property
    def words(self) -> list[str]:
        """The words as a shell reads them; none if a quotation mark is missing."""
        try:
            return shlex.split(self)
        except ValueError:
            return []


class Hint(str):
    """What to try next: sentences and what is typed, ``Hint("use smaller sizes: ", Typed("--problem n=64"))``.

    It is printed as it reads. Clients that send calls instead of commands take the typed parts from `parts`.
    """

    parts: tuple[str, ...]

    def __new__(cls, *parts: str) -> Hint:
        """Concatenate the parts; a part that is itself a hint keeps its own parts."""
        hint = super().__new__(cls, "".join(parts))
        hint.parts = tuple(inner for part in parts for inner in (part.parts if isinstance(part, Hint) else (part,)))
        return hint

    def as_json(self) -> list[list[str]]:
        """Return plain data, to leave the process."""
        return [["typed" if isinstance(part, Typed) else "said", str(part)] for part in self.parts]

    @classmethod
    def of_json(cls, parts: list[list[str]]) -> Hint:
        """Return the hint that `as_json` encoded."""
        return cls(*(Typed(text) if kind == "typed" else text for kind, text in parts))


class NcuSwizzleError(Exception):
    """Base of all errors that a user can act on; ``hint`` is the next thing to try."""

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = Hint(*_shortened_parts(Hint(hint)))

    def __str__(self) -> str:
        return shortened(super().__str__())


class GateFailed(NcuSwizzleError):
    exit_code = 1


class UsageError(NcuSwizzleError):
    exit_code = 2


class UnknownKernel(UsageError):
    pass


class LaunchLacking(UsageError):
    """The hint is the missing options, or a command; `spec`, if any, is what is known about the kernel."""

    spec: object = None


class BadProblem(UsageError):
    pass


class BadCatalog(UsageError):
    size: str = ""  # what an expression lacks


class Untrusted(UsageError):
    pass


class BadFile(UsageError):
    pass


class DamagedFile(UsageError):
    pass


class NotWritable(UsageError):
    pass


class EnvironmentLacking(NcuSwizzleError):
    exit_code = 3


class CountersForbidden(EnvironmentLacking):
    pass


class ProgramFailed(NcuSwizzleError):
    exit_code = 4
    output: str = ""  # the program's last lines, if the message quotes them


class WrongOutput(ProgramFailed):
    pass


class NothingProfiled(ProgramFailed):
    pass


class TimeLimit(ProgramFailed):
    pass


class NotComparable(NcuSwizzleError):
    exit_code = 5


class InternalError(NcuSwizzleError):
    exit_code = 70  # EX_SOFTWARE of sysexits.h


class Interrupted(NcuSwizzleError):
    exit_code = 130
    word: ClassVar[str] = "interrupted"


class Terminated(Interrupted):
    exit_code = 143
    word = "terminated"


class HungUp(Interrupted):
    exit_code = 129
    word = "hung up"


def interruption(stop: BaseException) -> type[Interrupted] | None:
    """Return the error for what Ctrl-C or a signal raised: KeyboardInterrupt or SystemExit; None for any other exit."""
    if isinstance(stop, KeyboardInterrupt):
        return Interrupted
    code = stop.code if isinstance(stop, SystemExit) else None
    return next((kind for kind in (Interrupted, Terminated, HungUp) if kind.exit_code == code), None)


def by_name(name: str) -> type[NcuSwizzleError]:
    """Return the error class of that name; NcuSwizzleError itself for an unknown name."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, NcuSwizzleError) else NcuSwizzleError


def shortened(text: str) -> str:
    """Return an error's text without the middle of overlong words and lines: quotations may have any length."""
    if len(text) <= LONGEST_WORD:
        return text
    words = re.sub(rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}", lambda word: _cut(word[0], LONGEST_WORD), text[: 1 << 24])
    return _cut("\n".join(_cut(line, LONGEST_LINE) for line in words.split("\n")), LONGEST_TEXT)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[len(text) - most // 3 + 1 :]}"


def _shortened_parts(hint: Hint) -> Iterator[str]:
    for part in hint.parts:
        # What is typed is whole, or it would not work.
        yield part if isinstance(part, Typed) and len(part) <= LONGEST_TYPED else type(part)(shortened(part))


def as_json(error: NcuSwizzleError) -> dict[str, Any]:
    """Return an error as plain data, to leave the process that raised it, as its nearest class of this module."""
    kind = next(parent.__name__ for parent in type(error).__mro__ if parent.__module__ == __name__)
    return {"type": kind, "message": str(error), "hint": error.hint.as_json()}


def of_json(content: dict[str, Any]) -> NcuSwizzleError:
    """Return the error that `as_json` encoded."""
    return by_name(content["type"])(content["message"], Hint.of_json(content["hint"]))


def reason(error: OSError) -> str:
    """Return the cause of an OSError in the system's words."""
    return error.strerror or str(error) or type(error).__name__


def remedy(error: OSError, otherwise: str) -> str:
    """Return what to type after an OSError; `otherwise` if its number does not decide that."""
    return REMEDIES.get(error.errno or 0, otherwise)


def error_of_system(error: OSError) -> NcuSwizzleError:
    """Return the error for an OSError that no caller handled: about a file, stdout, or the machine."""
    if error.filename is not None:
        return _of_file(error)
    if error.errno in OUTPUT_LOST:
        return NotWritable(f"cannot write the output: {reason(error)}", remedy(error, "redirect it to a file"))
    if error.errno == errno.ENOENT and error.strerror == os.strerror(errno.ENOENT):
        return EnvironmentLacking("the current folder no longer exists", "cd to a folder that exists")
    if error.errno == errno.ENOENT:  # tempfile found no folder
        return EnvironmentLacking(reason(error), "set TMPDIR to a folder that you can write to")
    return EnvironmentLacking(f"the system refused: {reason(error)}", remedy(error, "free and ulimit -a may say why"))


def _of_file(error: OSError) -> NcuSwizzleError:
    # In a failed copy, the first file is the source and the second the one that could not be written.
    if error.errno in (*FULL, errno.EROFS):
        return NotWritable(f"cannot write {_name(error.filename2 or error.filename)}: {reason(error)}",
                           remedy(error, "name another path"))  # fmt: skip
    hint = "check its permissions" if error.errno in REFUSED else "check the path"
    return UsageError(f"{_name(error.filename)} cannot be used: {reason(error)}", remedy(error, hint))


def _name(file: object) -> str:
    return os.fsdecode(file) if isinstance(file, str | bytes) else str(file)
