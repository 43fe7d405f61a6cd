"""A kernel's signature: as a source declares it, and as a cubin has it, with axes of block and grid, and limits."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ncu_swizzle.cubin import shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import declared_parameters, demangle, demangle_all, function, parameter_types, spelled
from ncu_swizzle.kernels.arguments import ALIASES
from ncu_swizzle.kernels.family import BYTES, DTYPES
from ncu_swizzle.kernels.project import TODO
from ncu_swizzle.smem.access import MOST_THREADS

# A preprocessed translation unit, split into its declarations, some of which can be left out.
#
# The text is the preprocessor's output: no comments, no macro definitions, and markers ``# 12 "file.cu"`` that say
# where the lines that follow come from. Nothing here knows types: a declaration ends where brackets and semicolons
# end it.

_MARKER = re.compile(r'^#(?:line)?[ \t]+(\d+)[ \t]+"((?:[^"\\\n]|\\.)*)"([ \t\d]*)$', re.MULTILINE)
_TOKEN = re.compile(
    r"""(?P<line>^[ \t]*\#[^\n]*)                                  # a marker or a pragma
    |R"(?P<mark>[^\s()\\]{0,16})\((?:.*?\)(?P=mark)"|.*+)         # a raw string
    |"(?:[^"\\\n]|\\.)*+"?+                                     # a string, to the line's end if nothing ends it
    |(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*+'?+                      # a character; not 1'000
    |(?P<open>[({\[]) | (?P<close>[)}\]]) | (?P<end>;)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b\s*(?P<name>[\w:]*)[^;=]*|extern\s*\"C(?:\+\+)?\"\s*", re.DOTALL)
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\b")
_DEVICE = re.compile(r"__attribute__\(\((?:device|global|constant|managed|shared)\)\)")
_GLOBAL = re.compile(r"__attribute__\(\(global\)\)")
_CALLED = re.compile(r"(?<!\w)(~?\w++)\s*+\(")
_GROUP = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\))*+\)"
_BOUNDS = re.compile(rf"__(?:attribute|launch_bounds)__\s*+{_GROUP}")
UNNAMED = ""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A declaration at namespace scope: its place in the text, the namespaces around it, and its head.

    The head is what stands before the body. An unnamed namespace's name is UNNAMED.
    """

    start: int
    end: int
    scope: tuple[str, ...]
    head: str
    has_body: bool

    @cached_property
    def is_kernel(self) -> bool:
        """Whether it declares a ``__global__`` function."""
        return _GLOBAL.search(self.head) is not None and self.name != ""

    @cached_property
    def is_host_function(self) -> bool:
        """Whether it defines a function that no device code can call."""
        head = self.head
        kept = _DEVICE.search(head) or re.search(r"\bconstexpr\b|\bconsteval\b|\boperator\b", head)
        return self.has_body and not kept and not _TYPE.search(_without_groups(head)) and ")" in head

    @cached_property
    def name(self) -> str:
        """The name of the function that it declares; "" without parameters."""
        match = _CALLED.search(_BOUNDS.sub(" ", _without_template(self.head)).partition("=")[0])
        return match[1] if match else ""

    @property
    def parameters(self) -> str:
        """The text of a function's parameters."""
        head = _BOUNDS.sub(" ", _without_template(self.head))
        match = _CALLED.search(head)
        return head[match.end() : head.rfind(")")] if match else ""

    @property
    def is_template(self) -> bool:
        """Whether it is a template with parameters, not one of its instances or specializations."""
        return re.match(r"\s*template\s*<\s*[^>\s]", self.head) is not None

    @property
    def template_parameters(self) -> list[str]:
        """The template's parameters as they are declared."""
        match = re.match(r"\s*template\s*<", self.head)
        if match is None:
            return []
        inner = self.head[match.end() : closing_angle(self.head, match.end())]
        return [part for part in (" ".join(argument.split()) for argument in split_arguments(inner)) if part]


def _without_template(head: str) -> str:
    match = re.match(r"\s*template\s*<", head)
    return head[closing_angle(head, match.end()) + 1 :] if match else head


def _without_groups(head: str) -> str:
    """Return a head without what is in brackets, and without its template's parameters."""
    text = _without_template(head)
    while (fewer := re.sub(r"\([^()]*\)|<[^<>]*>", " ", text)) != text:
        text = fewer
    return text


def closing_angle(text: str, start: int) -> int:
    """Return the index of the ``>`` that closes a ``<`` just before `start`; the end of the text without one."""
    depth, rounds = 1, 0
    for index in range(start, len(text)):
        letter = text[index]
        if letter in "([{":
            rounds += 1
        elif letter in ")]}":
            rounds -= 1
        elif rounds == 0 and letter == "<":
            depth += 1
        elif rounds == 0 and letter == ">" and text[index - 1] != "-":
            depth -= 1
            if depth == 0:
                return index
    return len(text)


def split_arguments(text: str) -> list[str]:
    """Return arguments, split at the commas outside of all brackets, ``<>`` too."""
    parts, start, depth = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[index - 1 : index] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


@dataclass(frozen=True)
class _Region:
    """Consecutive lines of one file: where they start in the text, the number of the first, and whose they are."""

    start: int
    file: str
    line: int
    foreign: bool


class PreprocessedUnit:
    """The preprocessor's output, with its declarations and the lines that they come from."""

    def __init__(self, text: str, is_own: Callable[[str], bool] = lambda file: True) -> None:
        """Split the text; `is_own` says whether declarations of a file count."""
        self.text = text
        self._regions = [
            _Region(match.end() + 1, match[2], int(match[1]), "3" in match[3].split() or not is_own(match[2]))
            for match in _MARKER.finditer(text)
        ]
        self._starts = [region.start for region in self._regions]

    @cached_property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declarations of the user's files, in order."""
        return tuple(each for each in _declarations(self.text) if not self.is_foreign(each))

    def place(self, offset: int) -> tuple[str, int]:
        """Return the file and the line that a character comes from."""
        number = bisect_right(self._starts, offset) - 1
        if number < 0:
            return "", 0
        region = self._regions[number]
        return region.file, region.line + self.text.count("\n", region.start, offset)

    def is_foreign(self, declaration: Declaration) -> bool:
        """Return whether a declaration comes from a header of the system or the toolkit."""
        number = bisect_right(self._starts, self.first_word(declaration)) - 1
        return number >= 0 and self._regions[number].foreign

    def first_word(self, declaration: Declaration) -> int:
        """Return the offset of a declaration's first word."""
        at = declaration.start
        while at < declaration.end:
            match = re.compile(r"\s+|^#[^\n]*", re.MULTILINE).match(self.text, at)
            if match is None or match.end() == at:
                break
            at = match.end()
        return at

    def offsets(self, file: str, line: int) -> list[int]:
        """Return where a file's line is in the text: nowhere, once, or as often as the file was included."""
        starts = []
        for number, region in enumerate(self._regions):
            if region.file != file or region.line > line:
                continue
            end = self._regions[number + 1].start if number + 1 < len(self._regions) else len(self.text)
            at = region.start
            for _ in range(line - region.line):
                at = self.text.find("\n", at, end) + 1
                if at == 0:
                    break
            if at and at < end:
                starts.append(at)
        return starts

    def covering(self, file: str, line: int) -> list[Declaration]:
        """Return the declarations that a file's line is a part of."""
        spans = [(at, self.text.find("\n", at) % (len(self.text) + 1)) for at in self.offsets(file, line)]
        return [
            each for each in self.declarations for at, end in spans if self.first_word(each) <= end and each.end > at
        ]

    def without(self, left_out: Collection[Declaration]) -> str:
        """Return the text without some declarations; all lines keep their numbers."""
        parts, at = [], 0
        for each in sorted(left_out, key=lambda each: each.start):
            if each.start < at:
                continue
            parts.append(self.text[at : each.start])
            lines = self.text[each.start : each.end].split("\n")
            parts.append("\n".join(line if line.lstrip().startswith("#") else "" for line in lines))
            at = each.end
        return "".join([*parts, self.text[at:]])


def _declarations(text: str) -> Iterator[Declaration]:
    """Yield the declarations of a text, at namespace scope, in order."""
    scopes: list[tuple[str, ...]] = []  # of the open namespaces
    start, depth, body = 0, 0, -1

    def declaration(end: int) -> Declaration:
        scope = tuple(name for names in scopes for name in names)
        head = _without_markers(text[start : body if body >= 0 else end])
        return Declaration(start=start, end=end, scope=scope, head=head, has_body=body >= 0)

    for token in _TOKEN.finditer(text):
        if token["open"]:
            if depth == 0 and token["open"] == "{":
                head = _without_markers(text[start : token.start()])
                if match := _NAMESPACE.fullmatch(head):
                    names = (match["name"] or "").split("::") if head.startswith(("namespace", "inline")) else []
                    scopes.append(tuple(names))
                    start, body = token.end(), -1
                    continue
                if body < 0:
                    body = token.start()
            depth += 1
        elif token["close"]:
            if depth == 0:
                if token["close"] == "}" and scopes:  # a namespace ends
                    scopes.pop()
                    start, body = token.end(), -1
                continue
            depth -= 1
            if depth == 0 and token["close"] == "}" and _ends_here(text, start, body, token.end()):
                yield declaration(token.end())
                start, body = token.end(), -1
        elif token["end"] and depth == 0:
            yield declaration(token.end())
            start, body = token.end(), -1


def _without_markers(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#")).strip()


def _ends_here(text: str, start: int, body: int, end: int) -> bool:
    """Return whether a closing brace ends a declaration: a function's does, a class's or an initializer's does not."""
    following = re.compile(r"\s*(?:^#[^\n]*\s*)*(.?)", re.MULTILINE).match(text, end)
    if following and following[1] in (";", ",", "{"):
        return False
    head = _without_template(text[start:body])
    bare = _without_groups(head)
    is_function = ")" in head and not re.search(r"(?<![=!<>])=(?!=)", re.sub(r"operator\s*\S+", "", bare))
    return is_function or not (_TYPE.search(bare) or "=" in bare)


# What a compiled kernel tells about its launch: parameters, axes of block and grid, limits.
#
# Sizes and the number of parameters are the cubin's. Types are in a C++ function's mangled name, or else in the source,
# names in the source alone; PTX, if the cubin keeps it, says which 64-bit parameters are pointers.

POINTER = 8  # bytes
REGISTERS = 64 * 1024  # of an SM
WARP = 32

# C++ types as NumPy's dtypes; any other (float4, structures) has none.
TYPES = {
    "float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "bool": "bool",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16",
    "int": "int32", "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64",
    "long long": "int64", "unsigned long long": "uint64",
}  # fmt: skip
_THREAD = re.compile(r"\b(?:threadIdx|blockDim)\s*\.\s*([xyz])\b")
_BLOCK = re.compile(r"\b(?:blockIdx|gridDim)\s*\.\s*([xyz])\b")
_SASS_THREAD, _SASS_BLOCK = re.compile(r"\bsr_tid\.([xyz])\b"), re.compile(r"\bsr_ctaid\.([xyz])\b")
_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|u?longlong|float|double)([1-4])")
_PAIRS = {"__half2": "float16", "half2": "float16", "__nv_bfloat162": "bfloat16"}
_NAMED = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+(?:\[[^][]*+\]\s*+)*+(?:=.*)?$", re.DOTALL)


@dataclass(frozen=True)
class SignatureParameter:
    """A parameter: its size in bytes; name, C++ type and PTX kind if known, else empty."""

    size: int
    name: str = ""
    type: str = ""
    kind: str = ""

    @property
    def pointee(self) -> str | None:
        """The type that it points to, "" if unknown; None if it is not a pointer."""
        pointee = pointee_of(self.type)
        if pointee is None and self.size == POINTER and (self.kind == "pointer" or not (self.type or self.kind)):
            return ""
        return pointee

    @property
    def read_only(self) -> bool:
        """Whether what it points to is const."""
        return "const" in (self.pointee or "")


@dataclass(frozen=True, kw_only=True)
class KernelSignature:
    """A kernel: its function, parameters, axes of block and grid in use, and limits of its launch."""

    symbol: str
    function: str  # as --kernel takes it
    parameters: tuple[SignatureParameter, ...]
    block_axes: int = 1
    grid_axes: int = 1
    dynamic_shared: bool = False
    static_shared: int = 0
    max_threads: int = MOST_THREADS
    required_block: tuple[int, ...] = ()


def signature_of(cubin: Cubin, symbol: str, source: str = "", disassembled: Callable[[], str] = str) -> KernelSignature:
    """Return a kernel's signature; `source` is the text that declares it, `disassembled` returns its SASS."""
    attributes = cubin.attributes(symbol)
    name = demangle(symbol)
    entry = shared_arrays.entry_in(shared_arrays.embedded(cubin), symbol)
    if entry is None:
        entry = _from_sass(disassembled(), symbol, attributes.static_shared)
    sizes = [slot.size for slot in attributes.parameters]
    declared = declared_parameters(source, function(name), len(sizes))
    types = _fitting(parameter_types(name) or (), sizes) or [_without_name(text) for text in declared]
    names = [_name(text) for text in declared]
    columns = (_fitting(texts, sizes) or [""] * len(sizes) for texts in (names, types, entry.kinds))
    block_axes, grid_axes = entry.threads, entry.blocks
    if source:  # cooperative groups ask for every axis, the source does not
        block_axes = min(block_axes, shared_arrays.axes_of(_THREAD, source))
        grid_axes = min(grid_axes, shared_arrays.axes_of(_BLOCK, source))
    # A warp gets registers in units of 256, so a thread gets 8, 16, …
    by_registers = REGISTERS // max(-(-attributes.registers // 8) * 8, 1) // WARP * WARP
    return KernelSignature(
        symbol=symbol,
        function=spelled(name, demangle_all(cubin.kernels).values()),
        parameters=tuple(SignatureParameter(*row) for row in zip(sizes, *columns, strict=True)),
        block_axes=block_axes,
        grid_axes=grid_axes,
        dynamic_shared=entry.dynamic_shared,
        static_shared=attributes.static_shared,
        max_threads=min(attributes.max_threads or MOST_THREADS, MOST_THREADS, by_registers),
        required_block=attributes.required_block,
    )


def _from_sass(text: str, symbol: str, static_shared: int) -> shared_arrays.PtxEntry:
    """Return what the disassembly says: without static shared memory, an access to shared memory is to dynamic."""
    start = text.find(f".text.{symbol}:")
    end = text.find(".section", start) if start >= 0 else -1
    code = text[start : end if end > 0 else len(text)].lower() if start >= 0 else ""
    threads, blocks = (shared_arrays.axes_of(pattern, code) for pattern in (_SASS_THREAD, _SASS_BLOCK))
    shared = re.search(r"\b(lds|sts|ldsm|stsm|atoms|ldgsts)\b", code) is not None
    return shared_arrays.PtxEntry(kinds=(), threads=threads, blocks=blocks, dynamic_shared=shared and not static_shared)


def _fitting(texts: Sequence[str], sizes: Sequence[int]) -> Sequence[str]:
    return texts if len(texts) == len(sizes) else ()


def _name(declaration: str) -> str:
    match = _NAMED.search(declaration)
    return match[1] if match else ""


def _without_name(declaration: str) -> str:
    match = _NAMED.search(declaration)
    return declaration[: match.start()].strip() if match else declaration


def pointee_of(type_: str) -> str | None:
    """Return the type that a pointer or reference points to; None for any other type."""
    bare = re.sub(r"\b(__restrict__|__restrict|const|volatile)\s*$", "", type_.strip()).strip()
    return bare[:-1].strip() if bare.endswith(("*", "&")) else None


def dtype_of(type_: str) -> str | None:
    """Return the dtype of a C++ type, as mangled names or sources spell it; None for a type that has none."""
    bare = " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split()).removeprefix("std::")
    fixed = bare.removesuffix("_t")
    return TYPES.get(bare) or ALIASES.get(bare) or (fixed if fixed in DTYPES else None)


def vector_of(type_: str) -> tuple[str, int] | None:
    """Return dtype and length of one of CUDA's vector types, such as float4; None for any other type."""
    bare = " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split())
    if bare in _PAIRS:
        return _PAIRS[bare], 2
    if match := _VECTOR.fullmatch(bare):
        unsigned = "unsigned " if match[1].startswith("u") else ""
        base = match[1].removeprefix("u").replace("longlong", "long long")
        return TYPES[f"{unsigned}{base}" if unsigned + base in TYPES else base], int(match[2])
    return None


# What of an argument the signature tells. TODO is in place of the rest: a shape, a value.

KINDS = {"f": {2: "float16", 4: "float32", 8: "float64"}, "": {1: "int8", 2: "int16", 4: "int32", 8: "int64"}}


def arguments(parameters: Sequence[SignatureParameter]) -> list[tuple[str, str]]:
    """Return a --arg text for each parameter, with TODO for what is not known, and what that is."""
    names = [parameter.name or f"a{number}" for number, parameter in enumerate(parameters, 1)]
    distinct = [name if names.count(name) == 1 else f"a{number}" for number, name in enumerate(names, 1)]
    return [_argument(parameter, name) for parameter, name in zip(parameters, distinct, strict=True)]


def _argument(parameter: SignatureParameter, name: str) -> tuple[str, str]:
    pointee = parameter.pointee
    if pointee is None:
        dtype = _scalar_dtype(parameter)
        if dtype is None:
            return f"{name}={BYTES}:{TODO}", f"a file with {parameter.size} bytes"
        return f"{name}={dtype}:{TODO}", "value"
    dtype, length = vector_of(pointee) or (dtype_of(pointee), 1)
    what = "shape"
    if dtype is None:
        dtype, what = ("uint8", f"shape, of bytes of {pointee},") if pointee else (TODO, "type, shape")
    if parameter.read_only and dtype[0] in "fb" and dtype != "bool":  # as good as any others, mostly
        fill = "random"
    else:
        fill = TODO
        what += " and contents" if parameter.read_only else " and contents, or out"
    return f"{name}={dtype}[{TODO if length == 1 else f'{TODO},{length}'}]:{fill}", what


def _scalar_dtype(parameter: SignatureParameter) -> str | None:
    """Return the dtype of a parameter passed by value; None for a struct."""
    if parameter.kind == "struct" and not dtype_of(parameter.type):
        return None
    dtype = dtype_of(parameter.type)
    return dtype or (KINDS["f" if parameter.kind == "f" else ""].get(parameter.size) if not parameter.type else None)
