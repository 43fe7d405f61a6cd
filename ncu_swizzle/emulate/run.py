"""Emulate one launch of a kernel: the counts that ncu would report, or why they are unknown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.base.traffic import NO_TRAFFIC, Pattern, Traffic
from ncu_swizzle.emulate.accesses import Contended
from ncu_swizzle.emulate.blocks import Batch, Setting, Totals, cover, numbered
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.contents import drawn_memory
from ncu_swizzle.emulate.copies import counted_as_zeros, p0_miscount
from ncu_swizzle.emulate.counts import Cause, Counts, InstructionCounts, Launch
from ncu_swizzle.emulate.events import Hazards
from ncu_swizzle.emulate.faults import MemoryFault, Restart, Spent, Stuck
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Draw, bank_0, known_constants
from ncu_swizzle.emulate.order_steps import fences_by_guard
from ncu_swizzle.emulate.probes import global_accesses
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.race_check import RaceCheck
from ncu_swizzle.emulate.requests import (
    APART_EFFORT,
    ASIDE_STEPS,
    COMPARED_EFFORT,
    FUTILE_EFFORT,
    LONG_EFFORT,
    TIMEOUT_S,
    WITHOUT_DATA_EFFORT,
    Clock,
    Progress,
)
from ncu_swizzle.emulate.state import Decided, Unknown
from ncu_swizzle.emulate.tickets import Located, Undrawn, gives_places, gives_tickets
from ncu_swizzle.emulate.tile_probes import followed_tiles
from ncu_swizzle.emulate.traffic import AS_VECTOR, FIGURE_NAMES, FIGURES, accesses, figures_of
from ncu_swizzle.smem import access
from ncu_swizzle.smem.opcodes import Shared
from ncu_swizzle.smem.operations import LINE, Bools, Ints
from ncu_swizzle.smem.requests import AccessRequests, merged_requests

# What one atomic on a counter in global memory returns to each block: its ticket.
#
# Which block gets which ticket depends on the order in which they run. If each block asks at most once, by an atomic
# that adds a constant to a word whose value is known, and nothing else writes that word, then the M blocks that ask get
# the M tickets, each exactly once. A ticket is run as an index on an axis on which the grid has one block: `boxes`
# finds for which tickets a block does the same, and `cover` runs blocks until all pairs of a block and a ticket are
# covered. Let c(b, t) be a count of block b with ticket t. If it is f(b) + g(t), its sum over all blocks is the same
# whichever block gets which ticket: the sum over all pairs divided by M; for a block that does not ask, c does not
# depend on t. Counts that are not such a sum depend on the order: they stay unknown.
#
# If blocks ask more than once, the sum of tickets tells nothing. Then all results of atomics are treated as unrelated
# numbers, of which one is tried, and counts are known only if no decision depends on any of them (`several`). This is
# enough for a position in a list: it decides where a thread stores, and nothing else.


TAKEN = 4  # blocks whose work one block takes over
MOST_PAIRS = 1 << 24  # of blocks and boxes, or of blocks and kinds of tickets, that are compared
MOST_COMPARED = 1 << 30  # counts


def counts_with_tickets(setting: Setting, totals: Totals, exhaustive: bool) -> Totals:
    """Return the counts with tickets drawn as they need; unchanged if tickets do not help."""
    for several in (False, True):
        draw = _first_draw(setting, totals, several)
        while draw is not None:
            try:
                ledger = Ledger(draw, setting.grid)
                drawn = cover(replace(setting, draw=draw), exhaustive, ledger.add)
                if ledger.complete:
                    ledger.settle(drawn)
                    return drawn
            except Located as found:
                draw = found.draw
                continue
            except (NcuSwizzleError, Undrawn):
                break
            # Each block that asks was counted with every ticket. If fewer ask than there are tickets, try with as many.
            asks = ledger.asks // draw.extent
            draw = replace(draw, extent=asks) if not several and 0 < asks < draw.extent else None
    return totals


def _first_draw(setting: Setting, totals: Totals, several: bool) -> Draw | None:
    """Return the draw to try if counts depend on what an atomic returns; None if tickets cannot help."""
    found = (unknown.origin for unknown in (*totals.unknown.values(), *totals.missed.values()))
    origins = [origin for origin in found if origin is not None]
    gives = gives_places if several else gives_tickets
    asks = [origin for origin in origins if gives(setting.program.instructions[origin])]
    free = [axis for axis, size in enumerate(setting.grid) if size == 1]
    if not asks or not free or not setting.memory or math.prod(setting.cluster) > 1:
        return None
    # With `several`, 2 is enough: any decision by a ticket leaves boxes with less than the whole axis.
    extent = 2 if several else math.prod(setting.grid)
    return Draw(origin=min(asks), axis=free[-1], extent=extent, several=several)


class Ledger:
    """What was counted for each pair of a block and a ticket."""

    def __init__(self, draw: Draw, grid: tuple[int, int, int]) -> None:
        self.draw, self.grid = draw, grid
        self.kinds: dict[bytes, int] = {}
        self.counted: list[Ints] = []  # by kind: the counts of each instruction, (COUNTED, n)
        self.boxes: list[tuple[Ints, bool, int]] = []  # low, high, own index and step, (4, 3); whether it asks; kind
        self.asks = 0

    def add(self, batch: Batch, weights: Ints, boxes: Boxes) -> None:
        """Add the blocks that represent others."""
        for number in np.flatnonzero(weights).tolist():
            counted = _counted(batch, number)
            kind = self.kinds.setdefault(sha256(counted.tobytes()).digest(), len(self.kinds))
            if kind == len(self.counted):
                self.counted.append(counted)
            box = np.stack([boxes.low[number], boxes.high[number], boxes.blocks[number], boxes.step[number]])
            asks = bool(batch.machine.asked[number])
            self.boxes.append((box, asks, kind))
            self.asks += int(weights[number]) * asks

    @property
    def complete(self) -> bool:
        """Whether as many blocks ask as there are tickets, or, if they ask more than once, no ticket decides."""
        axis, extent = self.draw.axis, self.draw.extent
        if not self.draw.several:
            # M blocks ask for M tickets, and each was counted with every ticket.
            return self.asks == extent * extent
        return all(box[0, axis] == 0 and box[1, axis] == extent - 1 and box[3, axis] == 1 for box, _, _ in self.boxes)

    def settle(self, totals: Totals) -> None:
        """Turn sums over all pairs into sums over all blocks. Raises Undrawn."""
        draw = self.draw
        if not draw.several:
            entangled = self._entangled()
            for number in np.flatnonzero(entangled[0]).tolist():
                totals.unknown.setdefault(number, Unknown(Decided.HOW_OFTEN, draw.origin, codes.TIMING))
            accesses = Unknown("what it accesses", draw.origin, codes.TIMING)
            shared, others, rows = entangled[:3].any(axis=0), entangled[3 : 3 + FIGURES].any(axis=0), entangled[-1]
            totals.missed = {**dict.fromkeys(np.flatnonzero(shared).tolist(), accesses), **totals.missed}
            totals.unfollowed = {**dict.fromkeys(np.flatnonzero(others).tolist(), accesses), **totals.unfollowed}
            totals.unsure = {**dict.fromkeys(np.flatnonzero(rows).tolist(), accesses), **totals.unsure}
        # Over all pairs, f(b) + g(t) adds up to M (sum of f + sum of g), M times what any order of the blocks gives.
        totals.issued = totals.issued // draw.extent
        for counted in (totals.wavefronts, totals.ideal):
            counted.update({number: count // draw.extent for number, count in counted.items()})
        totals.tallies = totals.tallies // draw.extent
        totals.traffic = {number: figures // draw.extent for number, figures in totals.traffic.items()}
        real = [tuple(0 if axis == draw.axis else index[axis] for axis in range(3)) for index in totals.blocks]
        totals.blocks = [(x, y, z) for x, y, z in dict.fromkeys(real)]
        totals.run = min(totals.run, math.prod(self.grid))

    def _entangled(self) -> Bools:
        """Return which counts are not a sum of a block's and a ticket's share, (COUNTED, n)."""
        kinds = self._kinds_by_ticket()
        counted = np.stack(self.counted)
        entangled: Bools = np.zeros(counted.shape[1:], bool)
        if not len(kinds) or kinds.size * entangled.size > MOST_COMPARED:
            raise Undrawn
        # c(b, t) = f(b) + g(t) exactly if c(b, t) - c(b, 0) is the same for all b; (tickets, COUNTED, n).
        first = counted[kinds[0]] - counted[kinds[0, 0]]
        for row in kinds[1:]:
            entangled |= (counted[row] - counted[row[0]] != first).any(axis=0)
        return entangled

    def _kinds_by_ticket(self) -> Ints:
        """Return the kinds of the blocks that ask, (blocks, tickets): each distinct row once.

        Tickets that no block tells apart are listed once.
        """
        axis, extent = self.draw.axis, self.draw.extent
        ends = {0} | {int(end) for box, _, _ in self.boxes for end in (box[0, axis], box[1, axis] + 1)}
        strided = any(box[3, axis] > 1 and box[0, axis] < box[1, axis] for box, _, _ in self.boxes)
        tickets: Ints = np.array(range(extent) if strided else sorted(ends - {extent}))
        blocks = math.prod(self.grid)
        if blocks * max(len(tickets), len(self.boxes)) > MOST_PAIRS:
            raise Undrawn
        index = numbered(self.grid)
        kinds: Ints = np.zeros((blocks, len(tickets)), np.int64)
        asking: Bools = np.zeros(blocks, bool)
        for box, asks, kind in self.boxes:
            of_box = _inside(np.delete(index, axis, 1), np.delete(box, axis, 1)).all(axis=1)
            with_ticket = _inside(tickets, box[:, axis])
            kinds[np.ix_(of_box, with_ticket)] = kind
            asking[of_box] |= asks
        rows: Ints = np.unique(kinds[asking], axis=0)
        return rows


def _inside(index: Ints, box: Ints) -> Bools:
    low, high, start, step = box
    inside: Bools = (index >= low) & (index <= high) & ((index - start) % step == 0)
    return inside


COUNTED = 3 + FIGURES + 1  # of an instruction, and tallies, which have their own rows


def _counted(batch: Batch, block: int) -> Ints:
    """Return a block's issues, wavefronts, ideal and figures of each instruction, and its tallies, (COUNTED, n)."""
    tallies = batch.tallies[:, block]
    counted: Ints = np.zeros((COUNTED, max(len(batch.issued), len(tallies))), np.int64)
    counted[0, : len(batch.issued)] = batch.issued[:, block]
    for number, result in batch.results.items():
        counted[1, number], counted[2, number] = result.wavefronts[block], result.ideal[block]
    for number, figures in batch.traffic.items():
        counted[3 : 3 + FIGURES, number] = figures[:, block]
    counted[-1, : len(tallies)] = tallies
    return counted


MOST_SHARED = access.sm_bytes("sm_90")  # reserved bytes included, as in Code.shared_bytes

MOST_UNKNOWN = 1 / 20  # of the accesses, for counts that follow no data


def emulate(
    code: Code,
    launch: Launch,
    *,
    exhaustive: bool = False,
    plain: bool = False,
    counts_traffic: bool = True,
    races: bool = False,
    timeout_s: float = TIMEOUT_S,
    on_progress: Progress | None = None,
) -> Counts:
    """Return the counts of one launch, and with `races` the hazards of its accesses to shared memory.

    One block of each class runs, and a few more as a check; `exhaustive` runs all blocks, `plain` every
    iteration of every loop, which must not change a count. If following data takes long and few accesses depend on
    them, these are unknown, but not with `exhaustive` or `plain`. `on_progress` is called with the blocks accounted
    for, the total, and the instructions that warps have issued. Raises one of `faults`, and UsageError if code and
    launch do not match.
    """
    clock = Clock(timeout_s=timeout_s, on_progress=on_progress)
    program = prepare(code, Demand(arrays=bool(launch.memory), traffic=counts_traffic, order=races))
    unnoted = cache(partial(prepare, code, Demand(arrays=bool(launch.memory), traffic=counts_traffic)))
    setting = setting_of(code, launch, program, clock, shortcuts=not plain)
    if not launch.buffers and all(each.never or each.row.shared is Shared.NO for each in program.instructions):
        if (
            launch.memory
            and not (exhaustive or plain)
            and (counts := _independent(code, launch, clock, counts_traffic))
        ):
            return counts
        return _without_accesses(code, launch, setting, exhaustive)
    if launch.memory and not (launch.buffers or exhaustive or plain):
        without_data = partial(_try_without_data, code, launch, clock, counts_traffic=counts_traffic, races=races)
        clock.aside, clock.aside_effort = without_data, LONG_EFFORT
    contended: frozenset[int] = frozenset()
    fences = any(map(fences_by_guard, program.instructions))  # only the code that notes order follows their guards
    while True:
        try:
            check = RaceCheck(plain=None if fences else unnoted) if races else None
            counts = _counts(code, launch, replace(setting, contended=contended), exhaustive, check)
            if check and _takes_over(check, launch, setting):
                counts = replace(counts, hazards=check.hazards())
            if check and (stores := check.racing_stores(program.instructions)):
                _tell_same_values(check, code, launch, setting, stores)
                counts = replace(counts, hazards=check.hazards())
            return counts
        except Stuck as error:
            if check is None or not (hazards := check.hazards()).found:
                raise
            return _not_counted(launch, setting, str(error), hazards)
        except Contended as found:
            # This terminates: a loop that is known to be contended claims no words, so it is not found again.
            contended |= found.instructions
        except _Answered as found:
            return found.counts


def _takes_over(check: RaceCheck, launch: Launch, setting: Setting) -> bool:
    """Run the first block taking over the work of others, by cluster launch control; return whether it can.

    Counts are of blocks that take over nothing, which is one way to run; here a block works on several tiles.
    """
    asks = any(each.opcode == "UGETNEXTWORKID" and not each.never for each in setting.program.instructions)
    size, blocks = math.prod(launch.cluster), math.prod(launch.grid)
    last = numbered(launch.grid, max(0, blocks - TAKEN * size)) // launch.cluster * launch.cluster
    named = dict.fromkeys((x, y, z) for x, y, z in last[::-1].tolist() if asks and (x, y, z) != (0, 0, 0))
    taken = tuple(named)[:TAKEN]
    if not taken:
        return asks
    clock = Clock(timeout_s=setting.clock.left_s)
    try:
        cover(replace(setting, grid=launch.cluster, taken=taken, races=check, clock=clock), exhaustive=False)
    except Stuck:
        pass  # an endless wait is among the hazards
    except (NcuSwizzleError, Restart):
        check.lacking["what a block does that takes over another's work"] = None
    return True


def _tell_same_values(check: RaceCheck, code: Code, launch: Launch, setting: Setting, stores: frozenset[int]) -> None:
    """Find races between stores of the same value, by running the first blocks with their values.

    Copies of one sum are equal, whatever is summed.
    """
    drawn = drawn_memory(launch.buffers, launch.memory)
    valued = RaceCheck(valued=stores)
    program = prepare(code, Demand(arrays=bool(drawn), order=True, valued=stores))
    clock = Clock(timeout_s=setting.clock.left_s, most_effort=COMPARED_EFFORT)
    first = replace(setting, program=program, races=valued, memory=drawn, grid=launch.cluster, clock=clock)
    try:
        cover(first, exhaustive=False)
    except TimeLimit:
        check.lacking["whether stores that race store the same value, which takes long to compare"] = None
        return
    except (NcuSwizzleError, Restart):  # for instance because of a drawn index
        return
    check.tell_apart(valued, sampled=len(drawn) > len(launch.memory))


class _Answered(Restart):
    """A run is not needed: its counts are known without it."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts


def _try_without_data(code: Code, launch: Launch, clock: Clock, *, counts_traffic: bool, races: bool) -> None:
    """Raise _Answered if few accesses depend on memory contents, which take long to follow.

    Counts that do not depend on them often take only a few iterations and blocks.
    """
    effort = WITHOUT_DATA_EFFORT * (5 if counts_traffic else 4) // 4  # a share more for the addresses
    trial_clock = Clock(timeout_s=clock.left_s, most_effort=effort, on_progress=lambda *done: clock.tell())
    trial_clock.aside, trial_clock.aside_effort = partial(_give_up_if_futile, trial_clock), FUTILE_EFFORT
    without = replace(launch, memory={})
    try:
        program = prepare(code, Demand(traffic=counts_traffic, order=races))
        setting = replace(setting_of(code, without, program, trial_clock), data=False)
        check = RaceCheck(plain=cache(partial(prepare, code, Demand(traffic=counts_traffic)))) if races else None
        counts = _counts(code, without, setting, exhaustive=False, check=check)
    except (NcuSwizzleError, Restart):
        return
    accesses = [row for row in counts.rows if row.access]
    unknown = sum(row.reason != "" for row in accesses)
    if unknown <= MOST_UNKNOWN * len(accesses):
        note = (
            "following what memory holds takes long, so its contents are treated as unknown: "
            f"{unknown} of {len(accesses)} accesses depend on them. --exhaustive follows them"
        )
        raise _Answered(replace(counts, notes=(*counts.notes, note)))


def _give_up_if_futile(clock: Clock) -> None:
    if not clock.lost:
        raise Spent("every branch is followed as with data")


def setting_of(code: Code, launch: Launch, program: PreparedCode, clock: Clock, *, shortcuts: bool = True) -> Setting:
    """Return the setting shared by all batches of a launch. Raises UsageError if code and launch do not match."""
    _check_launch(code, launch)
    bank, known = bank_0(code, launch)
    return Setting(
        program=program,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        constants={**code.constants, **launch.constants, 0: bank},
        known_constants={0: known, **known_constants(code, launch)},
        memory=dict(launch.memory),
        shared_size=-(-code.shared_bytes // LINE) * LINE + -(-launch.shared_dynamic // LINE) * LINE,
        clock=clock,
        shortcuts=shortcuts,
    )


def _without_accesses(code: Code, launch: Launch, setting: Setting, exhaustive: bool) -> Counts:
    """Return the counts of a kernel that cannot access shared memory: only how often its instructions run is unknown.

    That is computed up to a number of steps that does not depend on the machine.
    """
    try:
        with setting.clock.limited(ASIDE_STEPS):
            return _counts(code, launch, setting, exhaustive)
    except MemoryFault:
        raise
    except ProgramFailed:
        note = "it cannot access shared memory: how often its instructions run was not counted"
        return _not_counted(launch, setting, "how often it runs was not counted", Hazards(), note)


def _independent(code: Code, launch: Launch, clock: Clock, counts_traffic: bool) -> Counts | None:
    """Return the counts of a kernel that cannot access shared memory if none depends on what memory holds; else None.

    That most of them do without, and data take longest to follow.
    """
    own = Clock(timeout_s=clock.left_s, on_progress=lambda *done: clock.tell())
    without = replace(launch, memory={})
    program = prepare(code, Demand(traffic=counts_traffic))
    setting = replace(setting_of(code, without, program, own), data=False)
    try:
        with own.limited(ASIDE_STEPS):
            counts = _counts(code, without, setting, exhaustive=False)
    except (NcuSwizzleError, Restart):
        return None
    known = all(row.executed is not None and row.traffic_unknown is None for row in counts.rows)
    return counts if known else None


def _not_counted(launch: Launch, setting: Setting, reason: str, hazards: Hazards, *notes: str) -> Counts:
    """Return counts that are all unknown, for a reason."""
    rows = tuple(
        InstructionCounts(
            offset=each.offset,
            sass=each.text,
            opcode=each.mnemonic,
            access=each.opcode if each.row.always_accesses and not each.never else "",
            executed=None,
            reason=reason,
            code=codes.NOT_RUN,
        )
        for each in setting.program.instructions
    )
    return Counts(
        rows=rows,
        blocks=math.prod(launch.grid),
        blocks_run=0,
        classes=0,
        checked=0,
        notes=(*launch.notes, *notes),
        hazards=hazards,
    )


def _counts(code: Code, launch: Launch, setting: Setting, exhaustive: bool, check: RaceCheck | None = None) -> Counts:
    """Return the counts; raise Contended if lanes want the same word in a loop that is not known for that yet."""
    program = setting.program
    totals = counts_with_tickets(setting, cover(replace(setting, races=check), exhaustive), exhaustive)
    if totals.apart:
        _count_apart(code, setting, totals)
    accesses = global_accesses(code, setting, launch.buffers, totals.blocks, exhaustive, check)
    if check is not None and launch.uncompared:
        check.lacking[launch.uncompared] = None
    if check is not None and launch.buffers and totals.classes > len(totals.blocks) and not exhaustive:
        check.lacking["more kinds of blocks than are compared in global memory"] = None
    return Counts(
        rows=tuple(_row(program, totals, number) for number in range(len(program.instructions))),
        blocks=math.prod(launch.grid),
        blocks_run=totals.run,
        classes=totals.classes,
        checked=totals.checked,
        notes=(*launch.notes, *_notes(program, totals)),
        supposed={program.instructions[number].offset: made.sorted_requests() for number, made in _supposed(totals)},
        requests={  # each takes the place of those that it sorts
            program.instructions[number].offset: totals.requests.pop(number).sorted_requests()
            for number in list(totals.requests)
        },
        remote={program.instructions[number].offset: ways for number, ways in sorted(totals.remote.items())},
        global_accesses=accesses,
        tiles=followed_tiles(code, setting, launch.buffers),
        hazards=Hazards() if check is None else check.hazards(),
    )


def _count_apart(code: Code, setting: Setting, totals: Totals) -> None:
    """Count the threads and requests of the instructions that alone tell blocks apart."""
    program = setting.program
    assert program.tallies is not None
    guards = {row for number in totals.apart if (row := program.tallies.guarded.get(number)) is not None}
    numbers = {number for number in totals.apart if accesses(program.instructions[number])}
    counted = _run_apart(code, setting, totals)
    if counted is None:
        why = "whether its predicate holds", "its address"
        guard, address = (Unknown(f"{what}, in blocks too many to run,", None, codes.NOT_RUN) for what in why)
        totals.unsure = {**dict.fromkeys(guards, guard), **totals.unsure}
        totals.unfollowed = {**dict.fromkeys(numbers, address), **totals.unfollowed}
        return
    totals.unsure = {**{row: counted.unsure[row] for row in guards if row in counted.unsure}, **totals.unsure}
    unfollowed = {number: counted.unfollowed[number] for number in numbers if number in counted.unfollowed}
    totals.unfollowed = {**unfollowed, **totals.unfollowed}
    for row in guards:
        totals.tallies[row] = counted.tallies[row]
    for number in numbers & counted.traffic.keys():
        totals.traffic[number] = counted.traffic[number]
    for number in numbers & counted.patterns.keys():
        totals.patterns[number] = counted.patterns[number]


def _run_apart(code: Code, setting: Setting, totals: Totals) -> Totals | None:
    """Return the totals of a run that computes the guards and addresses of what tells blocks apart, and control flow.

    It computes so little that it covers many kinds of blocks. None if it does not succeed.
    """
    program = setting.program
    clock = Clock(
        timeout_s=setting.clock.left_s,
        most_effort=APART_EFFORT,
        by_step=True,
        on_progress=lambda *_: setting.clock.tell(),
    )
    wanted = Demand(arrays=bool(setting.memory), traffic=True, counted=frozenset(totals.apart))
    try:
        apart = replace(prepare(code, wanted), vectors=program.vectors)
        counted = cover(replace(setting, program=apart, clock=clock), exhaustive=False)
        # Where threads go does not depend on what is computed besides: until they are done, both issue the same.
        followed = {at for at in apart.flow.leaders if at not in apart.ends and at not in totals.unknown}
        if any(number in counted.unknown or counted.issued[number] != totals.issued[number] for number in followed):
            return None
    except (NcuSwizzleError, Restart):
        return None
    return counted


def _supposed(totals: Totals) -> Iterator[tuple[int, AccessRequests]]:
    """Yield what unknown accesses may request, certain requests included; nothing for lost accesses."""
    for number in sorted((totals.missed.keys() | totals.unknown.keys()) - totals.lost):
        requests = merged_requests(totals.requests.get(number), totals.supposed.get(number))
        if requests is not None and number in totals.supposed:
            yield number, replace(requests, times=np.ones_like(requests.times))


def _check_launch(code: Code, launch: Launch) -> None:
    if min(launch.grid) < 1 or min(launch.block) < 1:
        raise UsageError(f"a grid of {launch.grid} and a block of {launch.block}", "each size must be at least 1")
    if any(blocks % extent for blocks, extent in zip(launch.grid, launch.cluster, strict=True)):
        raise UsageError(f"a grid of {launch.grid} in clusters of {launch.cluster}", "a multiple of the cluster's size")
    threads = math.prod(launch.block)
    if threads > access.MOST_THREADS:
        raise UsageError(f"{threads} threads in a block", f"at most {access.MOST_THREADS}")
    if launch.shared_dynamic < 0 or code.shared_bytes + launch.shared_dynamic > MOST_SHARED:
        raise UsageError(f"{launch.shared_dynamic} bytes of dynamic shared memory", f"at most {MOST_SHARED} in all")
    if code.parameter_bytes and len(launch.parameters) != code.parameter_bytes:
        raise UsageError(
            f"{len(launch.parameters)} bytes of parameters, but {code.name} takes {code.parameter_bytes}",
            "give one argument per parameter of the kernel",
        )


def _row(program: PreparedCode, totals: Totals, number: int) -> InstructionCounts:
    instruction = program.instructions[number]
    waves = totals.wavefronts.get(number)
    missed, unknown = totals.missed.get(number), totals.unknown.get(number)
    access = instruction.opcode if instruction.row.always_accesses or waves is not None else ""
    access = "" if instruction.never else access
    why = missed or unknown if access or missed else unknown
    known = access != "" and missed is None and unknown is None
    counted, cause = _traffic(program, totals, number)
    return InstructionCounts(
        offset=instruction.offset,
        sass=instruction.text,
        opcode=instruction.mnemonic,
        access=access,
        executed=None if unknown else int(totals.issued[number]),
        wavefronts=(waves or 0) if known else None,
        ideal=totals.ideal.get(number, 0) if known else None,
        reason=in_words(program, why) if why else "",
        code=(why.code or program.cause_of(why.origin)) if why else "",
        origin=program.instructions[why.origin].offset if why and why.origin is not None else None,
        traffic=counted,
        traffic_unknown=cause,
        pattern=_pattern(program, totals, number),
    )


def _pattern(program: PreparedCode, totals: Totals, number: int) -> Pattern | None:
    """Return the access pattern of an instruction in global memory, and what a vector in its place would take."""
    if number not in totals.patterns:
        return None
    alike, vector = totals.patterns[number].summary, program.vectors.get(number)
    first = vector.numbers[0] if vector else number
    if vector is None or any(each in totals.unfollowed or each not in totals.patterns for each in vector.numbers):
        return alike
    return vector.pattern_of(number, alike, totals.patterns[first], int(totals.traffic[first][AS_VECTOR]))


def _traffic(program: PreparedCode, totals: Totals, number: int) -> tuple[Traffic, Cause | None]:
    """Return an instruction's counts besides issues and wavefronts, and why some are unknown."""
    tallies, instruction = program.tallies, program.instructions[number]
    if tallies is None:
        return NO_TRAFFIC, None
    unknown = totals.unknown.get(number)
    unfollowed = unknown or totals.unfollowed.get(number)
    rows = {"threads": tallies.leaders[program.flow.first(number)], "predicated_on": tallies.guarded.get(number)}
    rows["divergent"] = tallies.branches.get(number)
    if instruction.guard is None:
        rows["predicated_on"] = rows["threads"]
    counts: dict[str, int | None] = {
        name: None if unknown or row is None or row in totals.unsure else int(totals.tallies[row])
        for name, row in rows.items()
    }
    if not unknown and (instruction.never or not totals.issued[number]):
        counts["predicated_on"] = 0
    figures = totals.traffic.get(number, (0,) * FIGURES)
    names = figures_of(instruction)
    counts |= {name: None if unfollowed else int(figures[at]) for at, name in enumerate(FIGURE_NAMES) if name in names}
    unsure = next((totals.unsure[row] for row in rows.values() if row in totals.unsure), None)
    why = unfollowed if names and unfollowed else unknown or unsure
    cause = None
    if why is not None:
        origin = None if why.origin is None else program.instructions[why.origin].offset
        cause = Cause(in_words(program, why), why.code or program.cause_of(why.origin), origin)
    elif counts["predicated_on"] is None:
        cause = Cause("its predicate decides nothing else that is counted", codes.NOT_RUN)
    return Traffic(**counts), cause


def in_words(program: PreparedCode, unknown: Unknown) -> str:
    """Describe why something is unknown, and what it depends on."""
    if unknown.origin is None:
        return unknown.reason + " depends on a register that nothing wrote" * isinstance(unknown.reason, Decided)
    return f"{unknown.reason} depends on {program.source_of(unknown.origin)}"


def _notes(program: PreparedCode, totals: Totals) -> Iterator[str]:
    yield from totals.notes
    for number, instruction in enumerate(program.instructions):
        if (counted := p0_miscount(instruction)) and totals.issued[number]:
            yield f"ncu counts {instruction.text} {counted}, as it does not read P0; so do these counts"
    zeros = [
        each.text
        for number, each in enumerate(program.instructions)
        if counted_as_zeros(each) and totals.issued[number]
    ]
    if zeros:
        more = f" and {len(zeros) - 1} more" if len(zeros) > 1 else ""
        yield f"ncu counts {zeros[0]}{more} as if all lanes wrote zeros, as it does not read P0; so do these counts"
    for number, error in sorted(program.failures.items()):
        instruction = program.instructions[number]
        where = f"{instruction.text!r} at {instruction.offset:#x}"
        yield f"the emulator fails on {where}, a bug in the emulator; what it writes is unknown: report {error}"
    unsupported: dict[str, list[SassInstruction]] = {}
    for number in sorted(program.unsupported):
        unsupported.setdefault(program.instructions[number].mnemonic, []).append(program.instructions[number])
    for mnemonic, (first, *others) in unsupported.items():
        more = f" and {len(others)} more" if others else ""
        yield f"{mnemonic} is not emulated; its result is unknown: {first.text} at {first.offset:#x}{more}"
