"""PTX as text: functions, their instructions with source lines, and symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ncu_swizzle.certify.verdict import Location

BITS = {"pred": 1, "f16x2": 32, "bf16": 16, "bf16x2": 32, "tf32": 32, "e4m3x2": 16, "e5m2x2": 16} | {
    f"{kind}{bits}": bits for kind in "busf" for bits in (8, 16, 32, 64, 128)
}
SPACES = ("shared", "global", "const", "local", "param")


class Unfollowed(Exception):
    """What the checker does not follow: a sentence without its full stop, and the line that it is about."""

    def __init__(self, reason: str, line: Location | None = None) -> None:
        super().__init__(reason)
        self.line = line


class Different(Unfollowed):
    """The versions differ in more than addresses."""


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction, such as ``@!%p1 ld.f32 %f1, [%rd1+4];``."""

    opcode: str
    operands: tuple[str, ...]
    guard: str = ""  # a predicate; empty if it is always executed
    negated: bool = False
    line: Location | None = None
    inline: bool = False  # of an asm statement, which the compiler takes as it is
    path: str = ""  # once calls are inlined: those that lead to it

    @property
    def parts(self) -> list[str]:
        return self.opcode.split(".")

    @property
    def type(self) -> str:
        """Its last type, such as f32; empty if it has none."""
        return next((part for part in reversed(self.parts) if part in BITS), "")

    def results(self) -> list[str]:
        """Return the registers that it writes. What is in brackets first is memory, not a result."""
        head = self.parts[0]
        without = head in NO_RESULT and "red" not in self.parts  # a barrier may count predicates
        if not self.operands or without or self.operands[0].startswith("["):
            return []
        if self.opcode.startswith(("wmma.store", "mbarrier.init", "mbarrier.inval", "tcgen05.dealloc", "stackrestore")):
            return []
        return [name for part in elements(self.operands[0]) for name in part.split("|")]  # "_" is one that is dropped


# Without a result, although their first operand is not in brackets.
NO_RESULT = frozenset(
    """bar barrier bra ret exit trap brkpt call discard fence griddepcontrol membar nanosleep pmevent prefetch
    setmaxnreg cp""".split()  # noqa: SIM905
)


@dataclass(frozen=True, kw_only=True)
class PtxSymbol:
    """A variable outside of functions, or a shared or local one within: its space, bytes and alignment."""

    name: str
    space: str
    size: int  # 0 for an array of which the launch says how long it is
    align: int
    initial: str = ""  # what initialises a variable of the module
    data: bytes | None = None  # that, if it is numbers


@dataclass(kw_only=True)
class PtxFunction:
    """A function: its instructions and labels in order, and the widths of its registers."""

    name: str
    entry: bool
    parameters: tuple[str, ...]
    returns: tuple[str, ...]
    threads: tuple[int, int, int] | None = None  # that .reqntid states
    body: list[PtxInstruction | str] = field(default_factory=list)  # a str is a label
    registers: dict[str, int] = field(default_factory=dict)  # bits
    objects: set[str] = field(default_factory=set)  # .param and .local variables


OTHER = "statement"


@dataclass(frozen=True)
class Part:
    """A function, a variable or a declaration at the top of a module: its kind, and its text without line numbers."""

    kind: str  # entry, func, the state space of a variable, or OTHER, of which nothing is known but the text
    text: str

    @property
    def bounds(self) -> str:
        """The directives between a kernel's parameters and its body, such as .maxntid."""
        return self.text.partition("{")[0].rpartition(")")[2].strip("; \n")

    @property
    def parameters(self) -> list[str]:
        """The kinds, sizes and alignments of a kernel's parameters."""
        return _PARAMETER.findall(self.text.partition("{")[0])


@dataclass(kw_only=True, eq=False)
class Module:
    """The functions, variables and declarations of a PTX file."""

    ptx: str = ""
    functions: dict[str, PtxFunction] = field(default_factory=dict)
    symbols: dict[str, PtxSymbol] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)  # of a function that is declared, too, both texts

    def shared(self) -> list[PtxSymbol]:
        return [symbol for symbol in self.symbols.values() if symbol.space == "shared"]

    @property
    def kernels(self) -> list[str]:
        return [name for name, function in self.functions.items() if function.entry]

    def code(self, symbol: str) -> dict[str, str]:
        """Return the texts of a kernel and of all that it names, and that names, by symbol."""
        texts: dict[str, str] = {}
        waiting = [symbol]
        while waiting:
            name = waiting.pop()
            if name not in texts and name in self.parts:
                texts[name] = self.parts[name].text
                waiting += _WORD.findall(texts[name])
        return texts

    def add(self, kind: str, name: str, statements: Sequence[str]) -> None:
        """Enter a part by its statements."""
        said = (_LINE.sub(r"\1", statement) for statement in statements if statement not in INLINE)
        text = ";\n".join(" ".join(each.split()) for each in said if each)
        self.parts[name] = Part(kind, f"{self.parts[name].text}\n{text}" if name in self.parts else text)


def elements(operand: str) -> list[str]:
    """Return the elements of an operand in braces, or the operand itself."""
    return split(operand[1:-1]) if operand.startswith("{") else [operand]


def split(text: str) -> list[str]:
    """Split a text at commas outside of brackets."""
    fields, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and depth == 0:
            fields.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*fields, last] if last else fields


_DEPOT = re.compile(r"(__local_depot)\d+")
_UNIT = re.compile(r"(\d{1,4})(_INTERNAL_[0-9a-f]{8}_)")
_COMMENT = re.compile(
    r'(?P<string>"[^"\n]*")|// (?P<asm>begin|end) inline asm[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL
)
_LABELS = r"(?:\s*+[%$\w]++\s*+:(?!:))"
_LABEL_HERE = r"(?:[^\S\n]*+[%$\w]++[^\S\n]*+:(?!:))"
_LINE = re.compile(rf"^({_LABEL_HERE}*+)[^\S\n]*+\.(?:loc|file|version|target|address_size)\b[^\n]*+", re.MULTILINE)
_STATEMENT = re.compile(
    rf"""\s*+(?:
    (?P<section> \.section\b[^{{}};]*+\{{[^{{}}]*+\}} )  # of debug information
    | (?P<brace> [{{}}] )                                # of a scope
    | (?P<labels> {_LABELS}++ )(?=\s*+[{{}}])
    | (?P<header> (?:\.(?!entry|func)\w++\s++)*+\.(?:entry|func)\b[^{{}};]*+ )(?=\{{)
    | (?P<statement> (?:[^{{}};"] | "[^"\n]*+" | \{{(?:[^{{}}]|\{{[^{{}}]*+\}})*+\}})*+ )(?:;|(?=\}})|\Z)
    )""",
    re.VERBOSE,
)
_PARAMETER = re.compile(r"\.param\s++((?:\.(?!param)\w++\s++(?:\d++\s++)?)++)[\w$]++(\[\d++\])?")
_WORD = re.compile(r"[\w$]+")
_LABEL = re.compile(r"\s*+([%$\w]++)\s*+:(?!:)\s*+")
_HEADER = re.compile(
    r"\.(entry|func)\s*+(?:\((?P<returns>[^()]*+)\))?\s*+(?P<name>[$\w]++)\s*+"
    r"(?:\((?P<parameters>[^()]*+)\))?(?P<rest>.*)",
    re.DOTALL,
)
_DECLARED = re.compile(
    r"(?:\.\w+\s+)*?\.(?P<space>shared|global|const|local)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$.%]+)(?P<dims>(?:\[\d*\])*)"
    r"(?:\s*=\s*(?P<initial>.*))?",
    re.DOTALL,
)
_NAME = re.compile(r"%?[A-Za-z_$][\w$]*(?:\.[a-z](?![\w]))?")
_GUARD = re.compile(r"@(!?)\s*([%$\w#]+)\s+")
# Who writes asm may put a tab, a line's end or nothing between opcode and operands; blanks within an opcode, and names
# of registers that are also words of opcodes, are not read.
_OPCODE = re.compile(r"(?P<opcode>[a-z][\w.:]*+)(?![#$])\s*+(?![.:])(?P<operands>.*)", re.DOTALL)

UNREAD = "unread"  # in place of an opcode
INLINE = (".inline begin", ".inline end")  # for the comments that the compiler puts around asm statements


def _statements(text: str) -> Iterator[str]:
    """Yield what semicolons, braces of scopes and the ends of line directives separate; braces by themselves.

    Raises ValueError for what is no statement.
    """

    def plain(found: re.Match[str]) -> str:
        return found["string"] or (f".inline {found['asm']};" if found["asm"] else " ")

    text, at = _LINE.sub(r"\g<0>;", _COMMENT.sub(plain, text)), 0
    while at < len(text):
        found = _STATEMENT.match(text, at)
        if found is None or found.end() == at:
            raise ValueError(f"this is not PTX: {text[at : at + 40].strip()!r}")
        at = found.end()
        if not found["section"] and (statement := found[0].strip("; \t\r\n")):
            yield statement


def _without_unit(text: str) -> str:
    """Return the text with internal names that depend neither on the path of the file nor on how many functions it has.

    A compiler puts them in a namespace named after a hash of the path, which a mangled name has with its length.
    """
    text = _DEPOT.sub(r"\1", text)
    parts, at = list[str](), 0
    for match in _UNIT.finditer(text):
        parts += text[at : match.start()], "10_INTERNAL__"
        at = match.start(2) + int(match[1])
    return "".join(parts) + text[at:]


@lru_cache(4)  # a unit's kernels come one after the other
def parse(text: str) -> Module:
    """Return the module; raise ValueError for text that is not PTX."""
    if text and not re.search(r"^[^\S\n]*+\.version\s", text, re.MULTILINE):
        raise ValueError("this is not PTX: it has no .version")
    module = Module(ptx=text)
    files = dict(re.findall(r'^[^\S\n]*+\.file[^\S\n]++(\d++)[^\S\n]++"([^"\n]*+)"', text, re.MULTILINE))
    reader: _FunctionReader | None = None
    pending: PtxFunction | None = None
    told: list[str] = []  # the statements of a function
    for statement in _statements(_without_unit(text)):
        if reader is not None:
            told.append(statement)
            if not reader.read(statement):
                module.functions[reader.function.name] = reader.function
                module.add("entry" if reader.function.entry else "func", reader.function.name, told)
                reader = None
        elif statement == "{":
            if pending is None:
                raise ValueError("this is not PTX: a brace opens outside of a function")
            reader, pending = _FunctionReader(pending, module.symbols, files), None
            told.append(statement)
        elif header := _HEADER.search(statement):
            if pending is not None:  # which is declared
                module.add("func", pending.name, told)
            pending, told = _function(header), [statement]
        elif not _LINE.match(statement):
            symbol = _declare(statement, module.symbols)
            module.add(symbol.space if symbol else OTHER, symbol.name if symbol else statement, [statement])
    if pending is not None:
        module.add("func", pending.name, told)
    return module


def _function(header: re.Match[str]) -> PtxFunction:
    def names(text: str | None) -> tuple[str, ...]:
        found = (re.search(r"(?<![\w$])([\w$]++)(?:\[\d*+\])?\s*+$", part) for part in split(text or ""))
        return tuple(match[1] for match in found if match)

    threads = re.search(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", header["rest"])
    return PtxFunction(
        name=header["name"],
        entry=header[1] == "entry",
        parameters=names(header["parameters"]),
        returns=names(header["returns"]),
        threads=(int(threads[1]), int(threads[2] or 1), int(threads[3] or 1)) if threads else None,
    )


def _declare(statement: str, symbols: dict[str, PtxSymbol]) -> PtxSymbol | None:
    """Enter the variable that a statement declares, if it declares one."""
    found = _DECLARED.match(statement)
    if found is None or found["type"] not in BITS:
        return None
    width = BITS[found["type"]] // 8
    size = width
    for dimension in re.findall(r"\[(\d*)\]", found["dims"]):
        size *= int(dimension or 0)
    initial = " ".join((found["initial"] or "").split())
    numbers = initial.strip("{}")  # a list of them, or one
    data: bytes | None = None
    if initial and re.fullmatch(r"[\s\d,-]*", numbers):
        values = [int(value) % (1 << 8 * width) for value in split(numbers)]
        data = b"".join(value.to_bytes(width, "little") for value in values).ljust(size, b"\0")
    symbol = PtxSymbol(
        name=found["name"],
        space=found["space"],
        size=size,
        align=int(found["align"] or width),
        initial=initial,
        data=data,
    )
    symbols[symbol.name] = symbol
    return symbol


class _FunctionReader:
    """Reads the statements of one function's body. Names that an inner scope declares are renamed."""

    def __init__(self, function: PtxFunction, symbols: dict[str, PtxSymbol], files: dict[str, str]) -> None:
        self.function, self._symbols, self._files = function, symbols, files
        self._scopes: list[dict[str, str]] = [{}]
        self._starts = [0]  # where each scope's instructions begin
        self._count, self._inline = 0, False
        self._line: Location | None = None

    def read(self, statement: str) -> bool:
        """Take a statement; return False if it is the function's last brace."""
        if statement == "{":
            self._count += 1
            self._scopes.append({})
            self._starts.append(len(self.function.body))
        elif statement in INLINE:
            self._inline = statement == INLINE[0]
        elif statement == "}":
            self._scopes.pop()
            self._close_labels(self._starts.pop())
            return bool(self._scopes)
        else:
            self._labelled(statement)
        return True

    def _close_labels(self, start: int) -> None:
        """Rename the labels of a scope that ends: another one may have the same."""
        body = self.function.body
        own = {item: f"{item}#{start}" for item in body[start:] if isinstance(item, str)} if self._scopes else {}
        for at in range(start, len(body) if own else start):
            item = body[at]
            if isinstance(item, str):
                body[at] = own[item]
            elif item.opcode.startswith("bra") and item.operands[0] in own:
                body[at] = replace(item, operands=(own[item.operands[0]],))

    def _labelled(self, statement: str) -> None:
        while label := _LABEL.match(statement):
            statement = statement[label.end() :]
            if statement.startswith((".callprototype", ".calltargets", ".branchtargets")):
                return
            self.function.body.append(self._renamed(label[1]))
        if statement.startswith("."):
            self._declare(statement)
        elif statement:
            self._instruction(self._renamed(statement))

    def _renamed(self, text: str) -> str:
        def meant(match: re.Match[str]) -> str:
            return next((scope[match[0]] for scope in reversed(self._scopes) if match[0] in scope), match[0])

        return _NAME.sub(meant, text) if any(self._scopes) else text

    def _named(self, name: str) -> str:
        if len(self._scopes) == 1:
            return name
        self._scopes[-1][name] = f"{name}#{self._count}"
        return self._scopes[-1][name]

    def _declare(self, statement: str) -> None:
        if found := re.match(r"\.loc\s+(\d+)\s+(\d+)", statement):
            line = Location(self._files.get(found[1], found[1]), int(found[2]))
            self._line = line if line.line else self._line
        elif (found := re.match(r"\.reg\s*\.(\w+)\s+(.*)", statement, re.DOTALL)) and found[1] in BITS:
            for declared in split(found[2]):
                stem, _, numbers = declared.rstrip("> ").partition("<")
                for name in [f"{stem}{n}" for n in range(int(numbers))] if numbers else [stem]:
                    self.function.registers[self._named(name)] = BITS[found[1]]
        elif found := re.match(r"\.param\s+(?:\.align\s+\d+\s+)?\.\w+\s+([\w$]+)", statement):
            self.function.objects.add(self._named(found[1]))
        else:
            count = len(self._symbols)
            symbol = _declare(statement, self._symbols)
            if symbol is not None and symbol.space == "local":
                self.function.objects.add(symbol.name)
            elif symbol is not None and len(self._symbols) == count:  # scopes of asm have arrays of their own
                raise ValueError(f"{symbol.name} is declared twice")

    def _instruction(self, text: str) -> None:
        guard, negated = "", False
        if match := _GUARD.match(text):
            guard, negated, text = match[2], bool(match[1]), text[match.end() :]
        match = _OPCODE.fullmatch(text)
        opcode, rest = (match["opcode"], match["operands"]) if match else (UNREAD, text)
        operands = tuple(" ".join(part.split()) for part in split(rest))
        self.function.body.append(PtxInstruction(opcode, operands, guard, negated, self._line, self._inline))
