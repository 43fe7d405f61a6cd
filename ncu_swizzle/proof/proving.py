"""Prove that a rewritten kernel is free of the conflict and means the same, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.build import recipe
from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.opcodes import COUNTED, GENERIC
from ncu_swizzle.emulate.parse import parse_instruction
from ncu_swizzle.emulate.results import accesses
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.executable import Executable, executable
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.proof import excess, resources, traces, values
from ncu_swizzle.proof.claims import About, Claim, Proof, State
from ncu_swizzle.proof.lines import Lines, changed
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
    written = values.compare(old, new, blocks, timeout_s, places=traced.places)
    compared = tuple(_compared(old, traced, written))
    if written.difference:
        return _claim(State.FAILED, written.difference, written.line), compared
    if not written.complete:
        lacking = written.lacking or f"{written.unknown:,} of the results are unknown"
        nothing = "the blocks that were compared write nothing"
        return _claim(State.UNKNOWN, lacking if written.lacking or written.unknown else nothing), compared
    if (line := _idle(old, new, traced, written)) is not None:
        return _claim(State.UNKNOWN, "this launch does not execute an access that the patch may change", line), compared
    order = "in the same order" if traced.in_order else "in the same order for each of them"
    return _claim(State.HELD, f"each thread accesses the same elements {order}"), compared


def _idle(old: Executable, new: Executable, traced: Traces, written: Values) -> Location | None:
    """Return a line with an access that neither version executes in any world, if the patch may change it.

    An access to shared memory may be one to an array with other rows, whatever its line says; others are changed where
    their line, or one that calls it, is. What has the same stack of lines, such as an unrolled loop and its rest, is
    one access, and so it is in both versions: a compiler joins accesses of two lines under one of them.
    """
    texts = old.emulated.profile.sources, new.emulated.profile.sources
    lines = Lines.same(texts[0]), Lines.between(*texts)
    asked: dict[tuple[str, tuple[Location, ...]], Location] = {}
    done: set[tuple[str, tuple[Location, ...]]] = set()
    for number, (version, edited) in enumerate(zip((old, new), changed(*texts), strict=True)):
        executed = traced.executed[number] | written.executed[number]
        for index, sass in enumerate(version.code.instructions):
            instruction, stack = parse_instruction(sass), version.stacks.get(sass.offset, ())
            if not accesses(instruction):
                continue
            what = instruction.opcode, lines[number].mapped(stack)
            if index in executed:
                done.add(what)
            elif instruction.opcode in COUNTED | GENERIC or not edited.isdisjoint(stack):
                asked.setdefault(what, lines[number].first(stack))
    return min((line for what, line in asked.items() if what not in done), default=None)


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
    worlds = f", in {written.worlds:,} draws of what cannot be known" if written.worlds > 1 else ""
    return [*said, bytes_ + atomics + unknown + worlds]
