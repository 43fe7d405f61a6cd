"""What the compiler and a launch tell about a kernel's source: sizes, constants, values, and where pointers begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.cubin import names, shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import objects
from ncu_swizzle.fix.cuda import CLASSES, NOTHING, PARAMETERS, Node
from ncu_swizzle.fix.edits import Edit, edited, files_of, rebuilt
from ncu_swizzle.fix.objects import fixed_value, inlined, part_called
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration
from ncu_swizzle.fix.sums import SIZES, Constants
from ncu_swizzle.fix.webs import BYTES, Member, Members, Reach, ReachedPlace, Web
from ncu_swizzle.kernels import toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.toolchain import ARCH

# What the compiler knows of a kernel's source: sizes, constants, and where pointers begin.


# Which parts of an index the compiler is asked for.


def named(node: Node) -> Iterator[Node]:
    """Yield what stands for a value in an expression: names, those of classes' members as a whole, and sizes."""
    if node.type in ("identifier", "qualified_identifier", "sizeof_expression"):
        yield node
        return
    for child in node.children:
        yield from named(child)


def parts(scopes: Scopes, node: Node) -> Iterator[Node]:
    """Yield an expression; of a call that indexes, its arguments, the index, and what the view was given."""
    index = scopes.indexing.get(node.id)
    if index is None:
        yield node
        members = (scopes.indexing.get(inner.id) for inner in node.walk() if inner.type == "field_expression")
        yield from (member.body for member in members if member)
    else:
        yield from (*index.arguments.values(), *index.fields.values())
        yield from _bodies(scopes, index.body)


def _bodies(scopes: Scopes, body: Node, depth: int = 3) -> Iterator[Node]:
    """Yield an index, and the expressions that the calls in it stand for."""
    yield body
    for node in (node for node in body.walk() if depth and node.type == "call_expression"):
        if call := inlined(scopes, node):
            yield from _bodies(scopes, call.body, depth - 1)


# Ask the compiler what is constant: statements that leave values in the PTX, in a copy of the source.
#
# Each probe is a register in PTX, named after its number, that a value is moved to; if the compiler knows the value, it
# comes from a number. So sizes, template parameters, macros and offsets need no evaluation of our own.

MARK = "ncu_swizzle_probe_"  # comments do not reach the PTX that a cubin keeps
_PROBED = re.compile(rf"mov\.b32 {MARK}(\d+), (%\w+|-?\d+);")
_MOVED = re.compile(r"\bmov\.[a-z]\d+\s+(%\w+), (-?\d+);")
_ERROR = re.compile(r"^(.*)\((\d+)\): (?:catastrophic )?error", re.MULTILINE)
BUILTIN = ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize")
TRIES = 4  # compilations: what a probe cannot name is left out of the next one
Question = tuple[str, "int | str", str]  # of which kind, about which declaration or type, and a name


@dataclass(frozen=True)
class Probe:
    """An integer expression, and the byte of the source that it is evaluated before."""

    at: int
    expression: str


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


def question_of(scopes: Scopes, node: Node) -> tuple[int, str] | None:
    """Return by what a name's value is asked for: the function that it is in, and the name with its declaration.

    None if it means different things in different places: a macro's, where that is expanded, or a macro itself.
    """
    holder = scopes.holder(node)
    declared = scopes.resolve(node) if node.type == "identifier" else NOTHING
    if declared:
        return (holder.body.id if holder and not holder.macro else 0), f"{node.text} {declared.id}"
    if holder and holder.macro and scopes.declarations(node.text):
        return None
    if len(scopes.callables.get(node.text, [])) > 1:
        return None  # a macro that is defined again
    return (holder.body.id if holder and not holder.macro else 0), node.text


@dataclass(eq=False, kw_only=True)
class Questions:
    """What to ask the compiler about the arrays, pointers and indices of a kernel."""

    scopes: Scopes
    kernel: str
    probes: dict[Question, Probe] = field(default_factory=dict)  # numbered in this order
    opened: list[Edit] = field(default_factory=list)  # of classes whose members are asked for

    def text(self, left_out: frozenset[int] = frozenset()) -> bytes:
        """Return the source with a statement per probe, and with the edits that let it be compiled."""
        lines: dict[int, str] = {}
        for number, probe in enumerate(self.probes.values()):
            if number not in left_out:
                # volatile, as nothing uses the register: else the compiler would drop it, and the value with it.
                register = f"{MARK}{number}"
                move = f"{{ .reg .b32 {register}; mov.b32 {register}, %0; }}"
                statement = f'asm volatile("{move}" :: "r"((int)({probe.expression})));'
                lines[probe.at] = f"{lines.get(probe.at, '')}\n{statement}\n"
        return edited(self.scopes.file.text, [*(Edit(at, at, text) for at, text in lines.items()), *self.opened])

    def ask(self, kind: str, about: int | str, at: int | None, expression: str, name: str = "") -> None:
        if at is not None:
            self.probes.setdefault((kind, about, name), Probe(at, expression))

    def array(self, declaration: SharedDeclaration) -> None:
        """Ask for the sizes of an array."""
        at, id_, name = self.after(declaration.statement), declaration.declared.id, declaration.name
        self.ask("element", id_, at, f"sizeof({name}{'[0]' * declaration.rank})")
        if not declaration.dynamic:
            self.ask("array", id_, at, f"sizeof({name})")
        self._rows(id_, at, name, declaration.rank, declaration.dynamic)

    def _rows(self, id_: int, at: int | None, name: str, rank: int, dynamic: bool = False) -> None:
        for kind, depth in (("row", rank - 1), ("rows", rank - 2)):
            if depth >= (1 if dynamic else 0):
                part, inner = name + "[0]" * depth, name + "[0]" * (depth + 1)
                self.ask(kind, id_, at, f"sizeof({part}) / sizeof({inner})")

    def member(self, member: Member) -> None:
        """Ask where an array of a struct is in it, and for its sizes."""
        through, id_ = member.through, member.place.declared.id
        at = self._declared_at(member.variable.declared)
        self.opened += objects.opened(member.place.declared.above(*CLASSES))
        whole = f"{member.object_}.{member.place.name}"
        # Not offsetof, which takes a type's name: here only an object is named.
        address = f"(const volatile char *)(&{whole}) - (const volatile char *)(&{member.object_})"
        sizes = (("at", address), ("size", f"sizeof({whole})"), ("stride", f"sizeof({member.object_})"))
        for kind, expression in sizes:
            self.ask(kind, id_, at, expression, str(through.declared.id))
        self.ask("element", id_, at, f"sizeof({whole}{'[0]' * member.place.rank})")
        self._rows(id_, at, whole, member.place.rank)

    def place(self, place: ReachedPlace, web: Web) -> None:
        """Ask for the size of what a pointer counts, and how far from its array it begins."""
        if place.array or place.member:
            return
        at = self._declared_at(place.declared)
        if place.unit not in ("", BYTES):
            self.ask("unit", place.unit, at, f"sizeof({place.unit})")
        alone = len(web.arrays) == 1 and place.declared.above("declaration")
        if alone and place.unit != BYTES and place.rank < 2:
            address = place.name if place.rank else f"&{place.name}"
            distance = f"(const volatile char *)({address}) - (const volatile char *)({web.arrays[0].name})"
            self.ask("offset", place.declared.id, at, distance)

    def names(self, node: Node, otherwise: int | None) -> None:
        """Ask for the values of the names in an expression; in a macro, before the kernel's arrays are used.

        A variable is asked for where it is declared, and only if nothing changes it: elsewhere, a condition, or what it
        is assigned, may decide its value.
        """
        for use in named(node):
            if use.text in BUILTIN or use.parent.type in ("field_expression", "call_expression"):
                continue  # an object of which a member is named, or a function
            question = question_of(self.scopes, use)
            if question is None:
                continue
            declared, holder = self.scopes.resolve(use), self.scopes.holder(use)
            statement = declared.above("declaration", "for_range_loop", *PARAMETERS)
            at = otherwise if holder is None or holder.macro else self._before(use)
            if statement.type in ("declaration", "for_range_loop") and self.scopes.holder(declared):
                if statement.parent.type != "compound_statement" or self.scopes.is_changed(declared):
                    continue  # a loop's, for example
                at = statement.end_byte
            elif declared and self.scopes.is_changed(declared):
                continue
            self.ask("name", question[0], at, use.text, question[1])

    def _declared_at(self, declared: Node) -> int | None:
        statement = declared.above("declaration", "expression_statement")
        if statement and not declared.above("parameter_declaration"):
            return self.after(statement)
        function = self.scopes.holder(declared)
        if function is None:  # a parameter, which stands before the body that it belongs to
            function = next((made for made, _ in self.scopes.taking(declared)), None)
        return function.body.start_byte + 1 if function and not function.macro else None

    def after(self, statement: Node) -> int | None:
        """Return where a statement ends; of a declaration outside of functions, where the kernel begins."""
        if statement.parent.type == "compound_statement":
            return statement.end_byte
        kernels = self.scopes.callables.get(self.kernel, [])
        return kernels[0].body.start_byte + 1 if kernels else None

    def _before(self, use: Node) -> int | None:
        """Return where the statement that holds a name begins, in the block that it is in."""
        node = use
        while node.parent and node.parent.type != "compound_statement":
            node = node.parent
        if not node.parent:
            return None
        # ``#pragma unroll`` must stay right above its loop: the probe goes before it.
        at, above = node.start_byte, node.source[: node.start_byte].rstrip()
        while (line := above.rfind(b"\n") + 1) and above[line:].lstrip().startswith(b"#pragma"):
            at, above = line, above[:line].rstrip()
        return at


def compiler_knowledge(
    target: Target,
    scopes: Scopes,
    arrays: Sequence[SharedDeclaration],
    webs: Sequence[Web],
    settings: EmulationSettings,
) -> Known:
    """Compile a copy of the source with probes, and return what the compiler says."""
    questions = Questions(scopes=scopes, kernel=target.kernel.entry.partition("<")[0].rpartition("::")[2])
    for declaration in arrays:
        questions.array(declaration)
    for web in webs:
        for place in web.places.values():
            questions.place(place, web)
        for member in web.members:
            questions.member(member)
        declared = [declaration for declaration in arrays if declaration.declared.id in web.places]
        # Names in macros have no place of their own: they are asked for before the kernel uses the array.
        otherwise = next((questions.after(declaration.statement) for declaration in declared), None)
        sizes = [size for declaration in declared for size in declaration.sizes]
        steps = [node for reach in web.reaches for node in (*(step.node for step in reach.steps), reach.leading)]
        for node in (*sizes, *(part for step in steps if step for part in parts(scopes, step))):
            questions.names(node, otherwise)
    answered = _answered(questions, _compiled(target, questions, settings), target.launch.block)
    answered = replace(answered, launched=launched_constants(target, scopes, answered.constants))
    return replace(answered, offsets={**launched_offsets(webs, answered), **answered.offsets})


def _compiled(target: Target, questions: Questions, settings: EmulationSettings) -> Mapping[int, int]:
    left_out: frozenset[int] = frozenset()
    for _ in range(TRIES):
        with_probes = questions.text(left_out)
        with rebuilt(target, with_probes) as copy:
            try:
                arch = copy.family.arch or ARCH
                code = toolchain.cubin(copy.family, copy.kernel, arch, settings.toolchain, cached=False)
            except UsageError as error:
                wrong = refused(files_of(target, with_probes), str(error.args[0]))
                # The errors are in no probe's line: the source does not compile at all, and another try would end
                # alike.
                if not wrong - left_out:
                    return {}
                left_out |= wrong
                continue
        cubin = Cubin(code, target.source.name)
        return answers(shared_arrays.ptx_body(shared_arrays.embedded(cubin), names.find(cubin, target.kernel.entry)))
    return {}


def _answered(questions: Questions, values: Mapping[int, int], block: Sequence[int]) -> Known:
    by_kind: dict[str, dict[tuple[int | str, str], int]] = {}
    for number, (kind, about, name) in enumerate(questions.probes):
        if number in values:
            by_kind.setdefault(kind, {})[about, name] = values[number]
    scopes = questions.scopes
    names = {(about, name): n for (about, name), n in by_kind.get("name", {}).items() if isinstance(about, int)}

    # A proof is one for blocks of the described shape.
    threads = {f"blockDim.{axis}": size for axis, size in zip(AXES, block, strict=False)}

    def value(node: Node) -> int | None:
        if node.type == "field_expression":
            return threads.get(node.text)
        question, holder = question_of(scopes, node), scopes.holder(node)
        own = names.get(question) if question else None
        if question and own is None and (holder is None or holder.macro or scopes.file.class_around(node)):
            # Of what no function of the kernel holds, such as a method that it does not call.
            everywhere = {number for (_, name), number in names.items() if name == question[1]}
            own = next(iter(everywhere)) if len(everywhere) == 1 else None
        return own if own is not None else fixed_value(scopes, constants, node)

    def by_id(kind: str) -> dict[int, int]:
        return {about: number for (about, _), number in by_kind.get(kind, {}).items() if isinstance(about, int)}

    units = {about: number for (about, _), number in by_kind.get("unit", {}).items() if isinstance(about, str)}
    constants = Constants(
        name=value,
        of_launch=True,
        inline=lambda node: inlined(scopes, node),
        part=lambda object_, call: part_called(scopes, object_, call),
    )
    return Known(
        constants=constants,
        launched=constants,
        unit_bytes=units,
        element_bytes=by_id("element"),
        row_elements=by_id("row"),
        row_counts=by_id("rows"),
        offsets=by_id("offset"),
        members=_members(by_kind),
    )


def _members(by_kind: Mapping[str, Mapping[tuple[int | str, str], int]]) -> dict[tuple[int, int], Members]:
    """Return where the arrays in structs lie, by their declaration and that of what they are reached through."""
    sizes, strides = by_kind.get("size", {}), by_kind.get("stride", {})
    held = {(str(id_), ""): size for (id_, _), size in sizes.items()}  # arrays of structs in structs
    arrays = {**{(str(id_), name): size for (id_, name), size in by_kind.get("array", {}).items()}, **held}
    members: dict[tuple[int, int], Members] = {}
    for (id_, through), at in by_kind.get("at", {}).items():
        size, stride = sizes.get((id_, through)), strides.get((id_, through))
        if isinstance(id_, int) and size and stride:
            count = max(1, arrays.get((through, ""), stride) // stride)
            members[id_, int(through)] = Members(offset=at, size=size, stride=stride, count=count)
    return members


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """Answers: the names' values, the sizes of types by name and of elements, and places' distances."""

    constants: Constants
    launched: Constants  # what the launch says, too: blockDim.x, the kernel's integer parameters
    unit_bytes: Mapping[str, int]
    element_bytes: Mapping[int, int]  # by declared identifier
    row_elements: Mapping[int, int]  # of the last dimension
    row_counts: Mapping[int, int]  # of the one before
    offsets: Mapping[int, int]  # from the array, in bytes
    members: Mapping[tuple[int, int], Members]  # of structs, by declaration and by what they are reached through


AXES = "xyz"


@dataclass(eq=False, kw_only=True)
class _Launched:
    """The values of names in a launch, by their declarations."""

    scopes: Scopes
    constants: Constants  # of the source alone
    members: Mapping[str, int]
    found: dict[int, int | None]
    within: Constants = field(init=False)

    def __post_init__(self) -> None:
        self.within = replace(self.constants, name=self.value, of_launch=True)

    def value(self, node: Node) -> int | None:
        if node.type == "field_expression":
            return self.members.get(node.text)
        known = self.constants.name(node)
        declared = self.scopes.meant(node) if known is None else NOTHING
        return self._declared(declared) if declared else known

    def _declared(self, declared: Node) -> int | None:
        if declared.id not in self.found:
            self.found[declared.id] = None  # while it is being found
            self.found[declared.id] = self._initialised(declared)
        known = self.found[declared.id]
        return None if self.scopes.is_changed(declared) else known

    def _initialised(self, declared: Node) -> int | None:
        """Return the value that a variable begins with, or that all calls give a parameter."""
        if declared.parent.type == "init_declarator":
            given = [declared.parent.part("value")]
        else:
            taken = ((made, number) for made, number in self.scopes.taking(declared) if not made.macro)
            calls = ((call, number) for made, number in taken for call in self.scopes.calls(made.name))
            given = [node for call, number in calls for node in call.arguments[number : number + 1]]
        values = {self.within.value(node) for node in given}
        return values.pop() if len(values) == 1 else None


def launched_constants(target: Target, scopes: Scopes, constants: Constants) -> Constants:
    """Return what is constant in a launch: ``blockDim.x`` and its like, integer parameters, and what follows."""
    launch = target.launch
    sizes = (("gridDim", launch.grid), ("blockDim", launch.block))
    members = {f"{name}.{axis}": n for name, numbers in sizes for axis, n in zip(AXES, numbers, strict=True)}
    return _Launched(
        scopes=scopes, constants=constants, members=members, found=dict(_parameters(target, scopes))
    ).within


def launched_offsets(webs: Sequence[Web], known: Known) -> Mapping[int, int]:
    """Return the distances of places from their array in this launch, in bytes, by the declared identifier."""
    return {id_: offset for web in webs for id_, offset in _offsets(web, known.launched, known)}


def _parameters(target: Target, scopes: Scopes) -> Iterator[tuple[int, int | None]]:
    """Yield the kernel's integer parameters, by their declarations."""
    for made in scopes.callables.get(target.kernel.entry.partition("<")[0].rpartition("::")[2], []):
        for declared, argument in zip(made.parameters, target.family.arguments, strict=False):
            if declared and argument.value and "int" in argument.dtype:
                try:
                    yield declared.id, evaluate(argument.value, target.problem)
                except NcuSwizzleError:
                    continue


def _offsets(web: Web, constants: Constants, known: Known) -> Iterator[tuple[int, int]]:
    reached = {array.declared.id: 0 for array in web.arrays}
    waiting = list(reached)
    while waiting:
        id_ = waiting.pop()
        for reach in web.from_(web.places[id_]):
            if reach.end is None or reach.advance or reach.end.declared.id in reached:
                continue
            distance = _distance(reach, constants, known)
            if distance is not None:
                reached[reach.end.declared.id] = reached[id_] + distance
                waiting.append(reach.end.declared.id)
                yield reach.end.declared.id, reached[id_] + distance


def _distance(reach: Reach, constants: Constants, known: Known) -> int | None:
    """Return how many bytes the steps of a use add; None if that is not known."""
    distance = 0
    array = next(iter(known.element_bytes.values()), 0) if reach.start.array else 0
    element = known.element_bytes.get(reach.start.declared.id, array)
    for step in (step for step in reach.steps if step.node):
        unit = known.unit_bytes.get(step.unit, SIZES.get(step.unit, 0)) if step.unit else element
        number = constants.value(step.node)
        if number is None or not unit or step.rank > 1:
            return None
        distance += -number * unit if step.negative else number * unit
    return distance
