"""The sources of another commit, linted as they were: what ``lint --against`` compares with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from ncu_swizzle.build import git
from ncu_swizzle.engines.context import Progress
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import NcuSwizzleError, UnknownKernel, UsageError
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.lines import KernelLint
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.unfinished.folders import scratch

FETCH = "git fetch origin, and name a branch, a tag or a commit; in a shallow clone, fetch that commit"


@dataclass(frozen=True)
class Base:
    """The kernels of a commit by name, why others are unknown, and the texts of its files by path from here."""

    name: str
    kernels: tuple[KernelLint, ...]
    unknown: tuple[str, ...] = ()
    texts: dict[str, Sequence[str]] = field(default_factory=dict)


def lint_base(name: str, options: LintOptions, settings: EmulationSettings, on_progress: Progress) -> Base:
    """Lint what the options name, as it was where the current branch left the commit `name`.

    Raises UsageError outside of a checkout, and for what is not a commit.
    """
    here = Path(os.path.realpath(Path.cwd()))
    top = git.top(here)
    if top is None:
        raise UsageError(f"{here} is in no git checkout", "run lint --against in the checkout of your sources")
    commit = _commit(here, name)
    with scratch() as folder:
        (folder / ".git").mkdir()  # the border of what project files may read, as in the checkout
        left_out = {Path(os.path.realpath(folder)) / path for path in git.unpack(here, commit, folder)}
        there = folder / here.relative_to(os.path.realpath(top))
        there.mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(there):
            return _linted(name, _moved(options, top, folder), settings, on_progress, left_out)


def _commit(folder: Path, name: str) -> str:
    """Return the commit at which the current branch left another one, or the commit itself if they share none."""
    found = git.said(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not found:
        raise UsageError(f"{name} is not a commit of this checkout", FETCH)
    commit = found.decode().strip()
    return git.said(folder, "merge-base", commit, "HEAD").decode().strip() or commit


def _moved(options: LintOptions, top: Path, folder: Path) -> LintOptions:
    """Return the options with absolute paths in the checkout moved into a folder."""

    def moved(text: str) -> str:
        path = Path(text)
        inside = path.is_absolute() and path.is_relative_to(top)
        return str(folder / path.relative_to(top)) if inside else text

    return replace(
        options,
        files=tuple(map(moved, options.files)),
        catalogs=tuple(Path(moved(str(catalog))) for catalog in options.catalogs),
        config=moved(options.config),
    )


def _linted(
    name: str, options: LintOptions, settings: EmulationSettings, on_progress: Progress, left_out: Collection[Path]
) -> Base:
    kernels: list[KernelLint] = []
    unknown: list[str] = []
    for file in options.files:
        if _is_new(file):
            path = Path(os.path.abspath(file.partition("::")[0]))  # noqa: PTH100 - resolve() follows links
            if not {path, *path.parents}.isdisjoint(left_out):
                unknown.append(
                    f"{file} of {name} was not judged: it leads out of the checkout, or is not in this clone"
                )
            continue
        try:
            kernels += linting.lint_kernels(replace(options, files=(file,)), settings, on_progress)
        except UnknownKernel:
            continue
        except NcuSwizzleError as error:
            unknown.append(f"{file} of {name} was not judged: {error}")
    files = {line.place.file for kernel in kernels for line in kernel.lines if line.place}
    return Base(name, tuple(kernels), tuple(unknown), {file: text for file in files if (text := lines_of(file))})


def _is_new(file: str) -> bool:
    """Return whether a file, not the name of a kernel, is missing here."""
    path = Path(file.partition("::")[0])
    named = path.suffix or len(PurePosixPath(file).parts) > 1
    return bool(named) and not path.exists()


def lines_of(file: str) -> Sequence[str]:
    """Return the lines of a source; none if it cannot be read."""
    try:
        return Path(file).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
