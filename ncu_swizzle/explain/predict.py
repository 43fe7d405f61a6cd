"""The wavefronts of a kernel, a layout with accesses, or an expression; the degrees of kernels without a launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.base import degrees, paths
from ncu_swizzle.base.bounds import some
from ncu_swizzle.base.errors import UsageError, as_word
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.engines import launchless, reader
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.launchless import CompiledFile, CompiledKernel
from ncu_swizzle.explain import own_kernels
from ncu_swizzle.explain.query import ExplainQuery
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.naming import Unlaunched
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.reports import attribution, model, remarks
from ncu_swizzle.reports.counts import Instruction, Ratios, added, known_sum
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.smem import code, mapping, operations
from ncu_swizzle.smem.access import Access, evaluate
from ncu_swizzle.smem.code import spelled
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LOAD, STMATRIX, STORE, WARP
from ncu_swizzle.smem.wavefronts import wavefronts

if TYPE_CHECKING:
    pass


# Predictions: the wavefronts of a kernel's declared accesses, and how they compare with ncu's counts.

SASS = {LOAD: "LDS", STORE: "STS", LDMATRIX: "LDSM", STMATRIX: "STSM", ATOMIC: "ATOMS", COPY: "LDGSTS"}


@dataclass(frozen=True, kw_only=True)
class Prediction(Ratios):
    """One access, or all of one kind: warp instructions, actual and ideal wavefronts. None: no rule gives them."""

    access: str  # the SASS opcode: LDS, STSM …
    name: str
    op: str
    executed: int | None
    wavefronts: int | None
    ideal: int | None


@dataclass(frozen=True)
class CheckedPrediction:
    """The prediction for one kind of access, its count, and a verdict in words."""

    predicted: Prediction
    counted: Ratios | None
    verdict: str

    @property
    def equal(self) -> bool:
        """Whether actual and ideal wavefronts are as predicted."""
        return self.counted is not None and _pair(self.predicted) == _pair(self.counted)


def target_predictions(target: Target) -> tuple[Prediction, ...]:
    """Return a prediction for each declared access of a launch. Raises UsageError if none are declared."""
    tiles = tiles_of(target)
    return (
        *(prediction_of(access, tile.mapping, access.name) for tile in tiles for access in tile.accesses),
        # The totals of all wgmma of one shape: their wavefronts are ideal, whatever the tile's swizzle.
        *(
            Prediction(
                access="HGMMA",
                name=product.name,
                op=f"wgmma.m64n{product.columns}k16",
                executed=product.executed,
                wavefronts=product.wavefronts,
                ideal=product.wavefronts,
            )
            for tile in tiles
            for product in tile.products
        ),
    )


def prediction_of(access: Access, mapping: Mapping, name: str = "") -> Prediction:
    """Return the totals over all executions of an access under a mapping."""
    counted = access.wavefronts(mapping)
    known = bool(counted.known.all())
    return Prediction(
        access=SASS[access.operation.kind],
        name=name or access.name,
        op=access.op,
        executed=access.executed,
        wavefronts=access.total(counted.actual) if known else None,
        ideal=access.total(counted.ideal) if known else None,
    )


def by_kind(predictions: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Return the totals for each kind of access."""
    kinds: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        kinds.setdefault(prediction.access, []).append(prediction)
    return tuple(
        Prediction(
            access=access,
            name="",
            op=", ".join(dict.fromkeys(part.op for part in parts)),
            executed=known_sum(part.executed for part in parts),
            wavefronts=known_sum(part.wavefronts for part in parts),
            ideal=known_sum(part.ideal for part in parts),
        )
        for access, parts in kinds.items()
    )


def checked_against(predictions: Sequence[Prediction], profile: Profile) -> tuple[CheckedPrediction, ...]:
    """Return each kind of access with the profile's counts, including kinds that were not predicted."""
    counted = profile.accesses
    checks = [
        CheckedPrediction(prediction, counted.get(prediction.access), _verdict(prediction, profile))
        for prediction in by_kind(predictions)
    ]
    for access in counted.keys() - {prediction.access for prediction in predictions}:
        nothing = Prediction(access=access, name="", op="", executed=0, wavefronts=0, ideal=0)
        checks.append(CheckedPrediction(nothing, counted[access], _verdict(nothing, profile)))
    return tuple(checks)


def _verdict(predicted: Prediction, profile: Profile) -> str:
    counted = profile.accesses.get(predicted.access)
    if counted is None:
        return "not executed"
    if predicted.wavefronts is None:
        return "unknown: no measured rule covers this pattern"
    if _pair(predicted) != _pair(counted):
        return "differs: the compiler may have fused, split or dropped accesses; see the instructions in the report"
    same = predicted.executed == counted.executed
    return "equal" if same else "equal wavefronts, but a different number of instructions"


def _pair(counts: Ratios) -> tuple[int | None, int | None]:
    return counts.wavefronts, counts.ideal


# Predictions for an emulated kernel: its counts by source line, and what its requests take under another mapping.

ORIGIN = "Computed by the emulator from the kernel's own addresses, for the whole launch."
PARTIAL = "Counts are over the blocks that the emulator ran; every other block behaves like one of them."


def predictions(profile: Profile) -> tuple[Prediction, ...]:
    """Return the counts of each access by source line, over the whole launch; None where they are unknown."""
    lines = {id(site.access): site.name for site in attribution.sites(profile)}
    ops = {requests.pc: requests.op for requests in profile.requests}
    groups: dict[tuple[str, str, str], list[Instruction]] = {}
    for instruction in profile.shared():
        if instruction.executed != 0:
            key = instruction.access, lines.get(id(instruction), ""), ops.get(instruction.pc, instruction.opcode)
            groups.setdefault(key, []).append(instruction)
    rows = []
    for (access, line, op), instructions in groups.items():
        name, total = f"{access} {line}".rstrip(), added(instructions)
        counts = {"executed": total.executed, "wavefronts": total.wavefronts, "ideal": total.ideal}
        rows.append(Prediction(access=access, name=name, op=op, **counts))
    return tuple(rows)


def _at(rows: Sequence[Prediction], line: str) -> tuple[Prediction, ...]:
    """Return the rows of a line, such as ``my.cu:12``, or all. Raises UsageError if there are none."""
    chosen = tuple(row for row in rows if not line or row.name.endswith(f" {line}"))
    if rows and not chosen:
        lines = ", ".join(dict.fromkeys(row.name.rpartition(" ")[2] for row in rows))
        raise UsageError(f"nothing accesses shared memory at {line}", f"{lines} do")
    return chosen


def misfits(profile: Profile) -> Iterator[str]:
    """Yield where wgmma reads differently from how TMA wrote."""
    for found in model.violations(profile):
        if found.rule == model.TILES_RULE:
            yield f"{f'{found.title}: ' if found.line else ''}{found.message}."


def predictions_with_mapping(query: ExplainQuery, profile: Profile) -> tuple[list[Prediction], list[str]]:
    """Return the predictions with a swizzle or padding on every tile that has conflicts, and notes on these.

    Raises UsageError.
    """
    rows: list[Prediction] = []
    notes: list[str] = []
    for tile in own_kernels.tiles_with_conflicts(profile, query.line):
        transform = own_kernels.transform(tile, query.swizzle, query.pad, query.element_bytes)
        mapping = replace(tile.plain, transform=transform) if transform else tile.plain
        for access in (access for access in tile.accesses if own_kernels.is_at_line(access, query.line)):
            row = prediction_of(access, mapping)
            name = row.name if row.name.startswith(row.access) else f"{row.access} {row.name}"
            rows.append(replace(row, name=name))
        lost = mapping.collision()
        notes.append(f"{tile.span}, rows of {tile.plain.shape[1]}: {spelled(mapping)}{f'; {lost}' if lost else ''}.")
    return rows, [*notes, PARTIAL]


@dataclass(frozen=True, kw_only=True)
class PredictAnswer:
    """Predictions, and their comparison with counts or measurements if there are any."""

    title: str
    predictions: tuple[Prediction, ...]
    checks: tuple[CheckedPrediction, ...] = ()
    origin: str = ""
    counted_provenance: str = ""  # of the counts that it is compared with: measured, recorded or computed
    unknown: int = 0  # requests that no rule covers
    notes: tuple[str, ...] = ()
    unknowns: tuple[UnknownCounts, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every prediction equals its count."""
        return all(check.equal for check in self.checks)


def answers(query: ExplainQuery) -> tuple[PredictAnswer, ...]:
    """Return the wavefronts of a layout with accesses, or of an expression."""
    return (_expression(query) if query.op else _layout(query),)


def of_kernels(query: ExplainQuery, kernels: Sequence[Target | Profile]) -> tuple[PredictAnswer, ...]:
    """Return the answer for each kernel: from its declared accesses, else from its emulated ones. Raises UsageError."""
    declared = next((kernel for kernel in kernels if not isinstance(kernel, Profile)), None)
    if declared and (query.swizzle or query.pad):
        raise UsageError(f"the mapping of {declared.name} is declared", "omit --swizzle and --pad, or name a layout")
    return tuple(_observed(query, kernel) if isinstance(kernel, Profile) else _declared(kernel) for kernel in kernels)


def _observed(query: ExplainQuery, profile: Profile) -> PredictAnswer:
    """Return the emulator's counts or, with another mapping, what its requests would take."""
    title = ", ".join(filter(None, (profile.kernel.name, in_words(profile.problem))))
    if query.swizzle or query.pad:
        predicted, notes = predictions_with_mapping(query, profile)
        return PredictAnswer(title=title, predictions=tuple(predicted), notes=tuple(notes))
    return PredictAnswer(
        title=title,
        predictions=_at(predictions(profile), query.line),
        unknowns=profile.unknowns,
        notes=(ORIGIN, *own_kernels.notes_if_unknown(profile), *misfits(profile), *_said(profile)),
    )


def _said(profile: Profile) -> Iterator[str]:
    """Yield remarks on wide accesses, and on those whose lanes are unknown."""
    if wide := remarks.wide(profile):
        yield f"{wide}."
    names = {site.access.pc: site.name for site in attribution.sites(profile)}
    said: dict[int, list[str]] = {}
    for pc, ways in attribution.most_ways(profile).items():
        said.setdefault(ways, []).append(names.get(pc, f"{pc:#x}"))
    for ways, lines in sorted(said.items()):
        how = "clean whichever lanes the data let execute" if ways == 1 else f"up to {ways}-way"
        yield f"{some(list(dict.fromkeys(lines)))}: {how}; how often is unknown."


def _declared(target: Target) -> PredictAnswer:
    """Return the predictions, compared with the counts of the recording."""
    result = PredictAnswer(title=f"{target.name}, {in_words(target.problem)}", predictions=target_predictions(target))
    if not (report := paths.recording(target.family.name, target.name)):
        return replace(result, origin="there is no recording")
    (profile,) = reader.read(report)
    origin = f"recorded on {profile.machine.gpu or report.parent.parent.name}, {profile.when[:10]}"
    if profile.problem and dict(profile.problem) != target.problem:
        return replace(result, origin=f"{origin}, but with {in_words(profile.problem)}: not compared")
    checks = checked_against(result.predictions, profile)
    return replace(result, checks=checks, origin=origin, counted_provenance=profile.origin.provenance)


def _layout(query: ExplainQuery) -> PredictAnswer:
    tile = mapping.parse(query.what, query.element_bytes or 4, query.swizzle, query.pad)
    requested = own_kernels.accesses_of(tile, query.writes, query.reads, query.threads)
    if not requested:
        raise UsageError("a layout alone has no wavefronts", "name accesses: --write rows:16 --read column")
    unknown = sum(int((~access.wavefronts(tile).known).sum()) for access in requested)
    return PredictAnswer(
        title=code.titled(tile), predictions=tuple(prediction_of(access, tile) for access in requested), unknown=unknown
    )


def _expression(query: ExplainQuery) -> PredictAnswer:
    operation = operations.find(query.op)
    addresses = evaluate(query.what, query.threads).reshape(-1, WARP)
    active = evaluate(query.active or "1", query.threads).reshape(-1, WARP) != 0
    counted = wavefronts(operation.name, addresses, active)
    unknown = int((~counted.known).sum())
    predicted = Prediction(
        access=SASS[operation.kind],
        name="",
        op=operation.name,
        executed=len(addresses),
        wavefronts=None if unknown else int(counted.actual.sum()),
        ideal=None if unknown else int(counted.ideal.sum()),
    )
    return PredictAnswer(title=query.what, predictions=(predicted,), unknown=unknown)


# Kernels without a described launch: the degrees of their accesses in every launch, by line.


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


def in_every_launch(query: ExplainQuery, files: Sequence[Unlaunched]) -> EveryLaunchAnswer:
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
            said = {block: of_shape.in_words for block, of_shape in access.items()}
            # Shapes are named if they differ.
            degree = degrees.by_shapes(said) if len(set(said.values())) > 1 else next(iter(said.values()))
            key = line, one.opcode, degree
            counted[key] = counted.get(key, 0) + 1
    yield from (
        LaunchAccess(line=line, opcode=opcode, count=count, degree=degree)
        for (line, opcode, degree), count in counted.items()
    )
