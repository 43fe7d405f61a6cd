"""A new build of captured kernels: cubins that the user names, or those that a compiler's command line gives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ncu_swizzle import child, paths
from ncu_swizzle.bounds import quotation
from ncu_swizzle.build.binary import code_in
from ncu_swizzle.build.build_option import EXAMPLE, NewBuild
from ncu_swizzle.build.toolchain import NVCC, Toolchain
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import read_bytes
from ncu_swizzle.unfinished.folders import scratch

# nvcc's options for the architecture, for what to make, and for where to put it: each is replaced.
_WITH_VALUE = re.compile(
    r"-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code|"
    r"-o|--output-file|-odir|--output-directory"
)
_JOINED = re.compile(rf"({_WITH_VALUE.pattern})=.*")
_PHASES = frozenset(
    ("-c", "--compile", "-dc", "--device-c", "-dw", "--device-w", "-cubin", "--cubin", "-ptx", "--ptx", "-fatbin",
     "--fatbin", "-link", "--link", "-lib", "--lib", "-shared", "--shared", "-dlink", "--device-link")
)  # fmt: skip
_LINKED = re.compile(r"-l(?!ineinfo)\S+|.*\.(o|a|so|obj)$")


def cubins(build: NewBuild, toolchain: Toolchain, arch: str) -> tuple[Cubin, ...]:
    """Return the cubins of a new build; `arch` is that of the captured ones, such as sm_90.

    Raises UsageError if the command is not nvcc's, does not compile, or builds no kernel; BadFile and DamagedFile.
    """
    if build.cubin and build.rebuild:
        raise UsageError("--cubin and --rebuild both give a new build", "leave out one of them")
    named = [Cubin(code_in(file, toolchain), file.name) for file in build.cubin]
    return tuple(named) or (tuple(_rebuilt(build.rebuild, toolchain, arch)) if build.rebuild else ())


def _rebuilt(command: str, toolchain: Toolchain, arch: str) -> Iterator[Cubin]:
    words = _split(command)
    options = list(_kept(words[1:]))
    wanted = arch + next((f for f in "af" if any(re.search(rf"(sm|compute)_{arch[3:]}{f}", w) for w in words)), "")
    program = toolchain.find(NVCC) if words[0] == NVCC else Path(words[0])
    with scratch() as folder:
        made = [str(program), *options, "-cubin", f"-arch={wanted}", "-odir", str(folder)]
        environment = {**paths.tool_environment(), "TMPDIR": str(folder)}
        outcome = child.run(made, toolchain.timeout_s, Path.cwd(), environment)
        if outcome.status:
            raise UsageError(
                f"--rebuild failed: {shlex.join(made[:-2])}\n{quotation.last_lines(outcome.log)}",
                f"run the command by itself; {EXAMPLE}",
            )
        files = sorted(folder.glob("*.cubin"))
        if not files:
            raise UsageError("--rebuild built no cubin", f"name the .cu files with the kernels: {EXAMPLE}")
        yield from (Cubin(read_bytes(file), file.name) for file in files)


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--rebuild {command}: {error}", EXAMPLE) from error
    if not words or Path(words[0]).name != NVCC:
        raise UsageError(f"--rebuild {command!r} is not a command of nvcc's", EXAMPLE)
    return words


def _kept(words: Sequence[str]) -> Iterator[str]:
    """Yield the options and sources that decide the code, without those that are replaced."""
    rest = iter(words)
    for word in rest:
        if _WITH_VALUE.fullmatch(word):
            next(rest, "")
        elif not (_JOINED.fullmatch(word) or word in _PHASES or _LINKED.fullmatch(word)):
            yield word
