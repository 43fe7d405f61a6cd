"""The verdict on a change: everything that was compiled from its text, and in words what a proof covers and assumes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.base.degrees import shape_of
from ncu_swizzle.certify.verdict import Assumption, Counterexample, KernelVerdict, Location, MovedAccess, ProofOutcome
from ncu_swizzle.cubin.names import demangle, qualified
from ncu_swizzle.cubin.shared_arrays import source_name

SCHEMA = 1
ALONE = "the host's code was not compared: two kernels were named"
NUMBERLESS = "what the host's code does with __LINE__, such as in messages, does not matter: lines have moved"
NOT_COVERED = (
    "what the kernel costs: time, registers, shared memory, blocks per SM",
    "errors of the compilers and of the assembler, which translate both versions",
    "templates that nothing here instantiates",
    "code that is compiled elsewhere: other options, NVRTC, files outside of the checkout",
)


@dataclass(frozen=True, kw_only=True)
class UnitVerdict:
    """A translation unit of both versions, for one architecture. `obstacle` is what else prevents a proof."""

    source: Path
    arch: str
    options: tuple[str, ...] = ()  # nvcc's
    origin: str = ""  # where its options are from, if no kernel of it is described
    kernels: tuple[KernelVerdict, ...] = ()  # those whose code differs
    unchanged: tuple[str, ...] = ()  # symbols of those whose code is the same
    obstacle: str = ""
    host_differs: bool = False  # that is the obstacle
    named: tuple[str, str] | None = None  # two kernels that were compared alone; else all are, and the host's half
    numberless: bool = False  # the host's half is the same with 0 for __LINE__, which moves
    digests: tuple[str, ...] = ()  # SHA-256 of the PTX before and after; none if it was not compiled
    read: frozenset[Path] = frozenset()  # files that it was compiled from

    @property
    def outcome(self) -> ProofOutcome:
        outcomes = {kernel.outcome for kernel in self.kernels}
        if ProofOutcome.REFUTED in outcomes:
            return ProofOutcome.REFUTED
        return ProofOutcome.UNPROVED if self.obstacle or ProofOutcome.UNPROVED in outcomes else ProofOutcome.PROVED


@dataclass(frozen=True, kw_only=True)
class ChangeVerdict:
    """All units that a change reaches. `unknown` is why there may be more of them; empty if there are not."""

    units: tuple[UnitVerdict, ...]
    compiler: str  # nvcc's version
    sources: tuple[tuple[str, str, str], ...] = ()  # changed files, and their SHA-256 before and after
    unknown: str = ""

    @property
    def outcome(self) -> ProofOutcome:
        outcomes = {unit.outcome for unit in self.units}
        if ProofOutcome.REFUTED in outcomes:
            return ProofOutcome.REFUTED
        return ProofOutcome.UNPROVED if self.unknown or ProofOutcome.UNPROVED in outcomes else ProofOutcome.PROVED

    @property
    def kernels(self) -> Iterator[KernelVerdict]:
        return (kernel for unit in self.units for kernel in unit.kernels)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the proofs needed, in the order in which they are listed."""
        needed = {assumption for kernel in self.kernels for assumption in kernel.assumptions}
        return tuple(assumption for assumption in Assumption if assumption in needed)


def name_of(symbol: str) -> str:
    """Return a kernel's name as its source has it."""
    return qualified(demangle(symbol))


def covers(verdict: KernelVerdict, unit: UnitVerdict, compiler: str) -> str:
    """Return which launches a proof covers: a sentence without its full stop."""
    shape = f"blocks of {shape_of(verdict.block)} threads" if verdict.block else "blocks of any shape"
    dynamic = f", {verdict.dynamic:,} bytes of dynamic shared memory" if verdict.dynamic else ""
    bounded = Assumption.IN_BOUNDS in verdict.assumptions
    arguments = "any arguments for which the old kernel stays within its arrays" if bounded else "any arguments"
    built = " ".join(("with", *unit.options)) if unit.options else "without options"
    return (
        f"for every launch with {shape}{dynamic}, any grid and {arguments}; "
        f"built by nvcc {compiler} {built} for {unit.arch}"
    )


def assumes(change: ChangeVerdict) -> Iterator[str]:
    """Yield what the proofs assume, beyond the launches that they cover."""
    for assumption in change.assumptions:
        if assumption is not Assumption.IN_BOUNDS:  # the launches that are covered say it
            yield assumption.value
    if any(unit.numberless for unit in change.units):
        yield NUMBERLESS


def leaves_out(change: ChangeVerdict) -> Iterator[str]:
    """Yield what no proof here covers."""
    if any(unit.named for unit in change.units):
        yield ALONE
    yield from NOT_COVERED


def located(line: Location | None) -> str:
    """Return a line as compilers write it, its file relative to the current folder if it is below it."""
    if line is None or not line[0]:
        return ""
    path = os.path.relpath(line[0])
    return f"{line[0] if path.startswith('..') else path}:{line[1]}"


def met(found: Counterexample) -> Iterator[str]:
    """Yield a counterexample line by line."""
    yield f"{source_name(found.array)}: {found.what}"
    yield from map(_access, found.accesses)
    values = ", ".join(f"{name} = {value}" for name, value in sorted(found.values.items()))
    yield f"block {found.block}{f', {values}' if values else ''}"


def _access(access: MovedAccess) -> str:
    does = "writes" if access.write else "reads"
    where = located(access.line) or "an instruction without a line"
    width = f"{access.width} byte{'s' if access.width > 1 else ''}"
    return f"{where}: thread {access.thread} {does} {width} at byte {access.before} before, {access.after} after"


def to_json(change: ChangeVerdict) -> dict[str, Any]:
    """Return the verdict as JSON has it; queries are in certificates alone."""
    return {
        "schema": SCHEMA,
        "outcome": change.outcome,
        "compiler": change.compiler,
        "unknown": change.unknown,
        "assumes": list(assumes(change)),
        "not_covered": list(leaves_out(change)),
        "units": [
            {name: _plain(getattr(unit, name)) for name in ("source", "arch", "options", "outcome", "obstacle")}
            | {"unchanged": list(map(name_of, unit.unchanged))}
            | {"kernels": [_kernel(kernel, unit, change.compiler) for kernel in unit.kernels]}
            for unit in change.units
        ],
    }


def _kernel(kernel: KernelVerdict, unit: UnitVerdict, compiler: str) -> dict[str, Any]:
    content: dict[str, Any] = _plain(kernel)
    del content["queries"]
    return content | {
        "kernel": name_of(kernel.kernel),
        "symbol": kernel.kernel,
        "mapped": list(map(source_name, kernel.mapped)),
        "covers": covers(kernel, unit, compiler) if kernel.outcome is ProofOutcome.PROVED else "",
    }


def _plain(value: object) -> Any:
    """Return a value as JSON has it: records, and lines, by the names of their fields."""
    if isinstance(value, Location):
        return value._asdict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return str(value) if isinstance(value, Path) else dict(value) if isinstance(value, Mapping) else value
