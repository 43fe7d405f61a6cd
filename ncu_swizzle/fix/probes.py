"""Ask the compiler what is constant in a source: statements that leave values in the PTX, in a copy of it.

Each probe is a register in PTX, named after its number, that a value is moved to; if the compiler knows the value, it
comes from a number. So sizes, template parameters, macros and offsets need no evaluation of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.cubin import names, shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix.cuda import CLASSES, NOTHING, Node
from ncu_swizzle.fix.edits import Edit, edited, files_of, rebuilt
from ncu_swizzle.fix.frames import CallFrame, Members, Pointer
from ncu_swizzle.fix.names import BYTES
from ncu_swizzle.fix.sums import SIZES, Constants
from ncu_swizzle.fix.walking import Walk
from ncu_swizzle.kernels import toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.toolchain import ARCH

MARK = "ncu_swizzle_probe_"  # comments do not reach the PTX that a cubin keeps
_PROBED = re.compile(rf"mov\.b32 {MARK}(\d+), (%\w+|-?\d+);")
_MOVED = re.compile(r"\bmov\.[a-z]\d+\s+(%\w+), (-?\d+);")
_ERROR = re.compile(r"^(.*)\((\d+)\): (?:catastrophic )?error", re.MULTILINE)
BUILTIN = ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize")
TRIES = 4  # compilations: what a probe cannot name is left out of the next one
AXES = "xyz"
Probe = tuple[int, str]  # the byte that it goes before, and an integer expression


def refused(texts: Mapping[Path, bytes], log: str) -> frozenset[int]:
    """Return the probes, of those in the texts of some files, in whose lines the compiler found errors."""
    wrong = {(PurePath(file).name, int(number)) for file, number in _ERROR.findall(log)}
    probes: set[int] = set()
    for file, text in texts.items():
        lines = text.decode("utf-8", "surrogateescape").split("\n")
        numbers = [number for name, number in wrong if name == file.name and 0 < number <= len(lines)]
        probes |= {int(match[1]) for number in numbers if (match := re.search(rf"{MARK}(\d+)", lines[number - 1]))}
    return frozenset(probes)


def answers(body: str) -> Mapping[int, int]:
    """Return the values in an entry's PTX, by probe; a value that differs from place to place is not one."""
    moved: dict[str, str] = {}  # by register: the number that it is given, empty if it is given several
    for match in _MOVED.finditer(body):
        moved[match[1]] = match[2] if match[1] not in moved else ""
    values: dict[int, set[int | None]] = {}
    for match in _PROBED.finditer(body):
        text = moved.get(match[2], "") if match[2].startswith("%") else match[2]
        values.setdefault(int(match[1]), set()).add(int(text) if text else None)
    return {probe: value for probe, (value, *more) in values.items() if value is not None and not more}


@dataclass(eq=False, kw_only=True)
class Known:
    """What the compiler knows of a source's arrays, and what is constant in the source or the launch.

    A question is asked where its answer is used: it has none at first, and `answer` compiles what was asked.
    """

    walk: Walk
    target: Target
    parameters: Mapping[str, int] = field(default_factory=dict)  # of the kernel, in this launch
    asked: dict[Probe, int] = field(default_factory=dict)  # by their numbers
    opened: list[Edit] = field(default_factory=list)  # of classes whose members are asked for
    answered: Mapping[Probe, int] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()  # what does not compile where it is asked
    _finding: set[tuple[int, str]] = field(default_factory=set)

    @property
    def constants(self) -> Constants:
        """What is constant in every launch with such blocks: a proof is one for those."""
        return Constants(walk=self.walk, name=self._name)

    @property
    def launched(self) -> Constants:
        """What is constant in this launch."""
        return Constants(walk=self.walk, name=self._in_launch)

    def ask(self, at: int | None, expression: str) -> int | None:
        """Return the value of an expression at a byte; None if it is not known, at least not yet."""
        if at is None:
            return None
        self.asked.setdefault((at, expression), len(self.asked))
        return self.answered.get((at, expression))

    # ------------------------------------------------------------------------------------ values

    def _name(self, node: Node, frame: CallFrame) -> int | None:
        if node.type == "field_expression":
            sizes = dict(zip((f"blockDim.{axis}" for axis in AXES), self.target.launch.block, strict=False))
            return sizes.get(node.text)
        if node.text in BUILTIN or node.is_part("function", "call_expression"):
            return None
        at = self.place(node, frame)
        answer = self.ask(at, node.text)
        struct = node.above(*CLASSES) if answer is None else NOTHING
        if not struct:
            return answer
        # A class's own names, such as a template's parameters, are known in its methods.
        every = {
            n
            for (at, text), n in self.answered.items()
            if text == node.text and struct.start_byte <= at < struct.end_byte
        }
        return every.pop() if len(every) == 1 else None

    def _in_launch(self, node: Node, frame: CallFrame) -> int | None:
        value = self._name(node, frame)
        if value is not None or node.type not in ("identifier", "field_expression"):
            grid = dict(zip((f"gridDim.{axis}" for axis in AXES), self.target.launch.grid, strict=False))
            return grid.get(node.text) if value is None else value
        owner, bound = frame.owner(node.text)
        if bound is None or bound.changed or (id(bound), node.text) in self._finding:
            return None
        if owner is self.walk.kernel and node.text in self.parameters:
            return self.parameters[node.text]
        if not bound.node or bound.frame is None:
            return None
        self._finding.add((id(bound), node.text))
        try:
            return self.launched.value(bound.node, bound.frame)
        finally:
            self._finding.discard((id(bound), node.text))

    def _array(self, declared: Node) -> tuple[int | None, str]:
        """Return where an array is in scope, and an expression for it: that of an array in a struct has its object."""
        for access in self.walk.accesses.values():
            if access.pointer.members and access.pointer.members[-1] is declared:
                return self._declared_at(access.pointer.object_declared), access.pointer.object_
        return self._declared_at(declared), declared.text

    def element_bytes(self, declared: Node, rank: int) -> int | None:
        """Return the size of an array's elements."""
        at, whole = self._array(declared)
        return self.ask(at, f"sizeof({whole}{'[0]' * rank})")

    def row(self, declared: Node, depth: int) -> int:
        """Return the size of the dimension behind that many subscripts; 0 if it is unknown."""
        at, whole = self._array(declared)
        whole += "[0]" * depth
        return self.ask(at, f"sizeof({whole}) / sizeof({whole}[0])") or 0

    def unit_bytes(self, unit: str, at: int | None) -> int | None:
        """Return the size of a type that is in scope at a byte."""
        return 1 if unit == BYTES else self.ask(at, f"sizeof({unit})") or SIZES.get(unit)

    @property
    def offsets(self) -> dict[int, int]:
        """How far the declared pointers are from their array, in bytes, if that is constant at least in this launch."""
        found: dict[int, int] = {}
        for declared, pointers in self.walk.pointers.values():
            distances = {self._distance(pointer, declared) for pointer in pointers}
            distance = distances.pop() if len(distances) == 1 else None
            arrays = {pointer.array for pointer in pointers}
            if distance is not None and len(arrays) == 1 and not any(p.members for p in pointers):
                found[declared.id] = distance
        return found

    def _distance(self, pointer: Pointer, declared: Node) -> int | None:
        at = self._declared_at(declared)
        if pointer.steps and pointer.unit != BYTES and pointer.rank < 2 and declared.above("declaration"):
            address = declared.text if pointer.rank else f"&{declared.text}"
            start = f"(const volatile char *)({pointer.array.name})"
            if (told := self.ask(at, f"(const volatile char *)({address}) - {start}")) is not None:
                return told
        distance, element = 0, self.element_bytes(pointer.array.declared, pointer.array.rank)
        for step in (step for step in pointer.steps if step.node):
            unit = self.unit_bytes(step.unit, at) if step.unit else element
            number = self.launched.value(step.node, step.frame)
            if number is None or not unit or step.rank > 1 or step.advance:
                return None
            distance += -number * unit if step.negative else number * unit
        return distance

    @property
    def members(self) -> dict[tuple[Node, ...], Members]:
        """Where the arrays in structs lie."""
        found: dict[tuple[Node, ...], Members] = {}
        pointers = (access.pointer for access in self.walk.accesses.values())
        for pointer in {pointer.members: pointer for pointer in pointers if pointer.members}.values():
            at = self._declared_at(pointer.object_declared)
            for member in pointer.members:
                self.opened += [edit for edit in _opened(member.above(*CLASSES)) if edit not in self.opened]
            offset, size, *levels = (self.ask(at, question) for question in _member_questions(pointer))
            if offset is None or not size:
                continue
            copies = [
                (stride, max(1, (whole or stride) // stride))
                for whole, stride in zip(levels[::2], levels[1::2], strict=True)
                if stride
            ]
            found[pointer.members] = Members(offset=offset, size=size, copies=tuple(copies))
        return found

    # ------------------------------------------------------------------------------------ questions

    def place(self, node: Node, frame: CallFrame) -> int | None:
        """Return where the statement that holds a node begins; of a macro's text, that of its expansion."""
        while True:
            root = node
            while root.parent:
                root = root.parent
            function = frame.function
            if function.definition is None or not function.definition.macro or root is not function.definition.body:
                break
            if function.caller is None:
                return None
            node, frame = function.site, function.caller
        while node.parent and node.parent.type != "compound_statement":
            node = node.parent
        if not node.parent:
            return self.walk.kernel.definition.body.start_byte + 1 if self.walk.kernel.definition else None
        # ``#pragma unroll`` must stay right above its loop: the probe goes before it.
        at, above = node.start_byte, node.source[: node.start_byte].rstrip()
        while (line := above.rfind(b"\n") + 1) and above[line:].lstrip().startswith(b"#pragma"):
            at, above = line, above[:line].rstrip()
        return at

    def _declared_at(self, declared: Node) -> int | None:
        """Return where a declared name is in scope: after its declaration, or at the beginning of the function."""
        parameter = declared.above("parameter_declaration", "optional_parameter_declaration")
        if parameter:
            body = parameter.above("function_definition", "lambda_expression").part("body")
            return body.start_byte + 1 if body else None
        statement = declared.above("declaration", "expression_statement")
        if statement.parent.type == "compound_statement":
            return statement.end_byte
        return self.walk.kernel.definition.body.start_byte + 1 if self.walk.kernel.definition else None

    def text(self) -> bytes:
        """Return the source with a statement per probe, and with the edits that let it be compiled."""
        lines: dict[int, str] = {}
        for (at, expression), number in self.asked.items():
            if number not in self.left_out:
                # volatile, as nothing uses the register: else the compiler would drop it, and the value with it.
                register = f"{MARK}{number}"
                move = f"{{ .reg .b32 {register}; mov.b32 {register}, %0; }}"
                lines[at] = f'{lines.get(at, "")}\nasm volatile("{move}" :: "r"((int)({expression})));\n'
        return edited(self.walk.file.text, [*(Edit(at, at, text) for at, text in lines.items()), *self.opened])


def _member_questions(pointer: Pointer) -> list[str]:
    """Return the expressions to probe for an array in structs: its distance and size, then the size of each level."""
    whole = pointer.object_
    # Not offsetof, which takes a type's name: here only an object is named.
    address = f"(const volatile char *)(&{whole}) - (const volatile char *)(&{whole.partition('.')[0]})"
    levels: list[str] = []
    parts = whole.split(".")[:-1]
    for number, part in enumerate(parts):
        outer = ".".join([*parts[:number], part.partition("[")[0]])
        if "[" in part:
            levels += [f"sizeof({outer})", f"sizeof({outer}[0])"]
    return [address, f"sizeof({whole})", *levels]


def _opened(struct: Node) -> Iterator[Edit]:
    """Yield the edits that make everything in a class public."""
    for child in struct.part("body").children:
        if child.type == "{" or child.before.type == "access_specifier":  # of which child is the colon
            yield Edit(child.end_byte, child.end_byte, " public: ")


def known_of(target: Target, walk: Walk) -> Known:
    """Return what is known of a source before the compiler was asked: the kernel's parameters in the launch."""
    return Known(walk=walk, target=target, parameters=dict(_parameters(target, walk)))


def _parameters(target: Target, walk: Walk) -> Iterator[tuple[str, int]]:
    """Yield the kernel's integer parameters in the described launch."""
    definition = walk.kernel.definition
    for declared, argument in zip(definition.parameters if definition else (), target.family.arguments, strict=False):
        if declared and argument.value and "int" in argument.dtype:
            try:
                yield declared.text, evaluate(argument.value, target.problem)
            except NcuSwizzleError:
                continue


def answer(known: Known, settings: EmulationSettings) -> None:
    """Compile a copy of the source with what was asked, and keep what the compiler says."""
    target = known.target
    for _ in range(TRIES):
        with_probes = known.text()
        with rebuilt(target, with_probes) as copy:
            try:
                arch = copy.family.arch or ARCH
                code = toolchain.cubin(copy.family, copy.kernel, arch, settings.toolchain, cached=False)
            except UsageError as error:
                wrong = refused(files_of(target, with_probes), str(error.args[0]))
                # The errors are in no probe's line: the source does not compile at all, and another try would end
                # alike.
                if not wrong - known.left_out:
                    return
                known.left_out |= wrong
                continue
        cubin = Cubin(code, target.source.name)
        entry = shared_arrays.ptx_body(shared_arrays.embedded(cubin), names.find(cubin, target.kernel.entry))
        values = answers(entry)
        known.answered = {probe: values[number] for probe, number in known.asked.items() if number in values}
        return
