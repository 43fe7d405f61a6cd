"""SwizzleAdvice: the fix to try, from an access's opcode, width and degree."""

from __future__ import annotations

from swizzle_pack import facts as known
from swizzle_pack.facts import Counts, Facts
from swizzle_pack.finding import OPTIMIZATION, Finding, Focus, listed
from swizzle_pack.shapes import LINE, Shape, shape

RULE = "SwizzleAdvice"
TILED = frozenset({"LDS", "STS", "LDSM", "STSM", "LDGSTS"})  # whose tile's layout the kernel chooses
FIXABLE = TILED | {"ATOMS"}
SMALL = 0.01  # a kind with a smaller share of the excess gets no advice of its own
SHARED_PER_BLOCK = "launch__shared_mem_per_block"
SHARED_LIMIT = "launch__occupancy_limit_shared_mem"
OTHER_LIMITS = tuple(f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "warps", "barriers"))
SHARED_PER_SM = "device__attribute_max_shared_memory_per_multiprocessor"


def decide(facts: Facts) -> list[Finding]:
    """Return one finding with a fix for each kind and width of access that has excess."""
    worst = facts.excessive()
    if not worst:
        return []
    excess = sum(one.excessive for one in worst)
    widest = max(
        (shape(one.opcode) for one in facts.accesses() if one.access in TILED),
        key=lambda form: form.width,
        default=Shape(4),
    )
    groups = known.by(worst, lambda one: (one.access, shape(one.opcode)))
    parts = [
        _advice(kind, form, counts, widest)
        for (kind, form), counts in groups.items()
        if kind in FIXABLE and counts.excessive >= SMALL * excess
    ]
    if _hardware_tiles(facts):
        parts.append(_modes(facts))
    elif any(kind in TILED and kind != "LDGSTS" for kind, _ in groups):
        parts.append(_padding(facts, widest.width))
    parts.append(
        "All writers and readers of a tile must use one mapping: ncu-swizzle suggest finds it for all at once."
    )
    blocks = facts.number(SHARED_LIMIT)
    focus = (Focus(SHARED_LIMIT, blocks, "blocks per SM that shared memory allows", good=True),) if blocks else ()
    return [Finding(RULE, OPTIMIZATION, "Swizzle Advice", " ".join(parts), focus=focus)]


def _advice(kind: str, form: Shape, counts: Counts, widest: Shape) -> str:
    head = f"{kind} of {form.width} bytes, degree {counts.degree:.2f}:"
    if kind == "ATOMS":
        return (
            f"{head} lanes that meet in one address take turns, and no layout changes that. Combine within the warp "
            "first (__reduce_add_sync, __match_any_sync), or give each warp a copy of its own; only lanes that meet in "
            "one bank at different addresses are a matter of layout."
        )
    if kind == "LDGSTS":
        return (
            f"{head} a copy takes a wavefront for each 128-byte line that it reads or writes. Keep the 16-byte chunks "
            "of a line together in one row of the tile, in any order that an XOR gives; a padded row parts them."
        )
    said = (
        f"{head} XOR the number of the {form.width}-byte piece within its row with the row's number, which is "
        f"{_swizzle(form)} on byte offsets for rows of {LINE} bytes (the last number is log2(bytes per row / "
        f"{form.width}) for longer rows), so that {form.slots} rows lie in {form.slots} different groups of banks."
    )
    if widest.width > form.width:
        said += (
            f" Where accesses of {widest.width} bytes use the same tile, keep their pieces whole: {_swizzle(widest)}."
        )
    return said


def _swizzle(form: Shape) -> str:
    return f"Swizzle<{form.bits},{form.width.bit_length() - 1},{form.bits}>"


def _hardware_tiles(facts: Facts) -> list[str]:
    """Return which of the instructions that read or write tiles by the hardware's own modes the kernel has."""
    kinds = {one.opcode.split(".")[0] for one in facts.instructions}
    return sorted(kinds & {"UTMALDG", "UTMASTG", "UTMAREDG", "HGMMA", "QGMMA", "IGMMA", "BGMMA"})


def _modes(facts: Facts) -> str:
    return (
        f"This kernel has {listed(_hardware_tiles(facts))}: a tile that TMA writes or wgmma reads knows three swizzles "
        "and no padding, 32, 64 and 128 bytes: Swizzle<1,4,3>, Swizzle<2,4,3> and Swizzle<3,4,3> on byte offsets, with "
        "rows (a TMA box's inner dimension) of at most as many bytes. Take the widest that the row fills, and let "
        "every other access apply the same XOR."
    )


def _padding(facts: Facts, width: int) -> str:
    said = f"The fallback is padding, {width} bytes after every {LINE}: {100 * width / LINE:.0f}% more shared memory"
    used, limit = facts.number(SHARED_PER_BLOCK), facts.number(SHARED_LIMIT)
    size = facts.number(SHARED_PER_SM)
    if not used or not limit or not size:
        return f"{said}."
    more = used * (LINE + width) / LINE
    others = [int(value) for value in (facts.number(name) for name in OTHER_LIMITS) if value]
    now, then = min([int(limit), *others]), min([int(size // more), *others])
    blocks = f"{now} block{'s' if now != 1 else ''} per SM"
    return f"{said}, {used:,.0f} to {more:,.0f} bytes per block, which " + (
        f"costs occupancy: {blocks} would become {then}." if then < now else f"leaves {blocks}."
    )
