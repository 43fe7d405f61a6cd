"""Random cases for the bank explorer, and what `ncu_swizzle.smem` answers to them."""

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.smem import access, bankmap, mapping, operations
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping

SHAPES = (1, 2, 3, 4, 8, 8, 8, 12, 16, 16, 32, 32, 64)
REFUSED = 0.1  # of the refused cases that are kept: most random ones are
MODES = ("128B", "64B", "32B", "sudoku")
NAMED = (
    "row", "rows", "column", "columns", "row:16", "rows:16", "column:16", "columns:8", "rows:8", "row:2", "rows:1",
    "row:3", "mma", "cp.async", "cp.async:4", "cp.async:8", "ldmatrix", "ldmatrix.x1", "ldmatrix.x2", "stmatrix",
    "ldmatrix.x4.trans", "stmatrix.x2.trans", "ldmatrix:8", "nothing",
)  # fmt: skip
NAMES = ("tid", "lane", "warp", "tid", "lane")
BINARY = ("+", "-", "*", "/", "//", "%", "<<", ">>", "&", "|", "^")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Case:
    """What a reader types into the explorer."""

    layout: str
    element: int
    swizzle: str
    pad: int
    access: str
    write: bool
    threads: int


def random_cases(number: int, seed: int) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yield cases with their answers; about one in five is refused."""
    dice = random.Random(seed)
    while number:
        case = random_case(dice)
        expected = answer(case)
        if not expected["refused"] or dice.random() < REFUSED:
            number -= 1
            yield case, expected


def random_case(dice: random.Random) -> Case:
    """Return whatever a reader might type."""
    layout, rows, columns = _layout(dice)
    changed = dice.random()
    return Case(
        layout,
        dice.choice((1, 2, 4, 8, 16)),
        _swizzle(dice) if changed < 0.75 else "",
        dice.randrange(1, 9) if 0.73 < changed < 0.95 else 0,
        _access(dice, rows, columns),
        dice.random() < 0.3,
        dice.choice((32, 32, 64, 128)),
    )


def answer(case: Case) -> dict[str, Any]:
    """Return what the explorer must say about a case: the maps before and after, or that it is refused."""
    try:
        plain = mapping.parse(case.layout, case.element)
        after = mapping.parse(case.layout, case.element, case.swizzle or None, case.pad)
        taken = access.parse(case.access, plain.layout, case.element, case.write, case.threads)
        maps = [bankmap.build(each, taken) for each in (plain, after)]
    except NcuSwizzleError:
        return {"refused": True}
    request = bankmap.worst_request(maps)
    return {"refused": False, "request": request, "maps": [_map(each, taken, request) for each in maps]}


def asked(case: Case) -> dict[str, Any]:
    """Return the case as the page takes it."""
    return asdict(case)


def _map(bank_map: bankmap.BankMap, taken: Access, request: int) -> dict[str, Any]:
    counts = taken.wavefronts(bank_map.mapping)
    loads = list(takewhile(lambda load: load.request == request, bankmap.loads(bank_map, request)))
    return {
        "banks": bank_map.banks.tolist(),
        "ways": bank_map.ways.tolist(),
        "actual": counts.actual.tolist(),
        "ideal": counts.ideal.tolist(),
        "known": counts.known.tolist(),
        "words": [list(load.words) for load in loads],
        "lanes": [list(load.lanes) for load in loads],
        "cells": [[list(cell) for cell in load.cells] for load in loads],
        "bijection": bank_map.mapping.collision() is None,
        "code": _code(bank_map.mapping),
    }


def _code(tile: Mapping) -> str:
    return tile.transform.cuda("offset")


def _layout(dice: random.Random) -> tuple[str, int, int]:
    rows, columns = dice.choice(SHAPES), dice.choice(SHAPES)
    kind = dice.random()
    if kind < 0.45:
        return f"({rows},{columns}):({columns},1)", rows, columns
    if kind < 0.6:
        return f"({rows},{columns}):(1,{rows})", rows, columns
    if kind < 0.7:
        return f"({rows},{columns}):({dice.randrange(80)},{dice.randrange(5)})", rows, columns
    if kind < 0.9:
        parts = [dice.choice((1, 2, 4, 8)) for _ in range(3)]
        strides = np.cumprod([1, *parts[:2]]).tolist()
        dice.shuffle(strides)
        text = f"(({parts[0]},_{parts[1]}),{parts[2]}):(({strides[0]},{strides[1]}),{strides[2]})"
        return text, parts[0] * parts[1], parts[2]
    if kind < 0.97:
        inner = dice.choice((2, 4, 8))
        return f"({rows},{columns}):({columns},1) o ({inner},{inner}):({inner},1)", inner, inner
    return dice.choice(("(4,4)", "(4,(4):(4,1)", "(4,4,2):(1,4,16)", "16:1", "(0,4):(4,1)", "(512,512):(1,600)")), 4, 4


def _swizzle(dice: random.Random) -> str:
    kind = dice.random()
    if kind < 0.25:
        return dice.choice(MODES)
    bits = dice.randrange(6)
    shift = dice.choice((1, 1, 1, -1)) * dice.randrange(max(0, bits - 1 + (dice.random() < 0.95)), 7)
    numbers = f"{bits},{dice.randrange(6)},{shift}"
    if kind < 0.6:
        return numbers
    form = dice.choice(("Swizzle<{}>", "bytes:{}", "add:{}", "and:{}", "or:{}", "bytes:add:{}", "shift:{}"))
    return form.format(numbers)


def _access(dice: random.Random, rows: int, columns: int) -> str:
    if dice.random() < 0.5:
        return dice.choice(NAMED)
    operation = dice.choice(operations.NAMES) if dice.random() < 0.97 else "ld.shared.f128"
    exact = dice.random() < 0.9
    width = operations.find(operation).width_bytes if operation in operations.NAMES else 4
    step = dice.choice((1, 1, max(1, width // 2), width))
    row, column = _expression(dice, 3), _expression(dice, 3)
    if exact:
        row, column = f"({row}) % {rows}", f"({column}) * {step} % {columns}"
    return f"{operation}@{row},{column}"


def _expression(dice: random.Random, depth: int) -> str:
    kind = dice.random()
    if depth == 0 or kind < 0.25:
        return dice.choice(NAMES)
    if kind < 0.4:
        return dice.choice((str(dice.randrange(40)), hex(dice.randrange(64))))
    if kind < 0.45:
        return dice.choice("-~") + _expression(dice, depth - 1)
    left, right = _expression(dice, depth - 1), _expression(dice, depth - 1)
    if kind < 0.52:
        return f"({left} {dice.choice(COMPARISONS)} {right})"
    text = f"{left} {dice.choice(BINARY)} {right}"
    return f"({text})" if dice.random() < 0.5 else text
