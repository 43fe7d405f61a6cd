"""`lines` and `line`: what an editor shows beside a source: each line's wavefronts, each kernel's, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncu_swizzle.build.build_option import LAUNCHES
from ncu_swizzle.catalog import project, user_kernels
from ncu_swizzle.catalog.family import PYTHON, Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import UnknownKernel
from ncu_swizzle.gate import lint_inputs, linting
from ncu_swizzle.gate.lines import KernelLint
from ncu_swizzle.gate.lint_inputs import LintOptions, Variant
from ncu_swizzle.gate.verdict import WORST_FIRST, Check, Outcome
from ncu_swizzle.model import own_kernels, own_tiles
from ncu_swizzle.model.subject import BanksQuery
from ncu_swizzle.profiles import tiles_seen
from ncu_swizzle.service import answer, mappings
from ncu_swizzle.service.answer import Answer, Row
from ncu_swizzle.service.caller import Caller, without_empty
from ncu_swizzle.service.folders import HEADERS
from ncu_swizzle.service.launch import LaunchGiven

KERNELS = "__global__"


def lines(caller: Caller, file: str) -> Answer:
    """Answer the counts of a source's lines and kernels: those declared, and those of launches captured beside it.

    A row has a `line` (from 1), or is about a whole `kernel`. Of a header, the kernels that include it are emulated.
    Raises what `gate.linting.lint` raises, and Untrusted. A file about which nothing is declared runs nothing.
    """
    source = Path(os.path.realpath(caller.folders.path(file)))
    config = caller.folders.config(source.parent)
    declared = _declared(caller, source, config)
    captured = [] if source.suffix == PYTHON else sorted(map(str, source.parent.glob(f"*{LAUNCHES}")))
    for path in captured:
        caller.folders.path(path)
    sources = dict.fromkeys(str(family.source(kernel)) for family, kernel in declared)
    sources_of = {kernel.name: str(family.source(kernel)) for family, kernel in declared}
    read = {"read": _stamps(source, declared, config, captured), "declared": sources_of}
    if not sources and not captured:
        return replace(_nothing_declared(file, source), facts=read)
    settings = EmulationSettings.of(caller.request(LaunchGiven(), "emulated"))
    options = LintOptions((*sources, *captured), config=config)
    kernels = list(linting.lint_kernels(options, settings, caller.progress))
    rows = [row for kernel in kernels for row in _rows(kernel, source)]
    notes = [{"note": note} for kernel in kernels for note in kernel.notes]
    return Answer(f"{file}: {_summary(rows)}", (*rows, *notes), facts=read)


def line(caller: Caller, file: str, number: int, kernel: str) -> Answer:
    """Answer why a line of a declared kernel conflicts: lanes, addresses and banks, as `explain` does."""
    source = Path(os.path.realpath(caller.folders.path(file)))
    variants = _declared(caller, source, caller.folders.config(source.parent))
    named = next((variant for variant in variants if variant[1].name == kernel), None)
    if named is None:
        raise UnknownKernel(f"{file} declares no kernel {kernel!r}", "list_kernels with file lists those that it does")
    family, variant = named
    target = Target(family, variant, family.problem({}))
    query = own_kernels.KernelQuery(caller.request(LaunchGiven(), "emulated"), progress=caller.progress)
    profile = own_kernels.emulated(target, query)
    here = f"{source.name}:{number}"
    names = (access.name for tile in tiles_seen.tiles(profile) for access in tile.accesses)
    name = next((name for name in names if name.endswith(here)), here)
    return mappings.explanation(own_tiles.subject(BanksQuery(kernel, access=name), [profile]))


def _declared(caller: Caller, source: Path, config: str) -> list[Variant]:
    """Return the kernels of a source whose launches are declared, or those that include a header. Raises Untrusted."""
    options = LintOptions((), config=config)
    if source.suffix in HEADERS:
        catalog = [*user_kernels.everything((), config), *lint_inputs.beside(source.parent)]
        found = [(family, kernel) for family, kernel in catalog if not kernel.library and _includes(family, source)]
    else:
        found = list(lint_inputs.described(source, options))
    for variant in found:
        caller.folders.variant(*variant)
    return found


def _includes(family: Family, header: Path) -> bool:
    return not family.shipped and str(header) in {os.path.realpath(path) for path in family.included()}


def _stamps(source: Path, declared: Sequence[Variant], config: str, captured: Sequence[str]) -> list[list[Any]]:
    """Return what an answer is made from, each with its time of modification and size.

    That includes descriptions that may yet appear, with zeros. An editor asks again once any of them changed.
    """
    beside = (source.parent / name for name in (project.OWN, project.PROJECT, lint_inputs.DESCRIPTION))
    read = {str(source), *map(str, beside), *captured, *([] if config == project.NONE else [config])}
    for family, kernel in declared:
        read |= {str(family.source(kernel)), str(family.folder / lint_inputs.DESCRIPTION), *family.included()}
    return [list(answer.stamp(path)) for path in sorted(read)]


def _nothing_declared(file: str, source: Path) -> Answer:
    """Return that nothing is known of a file; of one with kernels, how to declare their launches."""
    if source.suffix == PYTHON or KERNELS not in source.read_text("utf-8", "replace"):
        return Answer(f"{file}: nothing to emulate")
    note = f"no launch of its kernels is declared: ncu-swizzle init {source.name} writes ncu-swizzle.toml"
    return Answer(f"{file}: {note}", ({"undeclared": note},))


def _rows(kernel: KernelLint, source: Path) -> Iterator[Row]:
    """Yield a row per line of the source and access kind, and one for the kernel."""
    checks = {(check.access, check.place.line): check for check in kernel.checks if check.place and check.access}
    for counted in kernel.lines:
        if counted.place and _same(counted.place.file, source):
            key = counted.access, counted.place.line
            counts = _counts(counted.unknown, counted.wavefronts, counted.ideal)
            yield _row(kernel, checks.get(key), counted.place.line, counted.access, counts)
    for check in kernel.checks:
        if check.place and not check.access and _same(check.place.file, source):
            yield _row(kernel, check, check.place.line, "", {})
    if kernel.launch:
        yield {"kernel": kernel.name, "function": kernel.function, **_total(kernel), "outcome": _outcome(kernel.checks)}


def _row(kernel: KernelLint, check: Check | None, number: int, access: str, counts: dict[str, Any]) -> Row:
    fields = ("outcome", "criterion", "message", "hint")
    judged = {name: getattr(check, name) for name in fields} if check else {}
    return without_empty({"kernel": kernel.name, "line": number, "access": access, **counts, **judged})


def _total(kernel: KernelLint) -> dict[str, Any]:
    unknown = any(counted.unknown for counted in kernel.lines)
    wavefronts = sum(counted.wavefronts for counted in kernel.lines)
    return _counts(unknown, wavefronts, sum(counted.ideal for counted in kernel.lines))


def _counts(unknown: bool, wavefronts: int, ideal: int) -> dict[str, Any]:
    return {"wavefronts": None, "ideal": None} if unknown else {"wavefronts": wavefronts, "ideal": ideal}


def _outcome(checks: Sequence[Check]) -> Outcome:
    outcomes = {check.outcome for check in checks}
    return next((outcome for outcome in WORST_FIRST if outcome in outcomes), Outcome.passed)


def _same(file: str, source: Path) -> bool:
    return Path(os.path.realpath(file)) == source


def _summary(rows: Sequence[Row]) -> str:
    kernels = [row for row in rows if "line" not in row]
    failing = {row["line"] for row in rows if row.get("outcome") == Outcome.failed and "line" in row}
    return f"{len(kernels)} kernels, {len(failing)} lines with conflicts"
