"""A kernel's code from nvdisasm's output, and its instructions: opcode, modifiers, guard and operands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

from ncu_swizzle.base.errors import BadFile, UnknownKernel
from ncu_swizzle.smem.access import RESERVED_BYTES
from ncu_swizzle.smem.opcodes import Copy, Opcode, row

# The machine code of one kernel, from nvdisasm's output.


STEP = 16  # bytes of an instruction

# Where an emulation has memory that a launch does not name. These addresses are beyond the 47 bits in which a process
# has its memory: a captured launch has those of a real one.
STACK_TOP = 0x00FFFDC0  # the end of local memory, which c[0x0][0x28] holds
SHARED_WINDOW = 0x00008001  # the upper halves of generic addresses, of shared and of local memory
LOCAL_WINDOW = 0x00008002
PARAMETER_WINDOW = 0x00008003_00000000  # generic address of constant bank 0, whose parameters a kernel may point to
# Of the first function that the driver supplies; its lower half is beyond the end of any kernel.
EXTERNALS = 0x8005_F000_0000
LOW = 0xFFFFFFFF  # the half of an address that indirect jumps are followed by
_GUARDRAIL = "guardrail_trap"

Span = tuple[int, int]  # from the first byte to before the last

_LINE = re.compile(r"^\s*+/\*([0-9a-f]{4,}+)\*/\s++([^;\s]*+(?:\s++[^;\s]++)*+)\s*+;")
_LABEL = re.compile(r"^([.$\w][^\s:]*):\s*$")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_OTHER_SECTION = re.compile(r"^\s*\.section\s+(?!\.text\.)|^//-+ (?!\.text\.)")
_REFERENCE = re.compile(r"`\(([^()]+)\)")
_ADDRESS_HALF = re.compile(r"(?:fun|func|tex|32)@(lo|hi)\(\(?([^()\s]+)(?:\s*\+\s*([^()\s]+?))?(?:@srel)?\)?\)")
_LOADS_TENSOR = re.compile(r"\bLDTM\b")
_COUNTED_BOARD = re.compile(r"(?<![\w.])DEPBAR[.\w]*+ SB([0-5])")
_SELECTED_NAN = re.compile(r"^((?:@!?U?P\w++ )?U?FSEL [^@]*?)[-+][QS]NAN")
_BRANCH_TARGETS = re.compile(r"\(\*\"BRANCH_TARGETS ([^\"]+)\"\*\)")


@dataclass(frozen=True)
class Sass:
    """One instruction: its offset in bytes from the code's start, and its text with offsets in place of labels."""

    offset: int
    text: str
    targets: tuple[int, ...] = ()  # of an indirect branch, if the disassembler lists them


@dataclass(frozen=True, kw_only=True)
class ClusterConstants:
    """Where constant bank 0 holds what %cluster_nctaid, %nclusterid and their like read."""

    explicit: int
    extents: int  # three words, and the three inverses as floats
    inverses: int
    clusters: int  # of the grid, three words
    size: int
    parameters: int  # the generic address of the parameters, 8 bytes
    dynamic: int  # bytes of dynamic shared memory
    # Bytes before these, the same for a second cluster size of the launch: SR_CgaSize selects it (sm_100).
    second: int = 0


@dataclass(frozen=True, kw_only=True)
class LaunchConstants:
    """Where constant bank 0 holds the launch: block and grid, three words each, and the end of local memory."""

    block: int = 0x0
    grid: int = 0xC
    stack: int = 0x28
    cluster: ClusterConstants | None = None


# By the start of parameters: 0x160 up to sm_89, 0x210 on sm_90, 0x380 from sm_100 on. Found in what ptxas 13.0 emits
# for reads of the special registers.
_HOPPER_PARAMETERS, _BLACKWELL_PARAMETERS = 0x210, 0x380
_LAUNCH_CONSTANTS = {
    _HOPPER_PARAMETERS: LaunchConstants(
        cluster=ClusterConstants(
            explicit=0x140, extents=0x144, inverses=0x150, clusters=0x15C, size=0x188, parameters=0x198, dynamic=0x2C
        )
    ),
    _BLACKWELL_PARAMETERS: LaunchConstants(
        block=0x360,
        grid=0x370,
        stack=0x37C,
        cluster=ClusterConstants(
            explicit=0x36C,
            extents=0x2A0,
            inverses=0x2B0,
            clusters=0x2C0,
            size=0x2CC,
            parameters=0x348,
            dynamic=0x2AC,
            second=0xA0,
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Code:
    """One kernel's instructions, including the functions that it calls, and what is known before launch."""

    name: str
    instructions: tuple[Sass, ...]
    constants: Mapping[int, bytes] = field(default_factory=dict)  # bank → content; bank 0 comes with the launch
    shared_bytes: int = RESERVED_BYTES  # static, including the reserved bytes (the size of .nv.shared.<name>)
    parameter_offset: int = 0x210  # in constant bank 0
    parameter_bytes: int = 0
    unknown_constants: Mapping[int, Sequence[Span]] = field(default_factory=dict)  # bank → bytes that are unknown
    externals: Mapping[int, str] = field(default_factory=dict)  # address → function that is not part of the module
    guardrails: Mapping[int, str] = field(default_factory=dict)  # offset → where a check of tcgen05 traps
    functions: Mapping[int, str] = field(default_factory=dict)  # those that the kernel calls, by where they begin
    # offset → the tcgen05.ld, by offset, whose scoreboards an instruction waits for; none of a tcgen05.ld itself
    awaited: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @property
    def launch_constants(self) -> LaunchConstants:
        return _LAUNCH_CONSTANTS.get(self.parameter_offset, LaunchConstants())


def from_disassembly(
    text: str,
    name: str,
    *,
    constants: Mapping[int, bytes] | None = None,
    shared_bytes: int = RESERVED_BYTES,
    parameter_offset: int = 0x210,
    parameter_bytes: int = 0,
    unknown_constants: Mapping[int, Sequence[Span]] | None = None,
    symbols: Mapping[str, int] | None = None,
    externals: Mapping[int, str] | None = None,
    machine: bytes = b"",
) -> Code:
    """Return the kernel of that name from the output of ``nvdisasm -c``.

    `symbols` maps what instructions refer to by name to its address: global variables and external functions; `machine`
    is the kernel's section. Raises UnknownKernel if the text has no such kernel, BadFile if it has no instructions or a
    label is missing.
    """
    sections = _sections(text)
    if name not in sections:
        kernels = ", ".join(sections) or "none"
        raise UnknownKernel(f"no kernel {name!r} in the disassembly", f"its kernels: {kernels}")
    lines, labels = _joined_sections(name, sections)
    if not lines:
        raise BadFile(f"the code of {name!r} has no instructions", "compile it again")
    return Code(
        name=name,
        instructions=tuple(
            _resolved(offset, with_bits_of_nan(body, machine[offset : offset + STEP]), labels, symbols or {})
            for offset, body in lines
        ),
        constants=dict(constants or {}),
        shared_bytes=shared_bytes,
        parameter_offset=parameter_offset,
        parameter_bytes=parameter_bytes,
        unknown_constants=dict(unknown_constants or {}),
        externals=dict(externals or {}),
        guardrails={offset: label for label, offset in labels.items() if _GUARDRAIL in label},
        # Every other label marks a place within a function (.L_x_7), or a section (.text.NAME).
        functions={offset: label for label, offset in labels.items() if label[0] != "." and label != name},
        awaited=_awaited_loads(lines, machine),
    )


def with_bits_of_nan(text: str, encoding: bytes) -> str:
    """Return the text of a selection with the bits of its NaN, which may be half a double: nvdisasm prints all alike.

    The immediate is in bits [32, 64) of the encoding; without one the text stays as it is.
    """
    return _SELECTED_NAN.sub(rf"\g<1>{int.from_bytes(encoding[4:8], 'little'):#x}", text) if encoding else text


def _awaited_loads(lines: Lines, machine: bytes) -> dict[int, frozenset[int]]:
    """Return `Code.awaited`: in SASS, a tcgen05.wait::ld is only a wait for the scoreboards of its loads.

    Of the 128 bits of an instruction, [110, 113) name the scoreboard that its result clears, [116, 122) those that it
    waits for; DEPBAR, which counts, names another in its text.
    """
    inside = [(offset, text) for offset, text in lines if offset + STEP <= len(machine)]
    loads = {offset for offset, text in inside if _LOADS_TENSOR.search(text)}
    if not loads:
        return {}
    bits = {offset: int.from_bytes(machine[offset : offset + STEP], "little") for offset, _ in inside}
    awaited = {load: frozenset[int]() for load in loads}
    for offset, text in inside:
        waits = bits[offset] >> 116 & 0x3F
        waits |= sum(1 << int(board) for board in _COUNTED_BOARD.findall(text))
        awaited[offset] = frozenset(load for load in loads if waits >> (bits[load] >> 110 & 7) & 1)
    return {offset: ended for offset, ended in awaited.items() if ended or offset in loads}


Lines = list[tuple[int, str]]
Labels = dict[str, int]


@lru_cache(maxsize=1)  # the kernels of a cubin follow one another
def _sections(text: str) -> dict[str, tuple[Lines, Labels]]:
    """Return each text section's instructions and labels, by function."""
    sections: dict[str, tuple[Lines, Labels]] = {}
    current: tuple[Lines, Labels] | None = None
    waiting: list[str] = []
    for line in text.splitlines():
        if match := _SECTION.match(line):
            current = sections.setdefault(match[1], ([], {}))
            waiting = []
        elif _OTHER_SECTION.match(line):
            current = None
        elif current is not None and (match := _LINE.match(line)):
            offset = int(match[1], 16)
            listed = _BRANCH_TARGETS.search(line.partition(";")[2])
            current[0].append((offset, match[2] + (listed[0] if listed else "")))
            current[1].update(dict.fromkeys(waiting, offset))
            waiting = []
        elif current is not None and (match := _LABEL.match(line)):
            waiting.append(match[1])
            current[1][match[1]] = current[0][-1][0] + STEP if current[0] else 0
    return sections


def _joined_sections(name: str, sections: dict[str, tuple[Lines, Labels]]) -> tuple[Lines, Labels]:
    """Return the kernel's instructions, followed by those of other sections that it refers to, and all labels."""
    lines: Lines = []
    labels: Labels = {}
    waiting, included = [name], {name}
    while waiting:
        function = waiting.pop(0)
        body, own = sections[function]
        start = lines[-1][0] + STEP if lines else 0
        lines += [(start + offset, text) for offset, text in body]
        labels |= {label: start + offset for label, offset in own.items()} | {function: start}
        for _, text in body:
            referred = {match[1] for match in _REFERENCE.finditer(text)}
            referred |= {match[2] for match in _ADDRESS_HALF.finditer(text)}
            for other in sorted(referred & sections.keys() - included):
                included.add(other)
                waiting.append(other)
    return lines, labels


def _resolved(offset: int, text: str, labels: Labels, symbols: Mapping[str, int]) -> Sass:
    def address_of(label: str) -> int:
        label = label.removeprefix(".text.").removesuffix("@srel")
        if label in labels:
            return labels[label]
        if label in symbols:
            return symbols[label]
        raise BadFile(f"the disassembly has no label {label!r}, which {text!r} refers to", "disassemble it again")

    def half(match: re.Match[str]) -> str:
        address = (
            address_of(match[2]) if match[3] is None else address_of(match[3])
        )  # a label is counted from its function
        return f"{address >> 32 if match[1] == 'hi' else address & 0xFFFFFFFF:#x}"

    listed = _BRANCH_TARGETS.search(text)
    targets = tuple(address_of(label.strip()) for label in listed[1].split(",")) if listed else ()
    text = _BRANCH_TARGETS.sub("", text)
    text = _ADDRESS_HALF.sub(half, text)
    text = _REFERENCE.sub(lambda match: f"{address_of(match[1]):#x}", text)
    return Sass(offset, " ".join(text.split()), targets)


# Kinds of operands
REG, UREG, PRED, UPRED, BARRIER = "R", "UR", "P", "UP", "B"
RPC = "Rpc"  # where sm_120 and others keep a word while they use its register; the lower half, which has 32 bits
INTEGER, FLOAT, CONSTANT, MEMORY, SPECIAL = "int", "float", "c", "[]", "SR"
TENSOR, INSTRUCTION = "tmem", "idesc"  # an address in tensor memory; a descriptor of the instruction itself

ZERO = 255  # RZ, the register that is always 0
UZERO = 255  # URZ; UR63 to UR79 are registers from sm_100 on
TRUE = 7  # PT and UPT

_REGISTER = re.compile(r"(UR|UP|R|P|B)(\d{1,3}|Z|T)")
_CONSTANT = re.compile(r"(cx?)\[([^\]]+)\]\[([^\]]*)\]")
_ADDRESS = re.compile(r"(?:g?desc\[[^][]*+\])?\[([^][]*+)\]|gdesc\[([^][]*+)\]")
_TENSOR = re.compile(rf"({TENSOR}|{INSTRUCTION})\[([^\]]*)\]")
_HEX = re.compile(r"-?0x[0-9a-f]+")


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One operand; registers by number, memory as the sum of its terms and an offset."""

    kind: str
    number: int = 0  # of a register; an integer's value; a constant's bank
    real: float = 0.0
    text: str = ""
    negated: bool = False  # - of a number, ! of a predicate
    inverted: bool = False  # ~
    absolute: bool = False  # |…|
    terms: tuple[Operand, ...] = ()  # of an address: registers
    offset: int = 0  # of an address, in bytes
    suffixes: tuple[str, ...] = ()  # "64", "H0_H0", "X4", …


@dataclass(frozen=True)
class SassInstruction:
    """One parsed instruction."""

    offset: int
    text: str
    opcode: str  # the first word of the mnemonic, such as IMAD
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None = None
    targets: tuple[int, ...] = field(default=())

    @property
    def mnemonic(self) -> str:
        """The opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @cached_property
    def row(self) -> Opcode:
        """The row of its opcode."""
        return row(self.opcode)

    @cached_property
    def never(self) -> bool:
        """Whether it is always predicated off: its guard is !PT."""
        guard = self.guard
        return guard is not None and guard.number == TRUE and guard.negated

    @cached_property
    def memo(self) -> dict[str, object]:
        """Cached results about it, by name: every run asks the same of an instruction."""
        return {}

    @cached_property
    def _modifiers(self) -> frozenset[str]:
        return frozenset(self.modifiers)

    def has(self, *modifiers: str) -> bool:
        """Return whether it has one of the modifiers."""
        return not self._modifiers.isdisjoint(modifiers)


MINIMUM = 5  # operands of a minimum


def parse_instruction(sass: Sass) -> SassInstruction:
    """Parse an instruction; unrecognized operands become SPECIAL."""
    text = sass.text.strip().rstrip(";").strip()
    guard, rest = None, text
    if rest.startswith("@"):
        word, _, rest = rest[1:].partition(" ")
        guard = _operand(word)
    mnemonic, _, arguments = rest.strip().partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    if guard is not None and guard.number == TRUE and not guard.negated:
        guard = None
    operands = [_operand(word) for word in _split(arguments)]
    if opcode.endswith("IMNMX") and len(operands) > MINIMUM and operands[0].number == operands[1].number == TRUE:
        del operands[:2]  # minima of 64 bits also name two predicates that could get something
    wide = "E" in modifiers and row(opcode).copy is Copy.NO  # cp.async also has an address in shared memory
    return SassInstruction(
        offset=sass.offset,
        text=" ".join(text.split()),
        opcode=opcode,
        modifiers=tuple(modifiers),
        operands=tuple(map(_as_register_pair, operands) if wide else operands),
        guard=guard,
        targets=sass.targets,
    )


def _as_register_pair(operand: Operand) -> Operand:
    """Return an operand of a 64-bit access: sm_75 writes [R2] for the register pair that later ones write [R2.64]."""
    if operand.kind != MEMORY:
        return operand
    wide = (replace(t, suffixes=("64",)) if t.kind == REG and not t.suffixes else t for t in operand.terms)
    return replace(operand, terms=tuple(wide))


def _split(arguments: str) -> list[str]:
    """Split at commas and spaces outside brackets: ``RET.REL.NODEC R2 0x0`` has two operands."""
    words, depth, current = [], 0, ""
    for character in arguments:
        depth += (character in "[(") - (character in "])")
        if character in ", " and depth == 0:
            words.append(current)
            current = ""
        else:
            current += character
    return [word for word in [*words, current] if word]


def _operand(word: str) -> Operand:
    """Return an operand with its marks: - or !, ~, |…|, in this order."""
    negated = word.startswith(("-", "!")) and not _HEX.fullmatch(word)
    body = word[1:] if negated else word
    inverted = body.startswith("~")
    body = body[1:] if inverted else body
    absolute = body.startswith("|")
    body = body.replace("|", "") if absolute else body
    marked = partial(Operand, text=body, negated=negated, inverted=inverted, absolute=absolute)
    if match := _CONSTANT.match(body):
        terms, offset = _sum(match[3])
        bank = int(match[2], 16) if match[1] == "c" and _HEX.fullmatch(match[2]) else -1
        after = tuple(body[match.end() :].strip(".").split(".")) if match.end() < len(body) else ()
        return marked(kind=CONSTANT, number=bank, terms=terms, offset=offset, suffixes=after)
    if match := _TENSOR.match(body) or _ADDRESS.match(body):
        kind, inside = (match[1], match[2]) if match.re is _TENSOR else (MEMORY, match[1] or match[2] or "")
        terms, offset = _sum(inside)
        return Operand(kind=kind, text=body, terms=terms, offset=offset)
    name, *suffixes = body.split(".")
    if match := _REGISTER.fullmatch(name):
        kept = tuple(suffix for suffix in suffixes if suffix != "reuse")
        return marked(kind=match[1], number=_number(match[1], match[2]), suffixes=kept)
    if _HEX.fullmatch(body):
        return Operand(kind=INTEGER, number=int(body, 16), text=body, negated=negated, inverted=inverted)
    try:
        return Operand(kind=FLOAT, real=_real(body), text=body, negated=negated, absolute=absolute)
    except ValueError:
        return Operand(kind=RPC if body == "Rpc.LO" else SPECIAL, text=body, negated=negated)


def _number(kind: str, digits: str) -> int:
    if digits == "T":
        return TRUE
    if digits == "Z":
        return UZERO if kind == UREG else ZERO
    return int(digits)


def _real(body: str) -> float:
    text = body.lstrip("+").lower()
    return float("nan") if text in ("qnan", "snan") else float(text)


def _sum(inside: str) -> tuple[tuple[Operand, ...], int]:
    """Return the registers and the offset of an address such as ``R12.X4+UR4+-0x10``."""
    terms, offset = [], 0
    for word in inside.replace(" ", "").replace("+-", "+~").split("+"):
        text = word.replace("~", "-")
        if not text:
            continue
        if _HEX.fullmatch(text):
            offset += int(text, 16)
        else:
            terms.append(_operand(text))
    return tuple(terms), offset
