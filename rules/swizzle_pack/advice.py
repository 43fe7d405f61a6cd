"""SwizzleAdvice: the fix to try, given an access's opcode, width and degree."""

from __future__ import annotations

from swizzle_pack.facts import Counts, Facts, Instruction, grouped
from swizzle_pack.finding import OPTIMIZATION, Finding, Focus, listed
from swizzle_pack.shapes import LINE, Shape, shape, spelled, ways

RULE = "SwizzleAdvice"
TILED = frozenset({"LDS", "STS", "LDSM", "STSM", "LDGSTS"})  # the kernel chooses the layout of their tiles
FIXABLE = TILED | {"ATOMS"}
WGMMA = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA"})
TENSOR_COPIES = frozenset({"UTMALDG", "UTMASTG", "UTMAREDG"})
ACCUMULATORS = (
    "If the STS store wgmma's accumulators in types of two bytes, stmatrix (STSM) stores in one instruction what takes "
    "four of them, a chunk per lane: XOR the index of the chunk within its row with the row's, as the widest of these "
    "modes does, and they are free of conflicts; a TMA store (UTMASTG) through a tensor map of that mode takes the "
    "tile as it is."
)
WMMA_STEP = 16  # bytes: leading dimensions are multiples of that
SMALL = 0.01  # a kind with a smaller share of the excess gets no advice
SHARED_PER_BLOCK = "launch__shared_mem_per_block"
SHARED_LIMIT = "launch__occupancy_limit_shared_mem"
OTHER_LIMITS = tuple(f"launch__occupancy_limit_{limit}" for limit in ("blocks", "registers", "warps", "barriers"))
UNSEEN = "ncu does not record addresses: ncu-swizzle explain my.cu tries them."
SHARED_PER_SM = "device__attribute_max_shared_memory_per_multiprocessor"


def decide(facts: Facts) -> list[Finding]:
    """Return one finding with a fix for each kind and width of access with excess."""
    worst = facts.excessive()
    if not worst:
        return []
    excess = sum(i.excessive for i in worst)
    widest = max(
        (shape(i.opcode) for i in facts.accesses() if i.access in TILED),
        key=lambda form: form.width,
        default=Shape(4),
    )
    if facts.layouts and not facts.tried:  # the compiler's own: no swizzle that is written by hand applies
        said = " ".join(f"{sentence}." for sentence in facts.layouts)
        return [Finding(RULE, OPTIMIZATION, "Layout Advice", said)]
    groups = grouped(worst, lambda i: (i.access, shape(i.opcode), i.wmma))
    parts = [
        _leading_dimension(kind, form, counts) if wmma else _advice(kind, form, counts, widest)
        for (kind, form, wmma), counts in groups.items()
        if kind in (FIXABLE - TILED if facts.tried else FIXABLE) and counts.excessive >= SMALL * excess
    ]
    parts = [*(f"{sentence}." for sentence in facts.layouts), *parts]
    parts += [f"Tried on the kernel's own addresses: {sentence}." for sentence in facts.tried]
    if _hardware_tiles(facts):
        parts.append(_modes(facts))
        parts += [ACCUMULATORS] * (not facts.tried and _stores_accumulators(facts, worst))
    elif not facts.tried and any(kind in TILED and kind != "LDGSTS" and not wmma for kind, _, wmma in groups):
        parts.append(_padding(facts, widest.unit))
    if not all(wmma for _, _, wmma in groups):
        seen = "ncu-swizzle explain --show mapping prints its code." if facts.tried else UNSEEN
        parts.append(f"Every writer and reader of a tile must use the same mapping; {seen}")
    blocks = facts.number(SHARED_LIMIT)
    focus = (Focus(SHARED_LIMIT, blocks, "blocks per SM allowed by shared memory", good=True),) if blocks else ()
    return [Finding(RULE, OPTIMIZATION, "Swizzle Advice", " ".join(parts), focus=focus)]


def _advice(kind: str, form: Shape, counts: Counts, widest: Shape) -> str:
    head = f"{kind} of {form}, degree {counts.degree:.2f}:"
    if kind == "ATOMS":
        return (
            f"{head} lanes that hit the same address serialize, whatever the layout. Reduce within the warp first "
            "(__reduce_add_sync, __match_any_sync), or give each warp a private copy; a layout change helps only lanes "
            "that hit different addresses in one bank."
        )
    if kind == "LDGSTS":
        return (
            f"{head} a copy takes one wavefront per 128-byte line that it reads or writes. Keep the 16-byte chunks of "
            "a line together in one row of the tile, in any XOR order; padded rows split them."
        )
    if ways(counts.degree, form.slots) != form.slots:
        return (
            f"{head} XOR the index of the {form.unit}-byte chunk within its row with the row index. Which bits depends "
            "on the rows that the lanes of a phase access."
        )
    rows = ", ".join(f"{_swizzle(form, form, LINE * times)} for rows of {LINE * times} bytes" for times in (1, 2))
    advice = (
        f"{head} all lanes of a phase use one bank. If they access consecutive rows, XOR the index of the "
        f"{form.unit}-byte chunk within its row with the row index: {rows}; each doubling of the row adds 1 to the "
        "last number."
    )
    if widest.unit > form.unit:
        advice += (
            f" If {widest.width}-byte accesses use the same tile, their chunks must stay whole: "
            f"{_swizzle(form, widest, LINE)} for rows of {LINE} bytes leaves these accesses a degree of "
            f"{form.slots // widest.slots}."
        )
    return advice


def _leading_dimension(kind: str, form: Shape, counts: Counts) -> str:
    return (
        f"{kind} of {form}, degree {counts.degree:.2f}, from wmma, whose load_matrix_sync and store_matrix_sync take a "
        f"leading dimension and no swizzle: make the rows {WMMA_STEP} bytes longer, in the tile's declaration and in "
        "the leading dimension."
    )


def _swizzle(form: Shape, chunk: Shape, row_bytes: int) -> str:
    """Return the swizzle that XORs the chunk's index within its row with the row's, on elements of the form's width."""
    base = (chunk.unit // form.width).bit_length() - 1
    return spelled(chunk.bits, base, (row_bytes // chunk.unit).bit_length() - 1, form.width)


def _hardware_tiles(facts: Facts) -> list[str]:
    """Return which instructions the kernel has that use the hardware's own swizzle modes."""
    kinds = {i.opcode.split(".")[0] for i in facts.instructions}
    return sorted(kinds & (WGMMA | TENSOR_COPIES))


def _stores_accumulators(facts: Facts, worst: list[Instruction]) -> bool:
    """Say whether a kernel with wgmma has conflicts of plain stores, and no stmatrix."""
    kinds = {i.opcode.split(".")[0] for i in facts.instructions}
    return bool(kinds & WGMMA) and "STSM" not in kinds and any(i.access == "STS" for i in worst)


def _modes(facts: Facts) -> str:
    return (
        f"This kernel has {listed(_hardware_tiles(facts))}: tiles written by TMA or read by wgmma support three "
        f"swizzles and no padding: 32, 64 and 128 bytes, i.e. {listed([spelled(b, 4, 3, 1) for b in (1, 2, 3)])}, "
        "with rows (the TMA box's inner dimension) of at most that many bytes. Use the widest that the row "
        "fills, and apply the same XOR in every other access." + _descriptors(facts)
    )


def _descriptors(facts: Facts) -> str:
    """Return what wgmma's descriptors have to do with it."""
    if not WGMMA & set(_hardware_tiles(facts)):
        return ""
    return (
        " wgmma takes the same wavefronts in each mode: a mode, LBO, SBO or alignment that does not fit the tensor map "
        "costs no time, it makes the results wrong. ncu-swizzle lint my.cu follows the tiles from the tensor maps to "
        "the descriptors and names what does not fit."
    )


def _padding(facts: Facts, width: int) -> str:
    padding = (
        f"The fallback is padding, {width} bytes after every row: {100 * width / LINE:.0f}% more shared memory for "
        f"rows of {LINE} bytes"
    )
    used, limit = facts.number(SHARED_PER_BLOCK), facts.number(SHARED_LIMIT)
    size = facts.number(SHARED_PER_SM)
    if not used or used < 1 or not limit or not size:
        return f"{padding}."
    more = used * (LINE + width) / LINE
    others = [int(value) for value in (facts.number(name) for name in OTHER_LIMITS) if value]
    now = min([int(limit), *others])
    then = int(min(size // more, now))
    blocks = f"{now} block{'s' if now != 1 else ''} per SM"
    return f"{padding}, {used:,.0f} to {more:,.0f} bytes per block, which " + (
        f"costs occupancy: {blocks} become {then}." if then < now else f"still allows {blocks}."
    )
