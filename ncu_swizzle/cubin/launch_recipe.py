"""The launch recipe of a tile kernel: host code in its cubin that makes the tensor maps out of the arguments.

tileiras puts an object file of the host's into ``.nv.host``. Before a launch the driver calls one of its functions,
which gets the parameter buffer and writes 128 bytes per map behind the kernel's own parameters. Here that code is
interpreted and never executed: a cubin may come from anywhere. Only what compilers make of integer arithmetic is known,
and nothing but the parameters and the stack can be reached.

A value is an integer of 64 bits, or None: not known here. What depends on such a value may be computed, but neither
decides a branch nor an address, nor gets into a parameter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ncu_swizzle.base.errors import DamagedFile, NcuSwizzleError
from ncu_swizzle.base.files import brief
from ncu_swizzle.cubin.elf import AGAIN, Cubin, open_elf

SECTION = ".nv.host"
NAME, FUNCTION = "__CUDA_TILEIR_FUNC_NAME_", "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"  # and the kernel's number
MACHINE = "EM_X86_64"
MOST_STEPS = 1 << 16
MOST_NAME = 1 << 12  # characters
PARAMETERS, STACK, STACK_BYTES = 1 << 40, 1 << 44, 1 << 12  # where they are
RETURN = 1 << 46  # the address that the code returns to

RAX, RCX, RSP, RBP = 0, 1, 4, 5
Value = int | None
MASKS = {size: (1 << 8 * size) - 1 for size in (1, 2, 4, 8)}
ARITHMETIC = ("add", "or", "adc", "sbb", "and", "sub", "xor", "cmp")  # by bits 3 to 5 of the opcode
SHIFTS = {4: "shl", 5: "shr", 7: "sar"}
CARRY, ZERO, SIGN, OVERFLOW, PARITY = range(5)


class NotFollowed(Exception):
    """An instruction, or an access, that the interpreter does not know; the text says which."""


def completed(cubin: Cubin, kernel: str, parameters: bytes) -> bytes:
    """Return the parameter buffer with what the kernel's launch recipe writes; as it is if there is no recipe.

    Raises NcuSwizzleError if the recipe cannot be followed, DamagedFile if the host code is damaged.
    """
    total = cubin.attributes(kernel).parameter_bytes
    host = cubin.section(SECTION)
    if not host or len(parameters) >= total:
        return parameters
    code = _recipe(host, kernel, cubin.name)
    if code is None:
        return parameters
    machine = RecipeMachine(code, bytearray(parameters.ljust(total, b"\0")))
    try:
        machine.run()
    except NotFollowed as error:
        raise NcuSwizzleError(
            f"the launch recipe of {kernel} in {cubin.name} is not followed: {error}",
            "report it with the cubin; wavefronts of every launch need none: ncu-swizzle lint FILE.cubin",
        ) from error
    return bytes(machine.parameters)


def _recipe(host: bytes, kernel: str, name: str) -> bytes | None:
    """Return the machine code of a kernel's recipe; None if the host code has none for it."""
    try:
        elf = open_elf(host)
        if elf["e_machine"] != MACHINE:
            raise NcuSwizzleError(
                f"the launch recipe of {kernel} in {name} is code for {elf['e_machine']}, which is not followed",
                "compile it on, or for, an x86-64 host",
            )
        symbols = {
            symbol.name: symbol
            for section in elf.iter_sections()
            if isinstance(section, SymbolTableSection)
            for symbol in section.iter_symbols()
        }
        for symbol in symbols:
            if symbol.startswith(NAME) and _bytes(elf, symbols[symbol]).split(b"\0")[0] == kernel.encode():
                made = symbols.get(FUNCTION + symbol.removeprefix(NAME))
                return None if made is None else _bytes(elf, made)
    except NcuSwizzleError:
        raise
    except Exception as error:
        raise DamagedFile(f"the host code of {name} is damaged: {brief(error)}", AGAIN) from error
    return None


def _bytes(elf: ELFFile, symbol: object) -> bytes:
    """Return the bytes of a symbol; of one without a size, up to the end of its section."""
    section = elf.get_section(symbol["st_shndx"])  # type: ignore[index]
    start, size = symbol["st_value"], symbol["st_size"]  # type: ignore[index]
    content: bytes = section.data()
    return content[start : start + size] if size else content[start : start + MOST_NAME]


class RecipeMachine:
    """An x86-64 that knows integer instructions, as System V's convention starts it: RCX has the parameters."""

    def __init__(self, code: bytes, parameters: bytearray) -> None:
        self.code, self.parameters = code, parameters
        self.registers, self.known = [0] * 16, [0] * 16  # `known`: a mask of the bits that are
        self._write(RCX, None, 8, PARAMETERS)
        self._write(RSP, None, 8, STACK + STACK_BYTES)
        self.stack: dict[int, Value] = {}  # byte by byte
        self.flags: list[bool | None] = [None] * 5
        self.at = self.wide = self.rex = 0
        self._push(RETURN)

    def run(self) -> None:
        """Interpret until the function returns."""
        for _ in range(MOST_STEPS):
            start = self.at
            try:
                self._step()
            except IndexError:
                raise NotFollowed(f"it ends within an instruction at {start:#x}") from None
            except NotFollowed as error:
                shown = self.code[start : start + 8].hex(" ")
                raise NotFollowed(f"{error}, at {start:#x} ({shown})") from None
            if self.at == RETURN:
                return
        raise NotFollowed(f"it takes over {MOST_STEPS:,} instructions")

    # ------------------------------------------------------------------------------------------ what is decoded

    def _byte(self) -> int:
        self.at += 1
        return self.code[self.at - 1]

    def _immediate(self, size: int) -> int:
        """Return an immediate or displacement, sign-extended."""
        self.at += size
        if self.at > len(self.code):
            raise IndexError
        return int.from_bytes(self.code[self.at - size : self.at], "little", signed=True)

    def _operand(self) -> tuple[int, int | None, Value]:
        """Return the register field of a ModRM byte, and the register or else the address that the rest names."""
        modrm = self._byte()
        mode, field, rest = modrm >> 6, modrm >> 3 & 7 | (self.rex & 4) << 1, modrm & 7
        if mode == 3:
            return field, rest | (self.rex & 1) << 3, None
        parts: list[Value] = []
        if rest == RSP:
            scaled = self._byte()
            base, index = scaled & 7, scaled >> 3 & 7 | (self.rex & 2) << 2
            if index != RSP:
                value = self._read(index, None, 8)
                parts.append(None if value is None else value << (scaled >> 6))
            if base == RBP and mode == 0:
                parts.append(self._immediate(4))
            else:
                parts.append(self._read(base | (self.rex & 1) << 3, None, 8))
        elif rest == RBP and mode == 0:
            raise NotFollowed("it reads its own code or constants")
        else:
            parts.append(self._read(rest | (self.rex & 1) << 3, None, 8))
        if mode:
            parts.append(self._immediate(1 if mode == 1 else 4))
        address = 0
        for part in parts:
            if part is None:
                return field, None, None
            address += part
        return field, None, address & MASKS[8]

    # ------------------------------------------------------------------------------------------ registers, memory

    def _read(self, register: int | None, address: Value, size: int) -> Value:
        if register is None:
            return self._load(address, size)
        if size == 1 and not self.rex and register >= RSP:
            raise NotFollowed("it uses AH, CH, DH or BH")
        mask = MASKS[size]
        return self.registers[register] & mask if self.known[register] & mask == mask else None

    def _write(self, register: int | None, address: Value, size: int, value: Value) -> None:
        if register is None:
            self._store(address, size, value)
            return
        if size == 1 and not self.rex and register >= RSP:
            raise NotFollowed("it uses AH, CH, DH or BH")
        mask = MASKS[8 if size == 4 else size]  # 32 bits clear the upper half
        self.registers[register] = self.registers[register] & ~mask | (value or 0) & MASKS[size]
        self.known[register] = self.known[register] & ~mask | (0 if value is None else mask)

    def _place(self, address: Value, size: int) -> int | None:
        """Return the offset in the parameters; None for the stack. Raises NotFollowed for what is neither."""
        if address is None:
            raise NotFollowed("an address depends on what is not known here")
        if PARAMETERS <= address <= PARAMETERS + len(self.parameters) - size:
            return address - PARAMETERS
        if STACK <= address <= STACK + STACK_BYTES - size:
            return None
        raise NotFollowed("it reaches memory besides the parameters and its stack")

    def _load(self, address: Value, size: int) -> Value:
        offset = self._place(address, size)
        if offset is not None:
            return int.from_bytes(self.parameters[offset : offset + size], "little")
        parts = [self.stack.get((address or 0) + number) for number in range(size)]
        if any(part is None for part in parts):
            return None
        return sum((part or 0) << 8 * number for number, part in enumerate(parts))

    def _store(self, address: Value, size: int, value: Value) -> None:
        offset = self._place(address, size)
        if offset is None:
            for number in range(size):
                self.stack[(address or 0) + number] = None if value is None else value >> 8 * number & 0xFF
        elif value is None:
            raise NotFollowed("a parameter depends on what is not known here")
        else:
            self.parameters[offset : offset + size] = (value & MASKS[size]).to_bytes(size, "little")

    def _push(self, value: Value) -> None:
        self.registers[RSP] -= 8
        self._store(self._read(RSP, None, 8), 8, value)

    def _pop(self) -> Value:
        value = self._load(self._read(RSP, None, 8), 8)
        self.registers[RSP] += 8
        return value

    # ------------------------------------------------------------------------------------------ arithmetic

    def _compute(self, name: str, left: Value, right: Value, size: int) -> Value:
        """Return a result, and set the flags by it."""
        self.flags = [None] * 5
        if name in ("adc", "sbb"):
            raise NotFollowed(f"it uses {name}")
        if left is None or right is None:
            return None
        mask, high = MASKS[size], 8 * size - 1
        plain: Callable[[int, int], int] = {
            "add": operator.add, "or": operator.or_, "and": operator.and_, "sub": operator.sub, "xor": operator.xor,
            "cmp": operator.sub,
        }[name]  # fmt: skip
        left, right = left & mask, right & mask
        wide = plain(left, right)
        result = wide & mask
        signs = left >> high, (right >> high) ^ (name in ("sub", "cmp")), result >> high
        self._set(result, size)
        self.flags[CARRY] = not 0 <= wide <= mask
        self.flags[OVERFLOW] = name in ("add", "sub", "cmp") and signs[0] == signs[1] != signs[2]
        return result

    def _set(self, result: int, size: int) -> None:
        self.flags[ZERO], self.flags[SIGN] = result == 0, bool(result >> 8 * size - 1)
        self.flags[PARITY] = bin(result & 0xFF).count("1") % 2 == 0

    def _shift(self, name: str, value: Value, count: Value, size: int) -> Value:
        if count is None or value is None:
            self.flags = [None] * 5
            return None
        count &= 63 if size == 8 else 31
        if not count:
            return value
        mask = MASKS[size]
        if name == "sar" and value >> 8 * size - 1:
            value |= ~mask
        result = (value << count if name == "shl" else value >> count) & mask
        self.flags = [None] * 5  # nothing that compilers make reads carry or overflow of a shift
        self._set(result, size)
        return result

    def _holds(self, condition: int) -> bool | None:
        """Return whether a condition code holds; None if it depends on what is not known."""
        carry, zero, sign, overflow, parity = self.flags
        less = None if sign is None or overflow is None else sign != overflow
        either: list[bool | None] = [
            overflow, carry, zero, _or(carry, zero), sign, parity, less, _or(less, zero),
        ]  # fmt: skip
        found = either[condition >> 1]
        return None if found is None else found != bool(condition & 1)

    def _decided(self, condition: int) -> bool:
        found = self._holds(condition)
        if found is None:
            raise NotFollowed("a branch depends on what is not known here")
        return found

    # ------------------------------------------------------------------------------------------ instructions

    def _step(self) -> None:
        narrow, self.rex, opcode = False, 0, self._byte()
        while opcode in (0x66, 0x2E):  # operands of 16 bits; a segment that 64-bit code ignores
            narrow, opcode = narrow or opcode == 0x66, self._byte()
        if opcode >> 4 == 4:
            self.rex, opcode = opcode, self._byte()
        self.wide = 8 if self.rex & 8 else 2 if narrow else 4
        if opcode == 0x0F:
            self._two_bytes(self._byte())
        elif opcode < 0x40 and opcode & 7 < 6:
            self._arithmetic(ARITHMETIC[opcode >> 3], opcode & 7)
        elif 0x50 <= opcode < 0x60:
            register = opcode & 7 | (self.rex & 1) << 3
            if opcode < 0x58:
                self._push(self._read(register, None, 8))
            else:
                self._write(register, None, 8, self._pop())
        elif 0x70 <= opcode < 0x80:
            self._jump(1, opcode & 15)
        elif 0xB0 <= opcode < 0xC0:
            size = self.wide if opcode & 8 else 1
            value = self._immediate(size) & MASKS[size]
            self._write(opcode & 7 | (self.rex & 1) << 3, None, size, value)
        elif opcode in (0xE9, 0xEB):
            self._jump(1 if opcode == 0xEB else 4)
        elif opcode == 0xC3:
            self.at = self._pop() or 0
        elif opcode != 0x90:
            self._one_byte(opcode)

    def _jump(self, size: int, condition: int | None = None) -> None:
        distance = self._immediate(size)
        if condition is None or self._decided(condition):
            self.at += distance
            if not 0 <= self.at < len(self.code):
                raise NotFollowed("it jumps out of the function")

    def _arithmetic(self, name: str, form: int) -> None:
        size = self.wide if form & 1 else 1
        if form >= 4:
            right: Value = self._immediate(min(size, 4)) & MASKS[size]
            target: tuple[int | None, Value] = (RAX, None)
            left = self._read(RAX, None, size)
        else:
            field, register, address = self._operand()
            here, there = (field, None), (register, address)
            target, other = (here, there) if form & 2 else (there, here)
            left, right = self._read(*target, size), self._read(*other, size)
            if name in ("xor", "sub") and here == there:
                left = right = 0
        result = self._compute(name, left, right, size)
        if name != "cmp":
            self._write(*target, size, result)

    def _one_byte(self, opcode: int) -> None:
        size = self.wide if opcode & 1 else 1
        if opcode in (0xA8, 0xA9):
            self._compute("and", self._read(RAX, None, size), self._immediate(min(size, 4)), size)
            return
        if opcode not in KNOWN:
            raise NotFollowed(f"the instruction {opcode:#04x} is not known here")
        field, register, address = self._operand()
        place = (register, address)
        if opcode == 0x8D:
            self._write(field, None, self.wide, address)
        elif 0x86 <= opcode < 0x8C or opcode in (0x63, 0xC6, 0xC7):
            self._move(opcode, field, place, size)
        elif opcode in (0x69, 0x6B):
            self._multiply(field, self._read(*place, self.wide), self._immediate(1 if opcode == 0x6B else 4))
        elif opcode in (0x84, 0x85):
            self._compute("and", self._read(*place, size), self._read(field, None, size), size)
        elif opcode in (0x80, 0x81, 0x83):
            right = self._immediate(1 if opcode != 0x81 else min(size, 4)) & MASKS[size]
            result = self._compute(ARITHMETIC[field & 7], self._read(*place, size), right, size)
            if field & 7 != ARITHMETIC.index("cmp"):
                self._write(*place, size, result)
        elif opcode < 0xD4:
            count = self._immediate(1) if opcode < 0xD0 else 1 if opcode < 0xD2 else self._read(RCX, None, 1)
            if field & 7 not in SHIFTS:
                raise NotFollowed("it rotates")
            self._write(*place, size, self._shift(SHIFTS[field & 7], self._read(*place, size), count, size))
        else:
            self._unary(opcode, field & 7, place, size)

    def _move(self, opcode: int, field: int, place: tuple[int | None, Value], size: int) -> None:
        if opcode == 0x63:
            self._write(field, None, self.wide, _signed(self._read(*place, 4), 4, self.wide))
        elif opcode in (0xC6, 0xC7):
            self._write(*place, size, self._immediate(min(size, 4)) & MASKS[size])
        elif opcode in (0x86, 0x87):
            one, other = self._read(*place, size), self._read(field, None, size)
            self._write(*place, size, other)
            self._write(field, None, size, one)
        elif opcode < 0x8A:
            self._write(*place, size, self._read(field, None, size))
        else:
            self._write(field, None, size, self._read(*place, size))

    def _unary(self, opcode: int, which: int, place: tuple[int | None, Value], size: int) -> None:
        if which not in ((0, 1) if opcode >= 0xFE else (0, 2, 3)):
            raise NotFollowed("it divides, or calls a function")
        value = self._read(*place, size)
        if opcode >= 0xFE:
            carry = self.flags[CARRY]
            result = self._compute("sub" if which else "add", value, 1, size)
            self.flags[CARRY] = carry  # INC and DEC leave it
        elif which == 0:
            self._compute("and", value, self._immediate(min(size, 4)), size)
            return
        elif which == 2:
            result = None if value is None else ~value & MASKS[size]
        else:
            result = self._compute("sub", 0, value, size)
        self._write(*place, size, result)

    def _two_bytes(self, opcode: int) -> None:
        if 0x80 <= opcode < 0x90:
            self._jump(4, opcode & 15)
            return
        if not (0x40 <= opcode < 0x50 or 0x90 <= opcode < 0xA0 or opcode in KNOWN_OF_TWO):
            raise NotFollowed(f"the instruction 0x0f {opcode:#04x} is not known here")
        field, register, address = self._operand()
        place = (register, address)
        if 0x40 <= opcode < 0x50:
            taken, found = self._holds(opcode & 15), self._read(*place, self.wide)
            kept = self._read(field, None, self.wide)
            self._write(field, None, self.wide, None if taken is None else found if taken else kept)
        elif 0x90 <= opcode < 0xA0:
            held = self._holds(opcode & 15)
            self._write(*place, 1, None if held is None else int(held))
        elif opcode == 0xAF:
            self._multiply(field, self._read(field, None, self.wide), self._read(*place, self.wide))
        elif opcode != 0x1F:  # which does nothing
            size = 1 + (opcode & 1)
            value = self._read(*place, size)
            self._write(field, None, self.wide, _signed(value, size, self.wide) if opcode >= 0xBE else value)

    def _multiply(self, field: int, left: Value, right: Value) -> None:
        self.flags = [None] * 5
        unknown = left is None or right is None
        self._write(field, None, self.wide, None if unknown else (left or 0) * (right or 0) & MASKS[self.wide])


KNOWN = frozenset(
    (0x63, 0x69, 0x6B, 0x80, 0x81, 0x83, *range(0x84, 0x8C), 0x8D, 0xC0, 0xC1, 0xC6, 0xC7, *range(0xD0, 0xD4), 0xF6,
     0xF7, 0xFE, 0xFF)
)  # fmt: skip
KNOWN_OF_TWO = (0x1F, 0xAF, 0xB6, 0xB7, 0xBE, 0xBF)


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is None or right is None:
        return None
    return left or right


def _signed(value: Value, size: int, wide: int) -> Value:
    """Return a value extended from `size` bytes by its sign."""
    if value is None:
        return None
    return (value | -(value >> 8 * size - 1) << 8 * size) & MASKS[wide]
