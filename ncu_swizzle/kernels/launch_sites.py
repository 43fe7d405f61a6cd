"""Launches as a source writes them down: ``f<float, 64><<<grid, block, shared>>>``, cudaLaunchKernel, dim3, constants.

Only what follows from constants is a fact; a size that the program computes is unknown. Nothing is executed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.base.validate import LIMIT
from ncu_swizzle.cubin import names
from ncu_swizzle.kernels.declarations import Declaration, PreprocessedUnit, closing_angle, split_arguments
from ncu_swizzle.kernels.limits import OPERATORS

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
