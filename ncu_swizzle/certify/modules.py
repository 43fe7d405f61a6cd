"""What differs between two PTX modules, as texts: which kernels are to be compared, and what may not differ at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ncu_swizzle.certify.change import name_of

# Lines that say where code is from, not what it does.
_SAYS_NOTHING = re.compile(r"\s*(//|\.loc\b|\.file\b|\.version\b|\.target\b|\.address_size\b|$)")
_FUNCTION = re.compile(r"\.(entry|func)\s++(?:\([^()]*+\)\s*+)?([\w$]+)")
_VARIABLE = re.compile(r"\.(global|const|shared|tex|surf)\b[^;={]{0,200}?([\w$]++)\s*+(?:\[[^\[\]]*+\]\s*+)*+(?:=|;)")
_PARAMETER = re.compile(r"\.param\s++((?:\.(?!param)\w++\s++(?:\d++\s++)?)++)[\w$]++(\[\d++\])?")
_NAMES = re.compile(r"[\w$]+")


@dataclass(frozen=True)
class Part:
    """A function, a variable or a declaration at the top of a module: its kind, and its text without line numbers."""

    kind: str  # entry, func, or the state space of a variable
    text: str

    @property
    def bounds(self) -> str:
        """The directives between a kernel's parameters and its body, such as .maxntid."""
        return " ".join(self.text.partition("{")[0].rpartition(")")[2].split())

    @property
    def parameters(self) -> list[str]:
        """The kinds, sizes and alignments of a kernel's parameters."""
        return _PARAMETER.findall(self.text.partition("{")[0])


@dataclass(frozen=True, eq=False)
class Module:
    """A PTX module, by its parts."""

    ptx: str

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """The parts by symbol; of a function that is declared, too, both texts."""
        found: dict[str, Part] = {}
        for text in _texts(self.ptx):
            if match := _FUNCTION.search(text) or _VARIABLE.search(text):
                before = found[match[2]].text if match[2] in found else ""
                found[match[2]] = Part(match[1], before + text)
        return found

    @property
    def kernels(self) -> list[str]:
        return [name for name, part in self.parts.items() if part.kind == "entry"]

    def code(self, symbol: str) -> dict[str, str]:
        """Return the texts of a kernel and of all that it names, and that names, by symbol."""
        found: dict[str, str] = {}
        waiting = [symbol]
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.parts:
                found[name] = self.parts[name].text
                waiting += _NAMES.findall(found[name])
        return found


def _texts(ptx: str) -> Iterator[str]:
    """Yield what stands at the top of a module, one after the other, without comments, lines and debug sections."""
    lines: list[str] = []
    depth = 0
    for line in ptx.splitlines():
        if _SAYS_NOTHING.match(line):
            continue
        lines.append(line)
        depth += sum(map(line.count, "{(")) - sum(map(line.count, "})"))
        # A head may be followed by a body, or by a semicolon alone.
        if depth == 0 and line.rstrip().endswith(("}", ";")):
            if not lines[0].lstrip().startswith(".section"):
                yield "\n".join(lines)
            lines = []


def renamed(ptx: str, symbol: str, name: str) -> str:
    """Return PTX in which a symbol has another name."""
    return re.sub(rf"(?<![\w$%]){re.escape(symbol)}(?=(_param_\d+)?(?![\w$]))", name, ptx)


def outside_of_kernels(before: Module, after: Module, symbols: Iterable[str]) -> str:
    """Return what differs that is not code of these kernels, in words; empty if nothing does.

    A variable of the device keeps its size and initial value: any kernel and the host may read it. A function that
    other units may call keeps its code. What is new has no reader yet but the kernels, which are compared.
    """
    reached = {name for module in (before, after) for symbol in symbols for name in module.code(symbol)}
    for name, old in before.parts.items():
        new = after.parts.get(name)
        if old == new or old.kind in ("entry", "shared"):
            continue
        if old.kind == "func" and (name in reached or new is None) and not _is_visible(old):
            # Whoever has its address may call it: kernels that do not change among them.
            if any(_takes_address(part, name) for module in (before, after) for part in module.parts.values()):
                return f"the address of the function {name_of(name)} is taken, and it differs"
            continue
        if new is not None:
            return f"the {_kind(old)} {name_of(name)} differs"
        if _is_visible(old):
            return f"the new version lacks the {_kind(old)} {name_of(name)}"
    return ""


def _takes_address(part: Part, name: str) -> bool:
    """Return whether code or initial values name a function, but for calling it, or declaring it."""
    if not re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", part.text):
        return False
    uses = re.sub(r"\bcall\b[^;]*+;?+|\.func\b[^;{]*+[;{]?+", "", part.text)
    return re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", uses) is not None


def _kind(part: Part) -> str:
    return "function" if part.kind == "func" else "variable"


def _is_visible(part: Part) -> bool:
    return re.search(r"^[^\S\n]*+\.(visible|weak|common)\b", part.text, re.MULTILINE) is not None


def kernels_apart(before: Module, after: Module) -> str:
    """Return which kernels only one version has, in words; empty if both have the same."""
    for first, second, version in ((before, after, "old"), (after, before, "new")):
        if missing := [name_of(symbol) for symbol in first.kernels if symbol not in second.kernels]:
            return f"only the {version} version has the kernel {missing[0]}"
    return ""


def refusal(before: Module, after: Module, symbol: str) -> str:
    """Return why two versions of a kernel are not launched alike, in words; empty if they are."""
    old, new = before.parts[symbol], after.parts[symbol]
    if old.parameters != new.parameters:
        return "the kernel's parameters differ"
    if old.bounds != new.bounds:
        return f"the kernel's launch bounds differ: {old.bounds or 'none'} before, {new.bounds or 'none'} after"
    return ""
