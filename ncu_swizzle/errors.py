"""What can go wrong, and the exit code of each.

    NcuSwizzleError
    ├── GateFailed           1  a limit that the user set was exceeded
    ├── UsageError           2  the command line, or a file that it names, is invalid
    │   ├── UnknownKernel       no such kernel in the catalogue
    │   ├── BadProblem          a problem size outside the kernel's limits
    │   ├── BadCatalog          an invalid family.toml
    │   ├── BadFile             missing, or neither a report nor a saved profile
    │   ├── DamagedFile         truncated or changed after it was written
    │   └── NotWritable         the output cannot be written
    ├── EnvironmentLacking   3  no GPU, no ncu, no permission, no PyCUDA
    ├── ProgramFailed        4  the profiled program or ncu failed
    │   ├── WrongOutput         the kernel's output differs from the reference
    │   ├── NothingProfiled     ncu succeeded but saw no kernel
    │   └── TimeLimit           it exceeded its time limit
    ├── NotComparable        5  the values do not allow a verdict
    └── Interrupted        130  Ctrl-C; finished work is kept

Every error says what failed (``str(error)``), and ``hint`` says what to type next.
"""

from __future__ import annotations

from typing import ClassVar


class NcuSwizzleError(Exception):
    """Base of all errors that a user can act on; ``hint`` is the next thing to try."""

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class GateFailed(NcuSwizzleError):
    exit_code = 1


class UsageError(NcuSwizzleError):
    exit_code = 2


class UnknownKernel(UsageError):
    pass


class BadProblem(UsageError):
    pass


class BadCatalog(UsageError):
    pass


class BadFile(UsageError):
    pass


class DamagedFile(UsageError):
    pass


class NotWritable(UsageError):
    pass


class EnvironmentLacking(NcuSwizzleError):
    exit_code = 3


class ProgramFailed(NcuSwizzleError):
    exit_code = 4


class WrongOutput(ProgramFailed):
    pass


class NothingProfiled(ProgramFailed):
    pass


class TimeLimit(ProgramFailed):
    pass


class NotComparable(NcuSwizzleError):
    exit_code = 5


class Interrupted(NcuSwizzleError):
    exit_code = 130


def by_name(name: str) -> type[NcuSwizzleError]:
    """Return the error class of that name; NcuSwizzleError itself for an unknown name."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, NcuSwizzleError) else NcuSwizzleError
