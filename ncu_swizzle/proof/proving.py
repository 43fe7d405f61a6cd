"""Prove that a rewritten kernel is free of the conflict and means the same, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.build import recipe
from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.executable import Executable, executable
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.proof import arithmetic, excess, resources, traces, values
from ncu_swizzle.proof.claims import About, Claim, Proof, State
from ncu_swizzle.proof.moved import Moved
from ncu_swizzle.proof.traces import Traces
from ncu_swizzle.proof.values import Values


def prove(before: Target, after: Target, moved: Sequence[Moved], context: Context) -> Proof:
    """Return the proof for one launch, under the emulated engine. Nothing that is unknown holds.

    Raises what emulating the old kernel raises.
    """
    settings = EmulationSettings.of(context.request)
    old = executable(before, settings)
    return prove_version(old, after, moved, settings)


def prove_version(old: Executable, after: Target, moved: Sequence[Moved], settings: EmulationSettings) -> Proof:
    """Return the proof for a new version of what is emulated already."""
    rebuilt = _rebuilt(old.target, after, settings)
    if not rebuilt.held:
        return Proof((rebuilt,))
    try:
        new = executable(after, settings)
    except MemoryFault as error:
        return Proof((rebuilt, Claim(About.MEANING, State.FAILED, str(error))))
    except NcuSwizzleError as error:
        return Proof((Claim(About.REBUILT, State.FAILED, str(error)),))
    was = excess.excess(old, {array.name: array.before for array in moved})
    now = excess.excess(new, {array.name: array.after for array in moved})
    meaning, compared = _meaning(old, new, moved, settings.toolchain.timeout_s)
    taken, takes = resources.resources(old), resources.resources(new)
    claims = (rebuilt, excess.claim(old, new, moved, was, now), meaning, resources.claim(taken, takes))
    return Proof(claims, was, now, taken, takes, compared)


def _rebuilt(before: Target, after: Target, settings: EmulationSettings) -> Claim:
    if before.compiled or before.python:
        return Claim(About.REBUILT, State.UNKNOWN, f"{before.kernel.file} is not CUDA C++ that could be compiled again")
    old, new = (recipe.options(target.family, target.kernel) for target in (before, after))
    arches = [target.family.arch for target in (before, after)]
    found_there = f"-I{before.family.folder.absolute()}"  # see `rebuilt`
    same = _portable(before, old) == _portable(after, [option for option in new if option != found_there])
    if not same or arches[0] != arches[1] or before.problem != after.problem:
        return Claim(About.REBUILT, State.FAILED, "the two versions have other options or another problem")
    return Claim(About.REBUILT, State.HELD, f"by nvcc {settings.toolchain.version()} with {' '.join(old)}")


def _portable(target: Target, options: Sequence[str]) -> list[str]:
    """Return options without the folder that the sources are in."""
    root = str(includes.plain(target.family.root))
    return [option.replace(root, "") for option in options]


def _meaning(
    old: Executable, new: Executable, moved: Sequence[Moved], timeout_s: float
) -> tuple[Claim, tuple[str, ...]]:
    """Return the claim that both versions mean the same, and what was compared."""
    traced = traces.compare(old, new, moved, timeout_s)
    if traced.state is not State.HELD:
        return _claim(traced.state, traced.reason, traced.line), ()
    each = traced.accesses // len(traced.blocks) if traced.blocks else 0
    blocks = values.some(traced.blocks, old.launch(None).grid, each)
    written = values.compare(old, new, blocks, timeout_s)
    compared = tuple(_compared(old, traced, written))
    if written.difference:
        return _claim(State.FAILED, written.difference, written.line), compared
    if doubt := _doubt(old, new, traced, written):
        return doubt, compared
    order = "in the same order" if traced.in_order else "in the same order for each of them"
    return _claim(State.HELD, f"each thread accesses the same elements {order}"), compared


def _doubt(old: Executable, new: Executable, traced: Traces, written: Values) -> Claim | None:
    """Return the claim if results that are not known leave it open; None if the traces suffice."""
    if written.lost:
        return _claim(State.UNKNOWN, f"{written.lost:,} bytes of the results were known, and are no longer")
    if written.complete:
        return None
    lacking = written.lacking or f"{written.unknown:,} bytes of the results are unknown"
    if not traced.in_order:
        return _claim(State.UNKNOWN, f"the compiler has reordered the accesses of some lines, and {lacking}")
    line = arithmetic.unlike(old, new)
    return _claim(State.UNKNOWN, f"this line computes something else, and {lacking}", line) if line else None


def _claim(state: State, reason: str, line: Location | None = None) -> Claim:
    return Claim(About.MEANING, state, reason, line)


def _compared(old: Executable, traced: Traces, written: Values) -> list[str]:
    total = old.emulated.counts.blocks
    ran = len(traced.blocks)
    stand = f", which stand for all {total:,}" if ran < total else ""
    per = "per thread and line" if traced.in_order else "per thread and element"
    said = [f"{traced.accesses:,} accesses to shared memory in {ran:,} blocks{stand}: the same elements {per}"]
    if written.lacking:
        return [*said, f"no results: {written.lacking}"]
    bytes_ = f"{written.same:,} bytes that {written.blocks:,} blocks write for random inputs: the same"
    atomics = f"; {written.atomics:,} atomic operations: the same" if written.atomics else ""
    unknown = f"; {written.unknown:,} more are unknown" if written.unknown else ""
    return [*said, bytes_ + atomics + unknown]
