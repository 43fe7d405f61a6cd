"""``explain`` for kernels without a described launch: the degrees of their accesses in every launch, by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.base import degrees
from ncu_swizzle.base.errors import UsageError, as_word
from ncu_swizzle.engines import launchless
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.launchless import CompiledFile, CompiledKernel
from ncu_swizzle.explain import shown
from ncu_swizzle.explain.query import ExplainQuery
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.naming import Unlaunched
from ncu_swizzle.render.listing import table_line
from ncu_swizzle.smem.access import Index

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class LaunchAccess:
    """Similar accesses of one line: where, what, how many, and a phrase about their degree."""

    line: str
    opcode: str
    count: int
    degree: str


@dataclass(frozen=True, kw_only=True)
class KernelAnswer:
    """A kernel, the blocks assumed for it, and its accesses to shared memory."""

    kernel: str
    blocks: str
    rows: tuple[LaunchAccess, ...]


@dataclass(frozen=True, kw_only=True)
class EveryLaunchAnswer:
    """What is known about a file's kernels in every launch, and how they were compiled."""

    kernels: tuple[KernelAnswer, ...]
    notes: tuple[str, ...]


def answer(query: ExplainQuery, files: Sequence[Unlaunched]) -> EveryLaunchAnswer:
    """Return the answer for a file, a line of it, or a build folder. Raises UsageError, and what compiling raises."""
    description, settings = query.kernel.description, EmulationSettings.of(query.kernel.request)
    block = limits.block_of(description.launch.block, dict(description.problem)) if description.launch.block else None
    wanted = query.access or query.line
    compiled = [launchless.of_file(file, settings, description.launch) for file in files]
    kernels = tuple(kernel for file in compiled for kernel in _answers(file, block, wanted))
    if not kernels:
        where, name = f" at {wanted}" if wanted else "", query.subject
        raise UsageError(f"no kernel of {name} accesses shared memory{where}", f"ncu-swizzle lint {as_word(name)}")
    notes = dict.fromkeys(f"{note}." for file in compiled for note in file.notes)
    return EveryLaunchAnswer(kernels=kernels, notes=(*notes, NEEDS_LAUNCH))


NEEDS_LAUNCH = "Wavefronts, a map of the banks and mappings need a launch: ncu-swizzle init describes one."


def _answers(compiled: CompiledFile, block: tuple[int, int, int] | None, wanted: str) -> Iterator[KernelAnswer]:
    for kernel in compiled.judged:
        if rows := tuple(_rows(kernel, block, wanted)):
            shapes = degrees.shapes(shape.sizes for shape in kernel.blocks(block))
            yield KernelAnswer(kernel=kernel.name, blocks=shapes, rows=rows)


def _rows(kernel: CompiledKernel, block: tuple[int, int, int] | None, wanted: str) -> Iterator[LaunchAccess]:
    judged = kernel.judged(block)
    counted: dict[tuple[str, str, str], int] = {}
    for access in judged.accesses():
        one = next(iter(access.values()))
        location = judged.lines.get(one.offset)
        line = f"{Path(location[0]).name}:{location[1]}" if location else ""
        if wanted in ("", line, one.opcode):
            key = line, one.opcode, _said({block: each.in_words for block, each in access.items()})
            counted[key] = counted.get(key, 0) + 1
    yield from (
        LaunchAccess(line=line, opcode=opcode, count=count, degree=degree)
        for (line, opcode, degree), count in counted.items()
    )


def _said(by_shape: dict[Index, str]) -> str:
    """Describe an access for all block shapes, naming each shape if they differ."""
    alike = len(set(by_shape.values())) == 1
    return next(iter(by_shape.values())) if alike else degrees.by_shapes(by_shape)


def show(answer: EveryLaunchAnswer, console: Console) -> None:
    """Print a table for each kernel."""
    for kernel in answer.kernels:
        console.print(table_line(f"{kernel.kernel}, in every launch with blocks of {kernel.blocks}", style="bold"))
        table = shown.columns("line", "instruction", "accesses", "degree")
        for row in kernel.rows:
            table.add_row(row.line, row.opcode, str(row.count), row.degree)
        console.print(table)
        console.print()
    for note in answer.notes:
        console.print(table_line(note))
