"""What a source says of its launches: their sites, and the instances of templates that they need."""

from __future__ import annotations

import ast
import itertools
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ncu_swizzle.base.validate import LIMIT
from ncu_swizzle.cubin import names
from ncu_swizzle.kernels.limits import OPERATORS
from ncu_swizzle.kernels.signature import Declaration, PreprocessedUnit, closing_angle, split_arguments

# Launches as a source writes them down: ``f<float, 64><<<grid, block, shared>>>``, cudaLaunchKernel, dim3, constants.
#
# Only what follows from constants is a fact; a size that the program computes is unknown. Nothing is executed.

_LAUNCHED = re.compile(r"cudaLaunch(?:Cooperative)?Kernel\s*\(")
_LAUNCHED_EX = re.compile(r"(?<!\w)cudaLaunchKernelEx\w*+\s*+\(")
_BACKWARDS = re.compile(r"\w++(?:\s*+::\s*+\w++)*+(?:\s*+::)?+")  # a name that is qualified, from its last letter
_GROUP = r"\((?:[^();=]|\((?:[^();=]|\([^();=]*+\))*+\))*+\)"
_VALUE = rf"=\s*+(?P<value>(?:[^;,=(){{}}]|{_GROUP})++)[;,]|\{{(?P<braced>[^{{}};]*+)\}}\s*+[;,]"
_CONSTANT = re.compile(  # the last of the words before its name is enough
    r"\b(?:static|inline|const|constexpr|unsigned|signed|long|short|int|size_t|auto|u?int\d{1,3}_t|uint|bool)"
    rf"[\s&]++(?P<name>[A-Za-z_]\w*+)\s*+(?:{_VALUE})"
)
_ENUMERATOR = re.compile(r"\benum\b(?:(?!\benum\b)[^{};])*+\{(?P<body>[^{}]*+)\}")
_DIM3 = re.compile(r"\bdim3\s+(?=[A-Za-z_])")
_DECLARATOR = re.compile(r"([A-Za-z_]\w*+)\s*+([({=].*)", re.DOTALL)
_SIZES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "half": 2, "__half": 2, "short": 2, "nv_bfloat16": 2,
    "__nv_bfloat16": 2, "int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "half2": 4,
    "long": 8, "double": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8, "float2": 8, "int2": 8, "float4": 16, "int4": 16,
    "uint4": 16, "double2": 16, "long long": 8, "unsigned long long": 8,
}  # fmt: skip
_LONGEST, LONGEST_NAME = 500, 2000  # characters of an expression; of a function with its template arguments
Sizes = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class LaunchSite:
    """A launch in the text: the function that it names, and its sizes as written; `offset` is where it stands."""

    name: str
    template_arguments: tuple[str, ...]
    grid: str
    block: str
    shared: str
    offset: int
    declaration: Declaration | None  # that it is a part of


@dataclass(frozen=True, kw_only=True)
class WrittenLaunch:
    """A launch of one kernel, as known from constants; None: the program computes it."""

    file: str
    line: int
    grid: Sizes | None
    block: Sizes | None
    shared: int | None


Call = tuple[str, str, str, str, int]  # the text that ends with the function, grid, block, shared memory, and an offset


def sites(unit: PreprocessedUnit) -> list[LaunchSite]:
    """Return all launches of a text, in order."""
    within = sorted((each for each in unit.declarations if each.has_body), key=lambda each: each.start)
    calls = sorted((*_chevrons(unit.text), *_calls(unit.text)), key=lambda call: call[-1])
    found = ((_function_at_end(text), sizes, offset) for text, *sizes, offset in calls)
    return [
        LaunchSite(
            name=named[0],
            template_arguments=named[1],
            grid=sizes[0],
            block=sizes[1],
            shared=sizes[2],
            offset=offset,
            declaration=next((each for each in within if each.start <= offset < each.end), None),
        )
        for named, sizes, offset in found
        if named
    ]


def _chevrons(text: str) -> Iterator[Call]:
    at = text.find("<<<")
    while at >= 0:
        end = text.find(">>>", at)
        if end < 0:
            return
        sizes = split_arguments(text[at + 3 : end].replace("->", ". "))
        if 2 <= len(sizes) <= 4:
            yield text[max(0, at - LONGEST_NAME) : at], sizes[0], sizes[1], (*sizes[2:], "0")[0], at
        at = text.find("<<<", at + 3)


def _calls(text: str) -> Iterator[Call]:
    for match in _LAUNCHED.finditer(text):
        arguments = _arguments(text, match.end())
        if len(arguments) >= 4:
            function = re.sub(r"^\(\s*(?:const\s+)?void\s*\*\s*\)|^&|^reinterpret_cast<[^>]*>", "", arguments[0])
            yield function.strip("()& "), arguments[1], arguments[2], (*arguments[4:], "0")[0], match.start()
    for match in _LAUNCHED_EX.finditer(text):
        arguments = [argument.lstrip("& ") for argument in _arguments(text, match.end())]
        if len(arguments) >= 2:
            config, function, *_ = arguments
            sizes = (f"{config}.{field}" for field in ("gridDim", "blockDim", "dynamicSmemBytes"))
            yield (function, *sizes, match.start())  # type: ignore[misc]


def _arguments(text: str, start: int) -> list[str]:
    """Return the arguments of a call whose opening bracket is just before `start`."""
    depth = 1
    for index in range(start, min(len(text), start + 4096)):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0:
            return split_arguments(text[start:index].replace("->", ". "))
    return []


def _function_at_end(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the function, and its template arguments, that a text ends with."""
    arguments, head = "", text[-LONGEST_NAME:].rstrip()
    if head.endswith(">"):
        depth = 0
        for index in range(len(head) - 1, -1, -1):
            depth += (head[index] == ">") - (head[index] == "<")
            if depth == 0:
                arguments, head = head[index + 1 : -1], head[:index].rstrip()
                break
        else:
            return None
    match = _BACKWARDS.match(head[::-1])
    name = re.sub(r"\s+", "", match[0][::-1]) if match else ""
    return (name, tuple(split_arguments(arguments))) if name and not name[0].isdigit() else None


# Sizes evaluated from constants.


def constants(unit: PreprocessedUnit, until: int, inside: Declaration | None) -> dict[str, str]:
    """Return the constants, and the dim3, that hold at an offset: those of namespaces, and of the function around it.

    A name that is defined twice with different values is none; in the function, the innermost definition counts.
    """
    texts = [unit.text[each.start : each.end] for each in unit.declarations if not each.has_body or _is_enum(each)]
    values = _values(texts)
    if inside is not None:
        body = unit.text[inside.start : until]
        local = dict(_defined(_open_blocks(body)))
        for name, value in _assigned(body):
            if not (name in local and value.startswith(local[name])):  # else it is one of several that are defined
                local[name] = value if name not in local else ""
        parameters = re.findall(r"(?<!\w)(\w++)\s*+(?:=[^,()=]*+)?(?=[,)])", inside.head)
        values = {name: value for name, value in values.items() if name not in parameters} | local
    return {name: value for name, value in values.items() if value}


def _is_enum(declaration: Declaration) -> bool:
    return re.match(r"\s*(typedef\s+)?enum\b", declaration.head) is not None


def _open_blocks(body: str) -> str:
    """Return a text without the blocks of statements that end in it."""
    kept, starts = [""], list[bool]()  # texts of the blocks that are open, and whether those have statements
    for part in re.split(r"([{};])", body):
        if part == "{":
            kept.append("{")
            starts.append(False)
        elif part == "}" and starts:
            block, has_statements = kept.pop(), starts.pop()
            kept[-1] += " " if has_statements else f"{block}}}"
        else:
            kept[-1] += part
            if part == ";" and starts:
                starts[-1] = True
    return "".join(kept)


def _values(texts: Iterable[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        for name, value in _defined(text):
            values[name] = value if values.get(name, value) == value else ""
    return values


def _defined(text: str) -> Iterator[tuple[str, str]]:
    """Yield the constants, dim3 and enumerators that a text defines."""
    values = [(match["name"], match["value"] or match["braced"]) for match in _CONSTANT.finditer(text)]
    for match in _DIM3.finditer(text):
        for part in split_arguments(text[match.end() : match.end() + _LONGEST].partition(";")[0]):
            if declared := _DECLARATOR.fullmatch(part):
                value = declared[2].removeprefix("=").strip()
                values.append((declared[1], value if declared[2].startswith("=") else f"dim3{value}"))
    for match in _ENUMERATOR.finditer(text):
        pairs = (part.partition("=") for part in match["body"].split(","))
        values += [(name.strip(), value.strip()) for name, _, value in pairs if value.strip()]
    yield from ((name, value.strip()) for name, value in values)


def _assigned(body: str) -> Iterator[tuple[str, str]]:
    """Yield what a function assigns to names, and to fields of a launch's configuration."""
    for match in re.finditer(r"(?<![\w.>])([A-Za-z_]\w*+(?:\.(?:gridDim|blockDim|dynamicSmemBytes))?)\s*+=(?!=)", body):
        before = body[max(0, match.start() - 40) : match.start()]
        if not re.search(r"[\w&*>]\s*$", before):  # not the definition itself
            value, end, _ = body[match.end() : match.end() + _LONGEST + 1].partition(";")
            yield match[1], value.strip() if end else ""
    for match in re.finditer(
        r"(?<![\w.])([A-Za-z_]\w*)(?:\s*(?:[-+*/%|&^]|<<|>>)=|\s*(?:\+\+|--)|\.[xyz]\s*=(?!=))", body
    ):
        yield match[1], ""


def evaluated(text: str, names: Mapping[str, str], depth: int = 0) -> int | None:
    """Return the value of an integer expression of C++ over constants; None if it is not constant."""
    if depth > 16 or len(text) > _LONGEST:
        return None
    expression = re.sub(r"\b(?:static_cast|int|unsigned|size_t)\s*<[^<>]*>\s*\(", "(", text)
    expression = re.sub(
        r"\bsizeof\s*+\(\s*+(\w++(?: ++\w++)*+)\s*+\)",
        lambda m: str(_SIZES.get(m[1]) or names.get(f"sizeof {m[1]}", "unknown")),
        expression,
    )
    expression = re.sub(r"\(\s*(?:unsigned\s+)?(?:int|size_t|long|unsigned|u?int\d+_t)\s*\)", "", expression)
    expression = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlLzZ]+\b", r"\1", expression)
    expression = re.sub(r"(?<!/)/(?!/)", "//", expression).strip()
    try:
        return _integer(ast.parse(expression.replace("::", "."), mode="eval").body, names, depth)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


_OPERATORS = OPERATORS | {
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}


def _integer(node: ast.expr, names: Mapping[str, str], depth: int) -> int:
    value: int | None = None
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            value = number
        case ast.Name() | ast.Attribute():  # a field, or a constant of a namespace or a class
            whole = ast.unparse(node)
            name = whole if whole in names or isinstance(node, ast.Name) else node.attr
            value = evaluated(names.get(name, ""), {**names, name: ""}, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = -_integer(operand, names, depth)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _integer(left, names, depth), _integer(right, names, depth)
            # C++ rounds towards zero, Python down: of negative numbers nothing is said.
            if a >= 0 and 0 <= b < (64 if isinstance(op, ast.LShift) else LIMIT):
                value = _OPERATORS[type(op)](a, b)
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[left, right]):
            if called in ("min", "max"):
                value = (min if called == "min" else max)(_integer(left, names, depth), _integer(right, names, depth))
    if value is None or abs(value) >= LIMIT:
        raise ValueError
    return value


def sizes(text: str, names: Mapping[str, str], depth: int = 0) -> Sizes | None:
    """Return a grid or a block, of a number, a dim3, or the name of one; None if it is not constant."""
    text = text.strip()
    if depth > 8:
        return None
    if match := re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", text, re.DOTALL) if text.startswith(("dim3", "{")) else None:
        parts = split_arguments(match[1])
        if len(parts) == 1 and re.fullmatch(r"[\w.]+", parts[0]) and parts[0] in names:
            return sizes(names[parts[0]], {**names, parts[0]: ""}, depth + 1)
        values = [evaluated(part, names) for part in parts]
        if len(values) > 3 or any(value is None or value < 1 for value in values):
            return None
        x, y, z = (*(value or 1 for value in values), 1, 1, 1)[:3]
        return x, y, z
    if re.fullmatch(r"[A-Za-z_][\w.]*", text) and text in names and names[text]:
        return sizes(names[text], {**names, text: ""}, depth + 1)
    value = evaluated(text, names)
    return (value, 1, 1) if value is not None and value >= 1 else None


def launches_of(unit: PreprocessedUnit, found: Sequence[LaunchSite], demangled: str) -> list[WrittenLaunch]:
    """Return the launches of one compiled kernel, an instance of a template or not.

    In a template that launches a template, an argument's value is that of the instance: with ``k<BLOCK><<<n, BLOCK>>>``
    a kernel ``k<128>`` has blocks of 128 threads.
    """
    name, arguments = names.function(demangled), instance_arguments(demangled)
    launches = []
    for site in found:
        if site.name.rpartition("::")[2] != name:
            continue
        known = constants(unit, site.offset, site.declaration)
        if site.template_arguments and arguments:
            if not _matches(site.template_arguments, arguments, known):
                continue
            known = known | _bound(site.template_arguments, arguments, known)
        file, line = unit.place(site.offset)
        shared = evaluated(site.shared, known)
        launches.append(
            WrittenLaunch(
                file=file, line=line, grid=sizes(site.grid, known), block=sizes(site.block, known), shared=shared
            )
        )
    return list(dict.fromkeys(launches))


def instance_arguments(demangled: str) -> list[str]:
    """Return the template arguments of a demangled function; none if it is not an instance."""
    last = names.split(names.qualified(demangled), "::")[-1]
    start = last.find("<")
    return split_arguments(last[start + 1 : closing_angle(last, start + 1)]) if start >= 0 else []


def _plain(argument: str) -> str:
    """Return a template argument without casts and suffixes: ``(int)32`` is 32."""
    return re.sub(r"\b(\d+)[uUlL]+\b", r"\1", re.sub(r"\([\w: ]+\)(?=-?\d)", "", argument)).replace(" ", "")


def _matches(written: Sequence[str], actual: Sequence[str], known: Mapping[str, str]) -> bool:
    """Return whether a launch can be that of an instance: no argument differs for certain."""
    for text, argument in zip(written, actual, strict=False):
        value, other = evaluated(text, known), _plain(argument)
        if value is not None and re.fullmatch(r"-?\d+", other) and value != int(other):
            return False
        if text in _SIZES and other in _SIZES and text != other:
            return False
    return True


def _bound(written: Sequence[str], actual: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return what the names among a launch's template arguments stand for in an instance."""
    bound: dict[str, str] = {}
    for text, argument in zip(written, actual, strict=False):
        if re.fullmatch(r"[A-Za-z_]\w*", text) and not known.get(text):
            plain = _plain(argument)
            if re.fullmatch(r"\d+", plain):
                bound[text] = plain
            elif plain in _SIZES:
                bound[f"sizeof {text}"] = str(_SIZES[plain])
    return bound


# Which instances of templates are compiled: those that a preprocessed text names with their arguments.
#
# A kernel is named by its launches, or where its address is taken. Arguments are constants, types, or what the
# template around is instantiated with; aliases and constants of the function around are put in their place; a type
# that a dispatch macro of PyTorch's stands for is each of the macro's types.

MOST_OF_ONE = 8  # instances of a template
MOST_DEEP = 3  # templates that are instantiated by one another
LONGEST = 2000  # characters of template arguments
_SCALAR = re.compile(r"(?:\w+::)*(?:float|double|(?:__)?half|Half|(?:__)?nv_bfloat16|BFloat16)")
_DISPATCH = re.compile(r"\b(?:AT|THC|TORCH)_?\w*DISPATCH\w*|\b(?:[A-Z]{1,12}_)?DISPATCH_\w+")
_SUPPOSED = re.compile(r"\bfloat\b")  # what is put in place of a type that the text does not say
_NAME = re.compile(r"(?<![\w.:])[A-Za-z_]\w*+")
_SCALARS = ("scalar", "T", "Dtype", "DType")  # and whatever has scalar_t in its name
_FLAGS = ("true", "false")


@dataclass(frozen=True)
class Instance:
    """A template to instantiate, or a kernel to keep though nothing refers to it; `typed`: one of several overloads.

    `supposed`: the text does not say for which types it is instantiated.
    """

    declaration: Declaration
    arguments: tuple[str, ...] = ()
    typed: bool = False
    supposed: bool = False

    @property
    def name(self) -> str:
        arguments = f"<{', '.join(self.arguments)}>" if self.arguments else ""
        return f"{self.declaration.name}{arguments}"

    def text(self, number: int) -> str:
        """Return a line that makes the compiler emit it: a variable of the same namespace that holds its address."""
        opening = "".join(f"namespace {name} {{ " for name in self.declaration.scope)
        variable = f"auto ncu_swizzle_{number}"
        if self.typed:
            bound = dict(zip(parameter_names(self.declaration), self.arguments, strict=False))
            parameters = re.sub(r"=[^,()]*", "", self.declaration.parameters)
            variable = (
                f"void (*ncu_swizzle_{number})({_NAME.sub(lambda match: bound.get(match[0], match[0]), parameters)})"
            )
        return f"{opening}static {variable} = &{self.name};{' }' * len(self.declaration.scope)}"


@dataclass(frozen=True)
class Reference:
    """Where the text names a template: with which arguments, and inside of which declaration."""

    arguments: tuple[str, ...]
    offset: int
    inside: Declaration | None


def is_type(parameter: str) -> bool:
    """Return whether a template's parameter is a type."""
    return re.match(r"(typename|class)\b", parameter) is not None


def parameter_names(declaration: Declaration) -> list[str]:
    """Return the names of a template's parameters; "" for one without."""
    return [_parameter_name(each) for each in declaration.template_parameters]


def _parameter_name(text: str) -> str:
    match = re.search(r"(?<!\w)([A-Za-z_]\w*+)\s*+\Z", text.partition("=")[0])
    return match[1] if match else ""


@dataclass(frozen=True, eq=False)
class Instances:
    """The instances of templates that a text names."""

    unit: PreprocessedUnit

    @cached_property
    def _bodies(self) -> list[Declaration]:
        return sorted((each for each in self.unit.declarations if each.has_body), key=lambda each: each.start)

    @cached_property
    def _starts(self) -> list[int]:
        return [each.start for each in self._bodies]

    def around(self, offset: int) -> Declaration | None:
        """Return the declaration with a body that a character is a part of."""
        at = bisect_right(self._starts, offset) - 1
        return self._bodies[at] if at >= 0 and offset < self._bodies[at].end else None

    def of(self, template: Declaration, launchers: Iterable[Declaration] = ()) -> list[Instance]:
        """Return instances of a kernel's template as the text names it, else of the host's templates that do.

        Without either, one of types alone is instantiated for float.
        """
        needed = [each for each in template.template_parameters if "=" not in each and "..." not in each]
        made = self._named(template, needed)
        if not made and (hosts := [each for each in launchers if self._mentions(each, template)]):
            return [one for each in hosts for one in self.of_host(each)]
        if not made and all(map(is_type, needed)):
            made = [("float",) * len(needed)]
        typed = sum(each.name == template.name and each.is_kernel for each in self._bodies) > 1
        return [Instance(template, each, typed, self._is_supposed(template, each)) for each in made]

    def of_host(self, template: Declaration) -> list[Instance]:
        """Return instances of a function's template as the text calls it."""
        made = self._named(template)
        return [Instance(template, each, supposed=self._is_supposed(template, each)) for each in made]

    def _is_supposed(self, template: Declaration, arguments: Iterable[str]) -> bool:
        """Return whether types of an instance are none that the text names."""
        return any(map(_SUPPOSED.search, arguments)) and not any(
            self._says_types(reference, MOST_DEEP) for reference in self.references(template.name)
        )

    def _says_types(self, reference: Reference, depth: int) -> bool:
        """Return whether the text says for which types a template is named there, be it by a template around."""
        if self._dispatched(reference):
            return True
        own, words = reference.inside, (*reference.arguments, *self._aliases(reference).values())
        outer = self.references(own.name) if depth and own and own.name and own.is_template else ()
        return any(map(_SUPPOSED.search, words)) or any(self._says_types(each, depth - 1) for each in outer)

    def _with_deduced(
        self, arguments: tuple[str, ...], needed: Sequence[str], reference: Reference
    ) -> Iterator[tuple[str, ...]]:
        """Yield template arguments with types that a launch leaves to its own: those that the text around it is for."""
        rest = needed[len(arguments) :]
        if not rest or not all(map(is_type, rest)):
            yield arguments
            return
        scalar = next((each for each in reversed(self._aliases(reference).values()) if _SCALAR.fullmatch(each)), "")
        for each in self._dispatched(reference) or [scalar or "float"]:
            yield (*arguments, *[each] * len(rest))

    def _mentions(self, host: Declaration, template: Declaration) -> bool:
        return host.is_template and bool(re.search(rf"\b{template.name}\s*<", self.unit.text[host.start : host.end]))

    def _named(self, template: Declaration, needed: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """Return the template arguments that the text has for a template, each once; `needed`: its parameters."""
        instances: dict[tuple[str, ...], None] = {}
        for reference in self.references(template.name):
            if len(instances) < MOST_OF_ONE:
                resolved = self._resolved(reference, MOST_DEEP)
                instances.update(
                    dict.fromkeys(one for each in resolved for one in self._with_deduced(each, needed, reference))
                )
        instances.pop((), None)
        return list(itertools.islice(instances, MOST_OF_ONE))

    def references(self, name: str) -> Iterator[Reference]:
        """Yield where the text names a template with arguments, or launches it without any."""
        text = self.unit.text
        for match in re.finditer(rf"\b{re.escape(name)}\s*<", text):
            inside = self.around(match.start())
            if inside is not None and inside.name == name:
                continue
            if text.startswith("<<<", match.end() - 1):
                yield Reference((), match.start(), inside)
                continue
            end = closing_angle(text[: match.end() + LONGEST], match.end())
            if end < match.end() + LONGEST:
                yield Reference(tuple(split_arguments(text[match.end() : end])), match.start(), inside)

    def _resolved(self, reference: Reference, depth: int) -> Iterator[tuple[str, ...]]:
        """Yield the arguments of a reference, in each instance of what is around it."""
        known = constants(self.unit, reference.offset, reference.inside)
        known |= self._aliases(reference)
        for bound in self._bindings(reference, depth):
            names = known | bound
            texts = [_expanded(text, names) for text in reference.arguments]
            yield from itertools.product(*(self._values(text, names, reference) for text in texts))

    def _aliases(self, reference: Reference) -> dict[str, str]:
        """Return the types that the function around a reference has other names for, before it."""
        if reference.inside is None:
            return {}
        aliases: dict[str, str] = {}
        for statement in re.split(r"[;{}]", self.unit.text[reference.inside.start : reference.offset]):
            words = " ".join(statement.split())
            if words.startswith("using ") and "=" in words:
                name, _, text = words.removeprefix("using ").partition("=")
                aliases[name.strip()] = text.strip()
            elif words.startswith("typedef "):
                text, _, name = words.removeprefix("typedef ").rpartition(" ")
                aliases[name] = text
        return aliases

    def _bindings(self, reference: Reference, depth: int) -> list[dict[str, str]]:
        """Return what parameters of the template around a reference are: as the text instantiates it, else usual."""
        own = reference.inside
        if own is None or not (names := parameter_names(own)):
            return [{}]
        bindings: dict[tuple[str, ...], None] = {}
        for outer in self.references(own.name) if depth and own.name else ():
            if outer.arguments and len(bindings) < MOST_OF_ONE:
                bindings.update(dict.fromkeys(self._resolved(outer, depth - 1)))
        if bindings:
            return [dict(zip(names, arguments, strict=False)) for arguments in itertools.islice(bindings, MOST_OF_ONE)]
        usual = [self._usual(parameter, reference) for parameter in own.template_parameters]
        return [
            {name: value for name, value in zip(names, values, strict=True) if value}
            for values in itertools.islice(itertools.product(*usual), MOST_OF_ONE)
        ]

    def _usual(self, parameter: str, reference: Reference) -> Sequence[str]:
        if is_type(parameter):
            return self._dispatched(reference) or ["float"]
        return _FLAGS if re.match(r"bool\b", parameter) else [parameter.partition("=")[2].strip()]

    def _values(self, text: str, names: Mapping[str, str], reference: Reference) -> Sequence[str]:
        """Evaluate a template argument: a number, each type of a dispatch macro, or itself."""
        if (value := evaluated(text, names)) is not None:
            return [str(value)]
        if scalar := next((word for word in _NAME.findall(text) if "scalar_t" in word or word in _SCALARS), ""):
            types = self._dispatched(reference) or ["float"]
            return [re.sub(rf"(?<![\w.:]){scalar}\b", each, text) for each in types]
        return [text]

    def _dispatched(self, reference: Reference) -> list[str]:
        """Return the types of the dispatch macro before a reference; none without one."""
        start = reference.inside.start if reference.inside else 0
        macros = _DISPATCH.findall(self.unit.text, start, reference.offset)
        if not macros:
            return []
        name = macros[-1]
        types = ["float", "double"] if "FLOAT" in name or "ALL" in name else ["float"]
        types += ["at::Half"] if "HALF" in name else []
        types += ["at::BFloat16"] if "BFLOAT16" in name or "BF16" in name else []
        return types + (["int"] if "ALL_TYPES" in name or "INTEGRAL" in name else [])


def _expanded(text: str, names: Mapping[str, str]) -> str:
    """Return a template argument with aliases, constants and parameters in place of their names."""

    def replaced(match: re.Match[str]) -> str:
        value = names.get(match[0])
        if not value or value == match[0] or not re.search(r"[-+*/%<>&|]", value) or re.match(r"[\w:]+\s*<.*>$", value):
            return value or match[0]
        return f"({value})"

    for _ in range(8):
        fewer = _NAME.sub(replaced, text)
        if fewer == text or len(fewer) > LONGEST:
            break
        text = fewer
    return text


def launching(unit: PreprocessedUnit, is_host: Callable[[Declaration], bool]) -> set[Declaration]:
    """Return the host's functions that name a template of a kernel, those that instantiate such, and what they call."""
    hosts = {
        each: frozenset(_NAME.findall(unit.text[each.start : each.end])) for each in unit.declarations if is_host(each)
    }
    wanted = {each.name for each in unit.declarations if each.is_kernel and each.is_template}
    kept: set[Declaration] = set()
    while more := {each for each, words in hosts.items() if each not in kept and not wanted.isdisjoint(words)}:
        kept |= more
        wanted = {each.name for each in more if each.is_template}
    called = kept
    while called := {each for each in hosts if each not in kept and any(each.name in hosts[one] for one in called)}:
        kept |= called
    return kept
