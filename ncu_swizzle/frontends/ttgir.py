"""Triton's own view of a kernel, TTGIR: its operations on shared memory, their layouts, and the lines that they are of.

Only what is read here is known of the text; what is not understood is left out. Tried with Triton 3.6 and 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Which accesses to shared memory the code of an operation makes, by their kind.
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
DEEPEST = 100  # locations within each other

Place = tuple[str, int]  # file, line

_ALIAS = re.compile(r"^#(?P<name>\w+) = (?P<value>.+)$")
_OPERATION = re.compile(r'^\s*(?:(?P<results>%[^=]*) = )?"?(?P<name>(?:tt|ttg|ttng)\.\w+)(?!\.)"?(?P<rest>.*)$')
_LOCATION = re.compile(r"loc\((?P<inside>.*)\)\s*$")
_AT = re.compile(r'"(?P<file>[^"]*)":(?P<line>\d+):\d+')
_REFERENCE = re.compile(r"#(\w+)")
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_LAYOUT = re.compile(r"#(?P<alias>\w+)(?![\w<.])|#ttg\.\w+<")
_TYPE = re.compile(r"(?:tensor|!?ttg\.memdesc|(?<=-> ))<(?P<shape>(?:\d+x)+)(?P<element>[^,>]+)[,>]")
_OPERAND = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?(?=[\s,\[:)#]|$)")


@dataclass(frozen=True)
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
    """The operations of a kernel, and by how many warps its programs are run."""

    operations: tuple[LayoutOperation, ...]
    warps: int


def read(text: str) -> LayoutView:
    """Return what a TTGIR text says of shared memory; nothing for another text."""
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
    located = _LOCATION.search(rest)
    if match["name"] not in KINDS or located is None:
        return
    said = rest[: located.start()]
    if match["name"] == "ttg.local_alloc" and "%" not in said:  # memory alone: nothing is written
        return
    types = list(_TYPE.finditer(said))
    axis, contiguous = re.search(r"axis = (\d+)", said), re.search(r"contiguity = (\d+)", said)
    operand = _OPERAND.search(said)
    yield LayoutOperation(
        match["name"],
        tuple(dict.fromkeys(_layouts(said, aliases))),
        tuple(map(int, types[0]["shape"].rstrip("x").split("x"))) if types else (),
        types[0]["element"].removeprefix("!tt.ptr<").rstrip(">") if types else "",
        operand[1] if operand else "",
        int(axis[1]) if axis else None,
        int(contiguous[1]) if contiguous else 0,
        tuple(_places(located["inside"], aliases, 0)),
    )


def _layouts(said: str, aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield the layouts of an operation's types, spelled out."""
    for match in _LAYOUT.finditer(said):
        if match["alias"] is None:
            yield _balanced(said[match.start() :])
        elif "<" in (value := aliases.get(match["alias"], "")) and value.startswith("#ttg."):
            yield value


def _balanced(text: str) -> str:
    """Return a layout that is spelled out where it is used, up to its last bracket."""
    depth = 0
    for number, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == ">" and depth == 0:
            return text[: number + 1]
    return text


def _places(location: str, aliases: Mapping[str, str], depth: int) -> Iterator[Place]:
    """Yield the lines of a location: of a call, those of what is called come first."""
    if at := _AT.match(location):
        yield at["file"], int(at["line"])
        return
    for name in _REFERENCE.findall(location) if depth < DEEPEST else ():
        inside = _LOCATION.search(aliases.get(name, ""))
        if inside:
            yield from _places(inside["inside"], aliases, depth + 1)
