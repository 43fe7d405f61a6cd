"""From the emulator's counts to a Profile, with notes on the unknown; the cycles of a launch; counts in the cache."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import posixpath
import types
import typing
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Union

import numpy as np

from ncu_swizzle.base import cache, codes, paths
from ncu_swizzle.base.files import slug
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.lines import LineTable, Location, is_library
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.cycles.case import EstimatedCase
from ncu_swizzle.cycles.simulated import Simulated
from ncu_swizzle.emulate.counts import Counts, InstructionCounts, Launch, OutOfBounds
from ncu_swizzle.emulate.events import Hazard
from ncu_swizzle.engines import emulated_launch, settings
from ncu_swizzle.engines.emulated_launch import Binary
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Problem, Target
from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain, disassembly
from ncu_swizzle.reports import model
from ncu_swizzle.reports.attribution import Calls, FrameOwners
from ncu_swizzle.reports.counts import NEVER, Instruction, SavedRequests, known_sum
from ncu_swizzle.reports.model import KernelId, Metric, Profile, UnknownCounts
from ncu_swizzle.reports.options import EMULATED
from ncu_swizzle.smem import access

NOTES = 3  # reasons listed in notes; the rest are counted
SHOWN = 2  # of what order was not followed, there; the rest is counted
UNEXPLAINED = "for an unknown reason"


def kernel_id(symbol: str) -> KernelId:
    """Return the names of a kernel that no target describes."""
    function = names.demangle(symbol)
    return KernelId(name=names.function(function), function=function, mangled=symbol)


def profile_of_counts(
    kernel: KernelId, problem: Problem, binary: Binary, launch: Launch, counts: Counts, compiler: str
) -> Profile:
    cubin = binary.cubin
    launch_metrics = emulated_launch.metrics(launch, cubin.attributes(binary.symbol))
    instructions = tuple(_instructions(binary, counts.rows))
    unfollowed = _unfollowed(counts, instructions)
    profile = Profile(
        engine=EMULATED,
        kernel=kernel,
        problem=problem,
        machine=model.MachineInfo(compute_capability=f"{cubin.sm // 10}.{cubin.sm % 10}", cuda=compiler),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        report=f"{slug(kernel.name)}.cubin",
        report_sha256=cache.sha256(cubin.data),
        errors={},
        metrics={name: Metric(value, unit) for name, (value, unit) in launch_metrics.items()},
        instructions=instructions,
        sources=binary.sources or {},
        notes=tuple(_notes(kernel.name, counts, unfollowed)),
        requests=tuple(SavedRequests.of(offset, made) for offset, made in sorted(counts.requests.items())),
        supposed=tuple(SavedRequests.of(offset, made) for offset, made in sorted(counts.supposed.items())),
        unknowns=tuple(_unknowns(counts, unfollowed)),
        unknown_traffic=tuple(
            _by_reason((why.code, why.reason, row.offset) for row in counts.rows if (why := row.traffic_unknown))
        ),
        timeline=counts.hazards.timeline,
        arrays=shared_arrays(cubin, binary.symbol, launch.shared_dynamic),
    )
    outside = tuple(_violations(profile, counts))
    notes = (*profile.notes, *([f"{kernel.name}: wavefronts: {profile.rule_from}."] if profile.rule_from else []))
    return replace(profile, metrics={**profile.metrics, **_totals(profile)}, findings=outside, notes=notes)


def _violations(profile: Profile, counts: Counts) -> Iterator[model.Finding]:
    """Yield a finding for each access outside of the buffers, and for each tile that does not fit its descriptor."""
    ownership = FrameOwners(profile)
    stacks = {instruction.pc: instruction.stack for instruction in profile.instructions}
    checked = counts.global_accesses.blocks
    some = f" ({checked} of the grid's {counts.blocks:,} blocks were checked)" if checked < counts.blocks else ""
    by_line: dict[Location | int, list[OutOfBounds]] = {}  # a line that is unrolled is one cause
    for outside in counts.global_accesses.outside:
        line = next(iter(ownership.own(stacks.get(outside.offset, ()))), None)
        by_line.setdefault(line or outside.offset, []).append(outside)
    for place, (outside, *again) in by_line.items():
        more = f"; {len(again)} more of the line's instructions" if again else ""
        yield model.violation(f"{outside}{more}{some}", None if isinstance(place, int) else place)
    for misfit in counts.tiles.misfits:
        line = next(iter(ownership.own(stacks.get(misfit.offset, ()))), None)
        yield model.violation(misfit.message, line, model.TILES_RULE, misfit.code)
    few = f" ({counts.hazards.blocks} of {counts.blocks:,} blocks)" if counts.hazards.blocks < counts.blocks else ""

    calls = Calls([ownership.own(stack) for stack in set(stacks.values())])
    causes: dict[tuple[str, Location | int], list[tuple[Hazard, list[tuple[Location, ...]]]]] = {}
    for hazard in counts.hazards.found:  # of a line that is unrolled, or races with several, it is said once
        sites = [calls.blamed_line(ownership.own(stacks.get(party.offset, ()))) for party in hazard.parties]
        place = sites[0][0] if sites[0] else hazard.parties[0].offset
        causes.setdefault((hazard.code, place), []).append((hazard, sites))
    for (code, _), ((hazard, sites), *others) in causes.items():
        named = [_in_brief(site[0]) if site else "" for site in sites]
        related = [frame for site in sites[1:] for frame in site]
        further = dict.fromkeys(site[0] for _, more in others for site in more[1:] if site)
        further = {line: None for line in further if line not in (*sites[0], *related)}
        also = f"; the same with {', '.join(map(_in_brief, further))}" if further else ""
        message = f"{hazard.described(named, partial(_variable_at, profile.arrays))}{also}{few}"
        line = sites[0][0] if sites[0] else None
        others_lines = tuple(frame for frame in dict.fromkeys((*related, *further)) if frame not in sites[0])
        yield model.violation(message, line, model.RACES_RULE, code, tuple(sites[0][1:]), others_lines)


def _variable_at(arrays: Sequence[SharedArray], at: int) -> str:
    """Return the variable that covers a byte of shared memory, and how far inside; empty if none does."""
    array = next((array for array in arrays if at in array.span), None)
    inside = at - array.start if array else 0
    return f"{array.name}{f' + {inside:#x}' if inside else ''}" if array else ""


def _in_brief(line: Location) -> str:
    return f"{line[0].rpartition('/')[2]}:{line[1]}"


def _unfollowed(counts: Counts, instructions: Sequence[Instruction]) -> tuple[str, ...]:
    """Return what order was not followed, with the lines of it."""
    stacks = {each.pc: each.stack for each in instructions} if counts.hazards.lacking else {}

    own = {at: tuple(frame for frame in stack if not is_library(frame[0])) for at, stack in stacks.items()}
    calls = Calls(list(set(own.values())))

    def line_of(offset: int) -> str:
        frame = next(iter(calls.blamed_line(own.get(offset, ()))), None)
        return _in_brief(frame) if frame else ""

    return counts.hazards.unfollowed(line_of)


def _unknowns(counts: Counts, unfollowed: Sequence[str]) -> Iterator[UnknownCounts]:
    """Yield each reason for unknown counts, the most frequent first, and what was not checked."""
    yield from _by_reason((row.code or codes.NOT_RUN, row.reason or UNEXPLAINED, row.offset) for row in counts.unknown)
    for offset, ways in counts.remote.items():
        why = (
            f"lanes want words of one bank of another block's shared memory, up to {ways}-way: ncu counts nothing there"
        )
        yield UnknownCounts.of(codes.NO_RULE, why, (offset,))
    if counts.global_accesses.lacking:
        yield UnknownCounts.of(codes.UNCHECKED_BOUNDS, counts.global_accesses.lacking)
    if counts.tiles.lacking:
        yield UnknownCounts.of(codes.UNFOLLOWED, counts.tiles.lacking)
    if counts.hazards.lacking:
        yield UnknownCounts.of(codes.UNCHECKED_ORDER, "; ".join(unfollowed))


def _by_reason(unknown: Iterable[tuple[str, str, int]]) -> Iterator[UnknownCounts]:
    """Yield each code and reason with its instructions' offsets, the most frequent first."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for code, reason, offset in unknown:
        reasons.setdefault((code, reason), []).append(offset)
    for (code, reason), offsets in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield UnknownCounts.of(code, reason, offsets)


def _totals(profile: Profile) -> dict[str, Metric]:
    """Return the launch's totals under ncu's names, without those that contain an unknown."""
    total = profile.total
    accesses = any(instruction.access for instruction in profile.instructions)
    nothing = None if accesses else 0  # no access: no wavefronts
    totals = {
        model.EXECUTED: (known_sum(instruction.executed for instruction in profile.instructions), "inst"),
        model.WAVEFRONTS: (nothing if total.wavefronts is None else total.wavefronts, "sectors"),
        model.IDEAL: (nothing if total.ideal is None else total.ideal, "sectors"),
    }
    return {name: Metric(value, unit) for name, (value, unit) in totals.items() if value is not None}


def _instructions(binary: Binary, rows: Sequence[InstructionCounts]) -> Iterator[Instruction]:
    table = python_kernels.lines(binary.cubin.data, binary.symbol)
    for row in rows:
        yield Instruction(
            pc=row.offset,
            sass=row.sass,
            opcode=row.opcode,
            access="" if row.sass.startswith(NEVER) else row.access,
            stack=tuple(source_stack(binary, table, row.offset)),
            executed=row.executed,
            wavefronts=row.wavefronts if row.access else None,
            ideal=row.ideal if row.access else None,
            traffic=row.traffic,
            pattern=row.pattern,
        )


def source_stack(binary: Binary, table: LineTable, offset: int) -> Iterator[Location]:
    for file, line in table.stack(offset):
        below = paths.below(binary.listed.get(file, file), binary.roots)
        yield posixpath.normpath(below) if posixpath.isabs(below) else below, line


def unknown_notes(name: str, counts: Counts) -> Iterator[str]:
    """Yield why counts are unknown, the most frequent reason first."""
    unknown = counts.unknown
    reasons = Counter(row.reason or UNEXPLAINED for row in unknown)
    for reason, count in reasons.most_common(NOTES):
        first = next(row for row in unknown if (row.reason or UNEXPLAINED) == reason)
        many = f"{count} accesses, such as" if count > 1 else "the access"
        yield f"{name}: unknown wavefronts for {many} {first.sass} at {first.offset:#x}: {reason}."
    if len(reasons) > NOTES:
        yield f"{name}: {len(reasons) - NOTES} more reasons for unknown wavefronts."


def _notes(name: str, counts: Counts, unfollowed: Sequence[str]) -> Iterator[str]:
    """Yield what is unknown and why, then the emulator's own notes."""
    yield from unknown_notes(name, counts)
    for note in counts.notes:
        yield f"{name}: {note}"
    if counts.global_accesses.lacking:
        yield f"{name}: the bounds of global accesses were not checked: {counts.global_accesses.lacking}."
    if counts.tiles.lacking:
        yield f"{name}: not every tile was followed from TMA to wgmma: {counts.tiles.lacking}."
    for bound in counts.tiles.bound:
        yield f"{name}: {bound}."
    if counts.hazards.lacking:
        more = f"; and {len(unfollowed) - SHOWN} more" if len(unfollowed) > SHOWN else ""
        yield f"{name}: not every access was checked for races: {'; '.join(unfollowed[:SHOWN])}{more}."


# What a launch that was emulated would take on an H100: from the cache, or simulated if that is wanted.

CYCLES = "cycles"
# Of this package: what decides a simulation besides what decides counts.
CYCLES_SOURCES = ("cycles/*.py", "cycles/*.c", "cycles/*.json")
TOO_LONG = Simulated(
    lacking="executing every iteration of a block, and simulating it, takes more than a few seconds",
    remedy="--cycles always",
)
CAPTURED = Simulated(
    lacking="which of its buffers a captured launch reads, and which it writes, is not known",
    remedy="describe the kernel, see docs/describing-kernels.md",
)


def simulated(
    target: Target, binary: Binary, launch: Launch, counts: Counts, *, wanted: str, toolchain: Toolchain, cached: bool
) -> Simulated | None:
    """Return the launch's simulated cycles, or why they are unknown; None if not wanted, or nothing is excessive.

    `wanted`: NEVER; AUTO: if it is short and there is something to save; COMPARED: if it is short, without a reason if
    there is nothing to save; ALWAYS.
    """
    if wanted == settings.NEVER:
        return None
    case = case_of(target, binary, launch, counts)
    excessive = any(case.excess.values())
    if wanted == settings.AUTO and not excessive:
        return None
    lacking = Simulated(lacking=case.unlike) if case.unlike else TOO_LONG
    if case.unlike or (wanted != settings.ALWAYS and not case.short):
        return lacking if excessive or wanted == settings.ALWAYS else None
    entry = key(binary, launch, (), toolchain, CYCLES_SOURCES) if cached else ""
    if entry and (content := cache.load(CYCLES, entry)) is not None:
        return typing.cast(Simulated, unpack(Simulated, content))
    from ncu_swizzle.cycles import simulator  # with the emulator, which what is in the cache does not need

    text = disassembly(binary.cubin, toolchain, cached, binary.symbol)
    found = simulator.simulate(emulated_launch.code(binary.cubin, binary.symbol, text), case)
    if entry and found.cycles:
        cache.save(CYCLES, entry, pack(found))
    return found


def case_of(target: Target, binary: Binary, launch: Launch, counts: Counts) -> EstimatedCase:
    """Return the case to simulate for an emulated launch."""
    cubin, symbol, attributes = binary.cubin, binary.symbol, binary.cubin.attributes(binary.symbol)
    shared = attributes.static_shared + launch.shared_dynamic
    resident = access.blocks_per_sm(f"sm_{cubin.sm}", math.prod(launch.block), attributes.registers, shared)
    return EstimatedCase(
        text=cubin.section(f".text.{symbol}"), launch=launch, counts=counts, sm=cubin.sm, resident=resident,
        buffers=buffer_bytes(target),
    )  # fmt: skip


def buffer_bytes(target: Target) -> tuple[float, float]:
    """Return the bytes of a launch's inputs and outputs."""
    sizes = [(fills.size(each, target.problem), each.output) for each in target.family.arguments if each.shape]
    read, written = (sum(size for size, output in sizes if output == which) for which in (False, True))
    return float(read), float(written)


# Counts kept in the cache: packed with their arrays, and found by all that decides them.
#
# That is the cubin, the kernel, the launch with the contents of its buffers, the disassembler's version, the settings
# and the emulator's own source. An emulation that ended with an error, such as a time limit, has no counts to keep.
# Counts that are unknown stay so, with their reasons: another run would give the same.

# Dataclasses with NumPy arrays as bytes and back. The cache's digest vouches for the bytes, and an entry's key for the
# classes.
#
# A packed value is zlib-compressed: the length of a JSON text (8 bytes), the text, the arrays one after the other. An
# array is stored in the smallest type that holds its values, and stands in the text as {"array": its number}.

LENGTH_BYTES = 8
Arrays = list[np.ndarray]
Unpacker = Callable[[Any, Arrays], Any]  # the JSON value and the arrays → the value


def pack(value: Any) -> bytes:
    """Return a dataclass of plain values, tuples, mappings, other dataclasses and arrays of integers and booleans."""
    arrays: Arrays = []
    content = _plain(value, arrays)
    stored = [_narrowed(array) for array in arrays]
    described = [(to.dtype.str, array.dtype.str, array.shape) for to, array in zip(stored, arrays, strict=True)]
    text = json.dumps([described, content], separators=(",", ":")).encode()
    parts = [len(text).to_bytes(LENGTH_BYTES, "little"), text, *(array.tobytes() for array in stored)]
    return zlib.compress(b"".join(parts), level=1)


def unpack(kind: Any, data: bytes) -> Any:
    """Return the value of this type that was packed."""
    content = zlib.decompress(data)
    position = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    described, plain = json.loads(content[LENGTH_BYTES:position])
    arrays: Arrays = []
    for stored, dtype, shape in described:
        array = np.frombuffer(content, stored, math.prod(shape), position)
        arrays.append(array.reshape(shape).astype(dtype))  # a copy, which can be written to as the original
        position += array.nbytes
    return _unpacker(kind)(plain, arrays)


def _plain(value: Any, arrays: Arrays) -> Any:
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name), arrays) for field in dataclasses.fields(value)]
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Mapping):
        return [[_plain(key, arrays), _plain(item, arrays)] for key, item in value.items()]
    if isinstance(value, tuple):
        return [_plain(item, arrays) for item in value]
    return value.item() if isinstance(value, np.integer | np.bool_) else value


def _narrowed(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "i" or not array.size:
        return array
    return array.astype(np.min_scalar_type(min(int(array.min()), ~int(array.max()))))  # signed, and holds both


@functools.cache
def _unpacker(hint: Any) -> Unpacker:
    """Return the function that builds values of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        hints, constructed = typing.get_type_hints(hint), typing.cast(Callable[..., Any], hint)
        fields = [(field.name, _unpacker(hints[field.name])) for field in dataclasses.fields(hint)]
        return lambda value, arrays: constructed(
            **{name: unpack(part, arrays) for (name, unpack), part in zip(fields, value, strict=True)}
        )
    if origin in (Union, types.UnionType):
        (some,) = (_unpacker(argument) for argument in arguments if argument is not type(None))
        return lambda value, arrays: None if value is None else some(value, arrays)
    if origin is tuple:
        items = [_unpacker(argument) for argument in arguments if argument is not Ellipsis]
        made_of = itertools.repeat(items[0]) if Ellipsis in arguments else items
        return lambda value, arrays: tuple(unpack(part, arrays) for unpack, part in zip(made_of, value, strict=False))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = map(_unpacker, arguments)
        return lambda value, arrays: {key(k, arrays): item(v, arrays) for k, v in value}
    return lambda value, arrays: arrays[value["array"]] if isinstance(value, dict) else value


KIND = "emulations"
MOST_BYTES = 32 << 20  # of an entry: a few must not evict everything else
MOST_PACKED_BYTES = 128 << 20  # of the arrays packed into it
SOURCES = (
    "base/codes.py",
    "emulate/**/*.py",
    "emulate/approximations/*.xz",
    "smem/*.py",
    "cubin/*.py",
    "engines/*.py",
)  # of this package: what decides the counts


def key(
    binary: Binary, launch: Launch, checked: tuple[bool, ...], toolchain: Toolchain, more: tuple[str, ...] = ()
) -> str:
    """Return the name of an emulation's entry; empty if the disassembler does not work.

    `checked` are the settings that decide what it has; `more` are patterns of further sources that decide it.
    """
    disassembler = toolchain.working_version(NVDISASM)
    if not disassembler:
        return ""
    digest = hashlib.sha256()
    settings = (binary.symbol, checked, disassembler, np.__version__, code_digest((*SOURCES, *more)))
    for part in (binary.cubin.data, settings, launch):
        _feed(digest, part)
    return f"{digest.hexdigest()[:40]}-{slug(binary.symbol)}"


def load(name: str) -> Counts | None:
    """Return cached counts; None if there are none."""
    content = cache.load(KIND, name)
    return None if content is None else typing.cast(Counts, unpack(Counts, content))


def save(name: str, counts: Counts) -> None:
    """Cache counts, unless they take too much room."""
    size = sum(r.places.nbytes + r.active.nbytes + r.times.nbytes for r in counts.requests.values())
    if size > MOST_PACKED_BYTES:
        return
    content = pack(counts)
    if len(content) <= MOST_BYTES:
        cache.save(KIND, name, content)


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a digest: plain ones, bytes, arrays, and dataclasses, mappings and tuples of them."""
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        value = tuple(value.items())
    # Lengths go in first: ("ab", "c") and ("a", "bc") must not have the same digest.
    if isinstance(value, tuple):
        digest.update(b"(%d" % len(value))
        for part in value:
            _feed(digest, part)
    elif isinstance(value, bytes):
        digest.update(b"b%d:" % len(value) + value)
    elif isinstance(value, np.ndarray):
        _feed(digest, (value.dtype.str, value.shape, value.tobytes()))
    else:
        digest.update(json.dumps(value).encode() + b",")


@functools.cache
def code_digest(patterns: tuple[str, ...] = SOURCES) -> str:
    """Return a digest of the emulator's source."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for file in sorted(paths.package().glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
