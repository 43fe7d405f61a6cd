"""The TTGIR operation behind an access with conflicts, its layouts, and what its author can change.

An operation and an access belong together if they are on the same lines, and the operation's code makes accesses of
that kind and width. An access shared by several operations is attributed to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.attribution import Site
from ncu_swizzle.reports.model import LayoutNote, Profile

# Triton's own view of a kernel, TTGIR: its operations on shared memory, their layouts and source lines.
#
# Anything in the text that is not understood is skipped. Tried with Triton 3.6 and 3.9.


# The kinds of shared-memory accesses that the code of each operation makes.
BOTH = frozenset({"LDS", "LDSM", "STS", "STSM"})
KINDS = {
    "ttg.async_copy_global_to_local": frozenset({"LDGSTS"}),
    "ttg.local_store": frozenset({"STS", "STSM"}),
    "ttg.local_alloc": frozenset({"STS", "STSM"}),
    "ttg.local_load": frozenset({"LDS", "LDSM"}),
    "ttg.convert_layout": BOTH,
    "tt.reduce": BOTH,
    "tt.scan": BOTH,
    "tt.gather": BOTH,
    "tt.histogram": BOTH | {"ATOMS"},
    "tt.atomic_rmw": BOTH,
    "tt.atomic_cas": BOTH,
    "ttng.warp_group_dot": frozenset({"HGMMA", "QGMMA", "IGMMA"}),
}
Place = tuple[str, int]  # file, line

_ALIAS = re.compile(r"^#(?P<name>\w+) = (?P<value>.+)$")
_OPERATION = re.compile(r'^\s*(?:(?P<results>%[^=]*) = )?"?(?P<name>(?:tt|ttg|ttng)\.\w++)(?!\.)"?(?P<rest>.*)$')
_AT = re.compile(r'"(?P<file>[^"]*)":(?P<line>\d+):\d+')
_REFERENCE = re.compile(r"#(\w+)")
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_LAYOUT = re.compile(r"#(?P<alias>\w+)(?![\w<.])|#ttg\.\w+<")
_TYPE = re.compile(r"(?:tensor|!?ttg\.memdesc|(?<=-> ))<(?P<shape>(?:\d++x)++)(?P<element>(?:!tt\.ptr<)?[^,<>]++)[,>]")
_OPERAND = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?(?=[\s,\[:)#]|$)")


@dataclass(frozen=True, kw_only=True)
class LayoutOperation:
    """An operation that accesses shared memory: its name, layouts as TTGIR writes them, and its lines, innermost first.

    `element` is such as ``f32``; `operand` the Python name of what it reads, if Triton kept one.
    """

    name: str
    layouts: tuple[str, ...]
    shape: tuple[int, ...]
    element: str
    operand: str
    axis: int | None
    contiguous: int  # elements that a lane has next to each other in global memory; 0 if that is not said
    places: tuple[Place, ...]

    def reaches(self, access: str) -> bool:
        """Return whether its code makes accesses of this kind."""
        return access in KINDS[self.name]


@dataclass(frozen=True)
class LayoutView:
    """The operations of a kernel, and the number of warps that run its programs."""

    operations: tuple[LayoutOperation, ...]
    warps: int


def read(text: str) -> LayoutView:
    """Return what a TTGIR text says about shared memory; nothing for other text."""
    aliases = {match["name"]: match["value"] for match in map(_ALIAS.match, text.splitlines()) if match}
    warps = _WARPS.search(text)
    return LayoutView(tuple(_operations(text, aliases)), int(warps[1]) if warps else 0)


def _operations(text: str, aliases: Mapping[str, str]) -> Iterator[LayoutOperation]:
    open_: list[re.Match[str]] = []  # operations with a region, whose types and location follow it
    for line in text.splitlines():
        match = _OPERATION.match(line)
        if match and line.rstrip().endswith("({"):
            open_.append(match)
        elif match:
            yield from _operation(match, match["rest"], aliases)
        elif line.lstrip().startswith("})") and open_:
            begun = open_.pop()
            yield from _operation(begun, f"{begun['rest']} {line}", aliases)


def _operation(match: re.Match[str], rest: str, aliases: Mapping[str, str]) -> Iterator[LayoutOperation]:
    statement, located, inside = _located(rest)
    if match["name"] not in KINDS or not located:
        return
    if match["name"] == "ttg.local_alloc" and "%" not in statement:  # only memory: nothing is written
        return
    types = list(_TYPE.finditer(statement))
    axis, contiguous = re.search(r"axis = (\d+)", statement), re.search(r"contiguity = (\d+)", statement)
    operand = _OPERAND.search(statement)
    yield LayoutOperation(
        name=match["name"],
        layouts=tuple(dict.fromkeys(_layouts(statement, aliases))),
        shape=tuple(map(int, types[0]["shape"].rstrip("x").split("x"))) if types else (),
        element=types[0]["element"].removeprefix("!tt.ptr<").rstrip(">") if types else "",
        operand=operand[1] if operand else "",
        axis=int(axis[1]) if axis else None,
        contiguous=int(contiguous[1]) if contiguous else 0,
        places=tuple(_places(inside, aliases)),
    )


def _located(text: str) -> tuple[str, bool, str]:
    """Split off a location at the end of a text: the text before it, whether there is one, and its content."""
    before, mark, after = text.rstrip().partition("loc(")
    return before, bool(mark) and after.endswith(")"), after.removesuffix(")")


def _layouts(said: str, aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield the layouts of an operation's types, spelled out."""
    ends = _ends(said)
    for match in _LAYOUT.finditer(said):
        if match["alias"] is None:
            if end := ends.get(match.end() - 1):
                yield said[match.start() : end]
        elif "<" in (value := aliases.get(match["alias"], "")) and value.startswith("#ttg."):
            yield value


def _ends(text: str) -> dict[int, int]:
    """Return, for each opening bracket, the position after its closing one."""
    opened: list[int] = []
    closed = {}
    for bracket in re.finditer("[<>]", text):
        if bracket[0] == "<":
            opened.append(bracket.start())
        elif opened:
            closed[opened.pop()] = bracket.end()
    return closed


def _places(location: str, aliases: Mapping[str, str]) -> Iterator[Place]:
    """Yield the lines of a location; for a call, the callee's come first. Each name counts once."""
    waiting, visited = [location], set[str]()
    while waiting:
        location = waiting.pop()
        if at := _AT.match(location):
            yield at["file"], int(at["line"])
            continue
        names = [name for name in _REFERENCE.findall(location) if name not in visited]
        visited.update(names)
        inner = (_located(aliases.get(name, "")) for name in reversed(list(dict.fromkeys(names))))
        waiting += [inside for _, located, inside in inner if located]


LINE = 128  # bytes
MOST_COPIED = 16  # bytes of a lane
BITS = re.compile(r"(\d+)")
_WIDTH = re.compile(r"\.(?:U|S)?(8|16|64|128)(?=\.|$)")
_FIELD = r"{name} = (\[++[^][]*+\]|\w++)"


def with_layout_notes(profile: Profile, text: str, explicit: bool) -> Profile:
    """Return the profile with a note on each line whose accesses have conflicts; `explicit` layouts are the author's.

    `text` is the kernel's TTGIR; empty for other compilers.
    """
    view = read(text)
    groups: dict[tuple[str, str, str], list[Site]] = {}
    for site in attribution.sites(profile):
        access = site.access
        if view.operations and access.wavefronts is not None and access.wavefronts > (access.ideal or 0):
            groups.setdefault((site.name, access.access, access.opcode), []).append(site)
    said: dict[tuple[str, str], list[list[Site]]] = {}
    for sites in groups.values():
        if sentence := _sentence(sites, view, explicit):
            said.setdefault(sentence, []).append(sites)
    notes = [
        LayoutNote(
            f"{operation}, {' and '.join(map(_counted, together))}: {why}",
            tuple(site.access.pc for sites in together for site in sites),
            explicit,
        )
        for (operation, why), together in said.items()
    ]
    return replace(profile, layouts=tuple(notes))


def _sentence(sites: Sequence[Site], view: LayoutView, explicit: bool) -> tuple[str, str] | None:
    """Explain the accesses of one line and opcode, and why they conflict; None if no operation makes them."""
    access, width = sites[0].access, _width(sites[0].access.opcode)
    reaching = [each for each in view.operations if each.reaches(access.access) and _same_lines(each, sites[0])]
    fitting = [each for each in reaching if _bytes_at_once(each) in (None, width)] or reaching
    guilty = [each for each in fitting if _is_transposed(each) or _is_narrow(each)] or fitting
    operations = list(dict.fromkeys(replace(each, contiguous=0) for each in guilty))
    if not operations:
        return None
    named = " and ".join(dict.fromkeys(map(_named, operations)))
    return f"{sites[0].name} is {named}", _reason(operations[0], view, width, explicit)


def _counted(sites: Sequence[Site]) -> str:
    """Return the kind, width and degree of accesses of one line and opcode."""
    wavefronts = sum(site.access.wavefronts or 0 for site in sites)
    ideal = sum(site.access.ideal or 0 for site in sites)
    degree = f", degree {wavefronts / ideal:.2f}" if ideal else ""
    return f"{sites[0].access.access} of {_bytes(_width(sites[0].access.opcode))}{degree}"


def _same_lines(operation: LayoutOperation, site: Site) -> bool:
    """Return whether both are on the same lines; the cubin may leave out the callers."""
    lines = [(file.rpartition("/")[2], line) for file, line in site.access.stack]
    places = [(file.rpartition("/")[2], line) for file, line in operation.places]
    shared = min(len(lines), len(places))
    # A reduction needs shared memory only along an axis of several warps.
    reduces = operation.name in ("tt.reduce", "tt.scan") and operation.axis is not None
    return shared > 0 and lines[:shared] == places[:shared] and not (reduces and _warps_along(operation) <= 1)


def _warps_along(operation: LayoutOperation) -> int:
    spread = _numbers(next((each for each in operation.layouts if "warpsPerCTA" in each), ""), "warpsPerCTA")
    axis = operation.axis or 0
    return spread[axis] if axis < len(spread) else 1


def _width(opcode: str) -> int:
    """Return the bytes that a lane moves at once."""
    if opcode.startswith(("LDSM", "STSM")):
        return MOST_COPIED
    widths = _WIDTH.findall(opcode)
    return int(widths[-1]) // 8 if widths else 4


def _bytes_at_once(operation: LayoutOperation) -> int | None:
    """Return the bytes that a copy moves per lane: elements that are together on both sides; None if unclear."""
    if operation.name != "ttg.async_copy_global_to_local" or not operation.contiguous:
        return None
    element = _element_bytes(operation)
    return element if _is_transposed(operation) else min(MOST_COPIED, operation.contiguous * element)


def _is_transposed(operation: LayoutOperation) -> bool:
    """Return whether different axes are contiguous in registers and in shared memory."""
    held = next((each for each in operation.layouts if each.startswith("#ttg.nvmma_shared")), "")
    order = _numbers(next((each for each in operation.layouts if each.startswith("#ttg.blocked")), ""), "order")
    if not held or len(order) != len(operation.shape):
        return False
    return order[0] != (len(order) - 2 if "transposed = true" in held else len(order) - 1)


def _element_bytes(operation: LayoutOperation) -> int:
    bits = BITS.search(operation.element)
    return max(1, int(bits[1]) // 8) if bits else 4


def _named(operation: LayoutOperation) -> str:
    """Describe an operation: what it reads, its shape and its layouts."""
    of = f" of {operation.operand}" if operation.operand else ""
    shape = "x".join(map(str, (*operation.shape, operation.element)))
    layouts = " to ".join(each for each in operation.layouts if not each.startswith("#ttg.slice"))
    axis = "" if operation.axis is None else f" along axis {operation.axis}"
    return f"{operation.name}{of}{axis}, {shape}, {layouts}"


def _reason(operation: LayoutOperation, view: LayoutView, width: int, explicit: bool) -> str:
    """Explain why it conflicts, if the layouts tell, and what changes them."""
    fewer, more = max(1, view.warps // 2), view.warps * 2
    other = f"--before num_warps={view.warps} --after num_warps={more if view.warps < 8 else fewer} compares"
    if _is_transposed(operation) and _element_bytes(operation) != 2:
        bits = 8 * _element_bytes(operation)
        sixteen = ", or make both operands of tl.dot float16 or bfloat16" if bits == 32 else ""
        which = operation.operand if operation.name == "ttg.async_copy_global_to_local" else "that operand"
        return (
            f"wgmma reads {bits}-bit operands only with K contiguous, so the tile is turned as it is written, "
            f"{_bytes(width)} at a time; store {which} with K contiguous (strides 1 along K){sixteen}"
        )
    if operation.name == "tt.histogram":
        return "lanes whose values fall into one bank take turns, which depends on the data and on no option"
    if operation.name in ("tt.reduce", "tt.scan") and operation.axis is not None:
        return (
            f"axis {operation.axis} is spread over {_warps_along(operation)} warps, which exchange their parts through "
            f"shared memory; --before num_warps={view.warps} --after num_warps=1 compares with one warp"
        )
    if _is_narrow(operation):
        elements = LINE // _element_bytes(operation)
        return (
            f"a row of the tile has {_row_bytes(operation)} bytes, and a copy takes a wavefront for each {LINE}-byte "
            f"line that it reads or writes; a block of {elements} along its contiguous axis fills the lines"
        )
    if explicit:
        return "the layout is yours: another SwizzledSharedLayout, PaddedSharedLayout or register layout changes it"
    return f"the layouts are the compiler's, which takes others for other block shapes and num_warps: {other}"


def _bytes(count: int) -> str:
    return f"{count} byte{'s' if count > 1 else ''}"


def _is_narrow(operation: LayoutOperation) -> bool:
    """Return whether it copies rows that are shorter than a line."""
    return operation.name == "ttg.async_copy_global_to_local" and _row_bytes(operation) < LINE


def _row_bytes(operation: LayoutOperation) -> int:
    order = _numbers(next((each for each in operation.layouts if each.startswith("#ttg.blocked")), ""), "order")
    fits = len(order) == len(operation.shape) and bool(order)
    return operation.shape[order[0]] * _element_bytes(operation) if fits else LINE


def _numbers(layout: str, name: str) -> list[int]:
    """Return a list of numbers in a layout's text."""
    match = re.search(_FIELD.format(name=name), layout)
    return [int(number) for number in re.findall(r"\d+", match[1])] if match else []
