"""Kernels by name: C++ names as people read and write them, in a cubin, declared by a source, or passing the filter.

A demangled name is ``RETURN NAMESPACE::FUNCTION<TEMPLATE ARGUMENTS>(PARAMETERS)``, as ncu and c++filt print it. A cubin
has mangled names (Itanium C++ ABI); the C++ runtime demangles them.

The filter is `-k` of every command, of captures and of the Python API. It means what ncu's `--kernel-name` means: a
plain text is the whole name, and text after ``regex:`` is searched for. Numbers are names too; launches have their own
options.
"""

from __future__ import annotations

import ctypes
import difflib
import functools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.base.bounds import NamePattern, OutOfTime, answer_of
from ncu_swizzle.base.errors import Hint, Typed, UnknownKernel, UsageError
from ncu_swizzle.base.texts import one_line

if TYPE_CHECKING:
    from ncu_swizzle.cubin.elf import Cubin  # with NumPy, which the process that demangles does without

MOST = 60  # characters of a shortened name
LONGEST = 20_000  # characters of a name that are considered; a longer one is cut
LONGEST_MANGLED = 20_000
LONGEST_DEMANGLED = 200_000
FEW_REFERENCES = 8  # in a mangled name: with so few, what it repeats stays small
DEMANGLING_S = 2.0
CUT = "…"

_OPEN, _CLOSE = "(<[{", ")>]}"
_PAIRS = dict(zip(_CLOSE, _OPEN, strict=True))
_UNNAMED = re.compile(r"(\(anonymous namespace\)|<unnamed>|\(anonymous\)|\{anonymous\})::")
_CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
_LITERAL = re.compile(r"\b(\d+)(?:[uU]?[lL]{0,2})\b")
_QUALIFIER = re.compile(r"(?<![\w>)}\]])(?:\w+::)+(?=[\w~{])")
_OPERATOR = re.compile(r"operator\s*(\(\)|\[\]|<<=?|>>=?|<=>|[-+*/%^&|~!=<>]=?|->\*?|&&|\|\||\+\+|--|,)")


def demangle(name: str) -> str:
    """Return a C++ name demangled, ``void ns::fn<32>(float*, int)``; any other name unchanged."""
    return demangle_all([name])[name]


def demangle_all(names: Iterable[str]) -> dict[str, str]:
    """Return each name demangled. A name whose demangling takes too long or grows too large stays mangled."""
    every = dict.fromkeys(names)
    left = [name for name in every if name not in _REMEMBERED]
    mangled = [name for name in left if name.startswith("_Z") and len(name) <= LONGEST_MANGLED and "\0" not in name]
    simple = [name for name in mangled if name.count("S") + name.count("T") <= FEW_REFERENCES]
    others = tuple(name for name in mangled if name not in set(simple))
    demangled = translated(simple) | _translated_elsewhere(others)
    return {name: _REMEMBERED.get(name) or demangled.get(name) or name for name in every}


_REMEMBERED: dict[str, str] = {}


def remember(demangled: Mapping[str, str]) -> None:
    """Let names be demangled so from now on: many of them together, or once for several processes."""
    _REMEMBERED.update({name: text for name, text in demangled.items() if text != name})


def translated(names: Iterable[str]) -> dict[str, str]:
    translate = _translator()
    return {name: text for name in names if translate and (text := translate(name))}


_PROGRAM = """
from ncu_swizzle.cubin import names
found = names.translated(question)
answer = {name: text for name, text in found.items() if len(text) <= names.LONGEST_DEMANGLED}
"""


@functools.lru_cache(maxsize=64)
def _translated_elsewhere(names: tuple[str, ...]) -> dict[str, str]:
    """Demangle in a process that may run out of time and memory: a reference may double a name, again and again."""
    try:
        return dict(answer_of(_PROGRAM, names, DEMANGLING_S)) if names else {}
    except OutOfTime:
        return {}


@functools.cache
def _translator() -> Callable[[str], str | None] | None:
    try:
        translate = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):  # then only plain and mangled names can be matched
        return None
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    translate.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    translate.restype = ctypes.c_void_p

    def call(name: str) -> str | None:
        text = translate(name.encode(errors="replace"), None, None, ctypes.byref(ctypes.c_int()))
        try:
            return ctypes.string_at(text).decode(errors="replace") if text else None
        finally:
            free(text)

    return call


# ---------------------------------------------------------------------------------------------- names to show


def function(demangled: str) -> str:
    """Return a function's bare name: no namespace, template arguments, parameters or return type.

    A string without such a name is returned unchanged.
    """
    line = one_line(demangled[:LONGEST].strip())
    return _head(_last_part(line)).strip() or line


def shorten(demangled: str, most: int = MOST) -> str:
    """Return a function's name with its template arguments, without namespaces, in at most `most` characters."""
    line = one_line(demangled[:LONGEST].strip())
    plain = _QUALIFIER.sub("", _CAST.sub("", _UNNAMED.sub("", _last_part(line)))).strip() or line
    short = re.sub(r" (?=[>*&])", "", " ".join(_LITERAL.sub(r"\1", plain).split()))
    return short if len(short) <= most else short[: max(most, len(CUT)) - len(CUT)] + CUT


def distinct(demangled: Sequence[str], most: int = MOST) -> list[str]:
    """Return a short name for each launched function, in order; launches of the same function share it.

    Template arguments are only shown if they are needed to tell instances of one template apart.
    """
    instances: dict[str, set[str]] = {}
    for name in demangled:
        instances.setdefault(function(name), set()).add(name)
    short = {}
    for name in dict.fromkeys(demangled):
        bare = function(name)
        short[name] = shorten(name if len(instances[bare]) > 1 else bare, most)
    taken: dict[str, list[str]] = {}
    for name, text in short.items():
        taken.setdefault(text, []).append(name)
    for text, names in taken.items():  # still the same: truncated at the same place, or overloads
        for number, name in enumerate(names, start=1):
            short[name] = text if len(names) == 1 else f"{text} ({number})"
    return [short[name] for name in demangled]


# ---------------------------------------------------------------------------------------------- names to match


def qualified(demangled: str) -> str:
    """Return a name without return type and parameters: ``ns::fn<32>``."""
    return _signature(demangled)[0]


def parameter_types(demangled: str) -> list[str] | None:
    """Return the types of a function's parameters; None if the name has none, like a C function's, or is too long."""
    parameters = _signature(demangled)[1]
    if parameters is None or len(demangled) > LONGEST:
        return None
    return [part.strip() for part in split(parameters, ",")] if parameters.strip() else []


def spaceless(name: str) -> str:
    """Return a name normalized for comparison: no spaces, and 32 for 32u."""
    return re.sub(r"\b(\d+)[uUlL]+\b", r"\1", re.sub(r"\s+", "", name))


# ---------------------------------------------------------------------------------------------- parsing a name


def _signature(demangled: str) -> tuple[str, str | None]:
    """Return the qualified name with its template arguments, and the text of the parameter list."""
    text = re.sub(r"\s?\[clone [^][]*\]", "", demangled[:LONGEST].strip())
    opening = next((index for index, letter in _top_level(text) if letter == "(" and index), len(text))
    spaces = [index for index, letter in _top_level(text[:opening].rstrip()) if letter == " "]
    name = text[spaces[-1] + 1 if spaces else 0 : opening].strip()
    closing = text.rfind(")")
    return name, text[opening + 1 : closing] if opening < closing else None


def _last_part(demangled: str) -> str:
    return split(qualified(demangled), "::")[-1]


def _head(name: str) -> str:
    """Return a part of a name up to its first bracket."""
    end = next((index for index, letter in _top_level(name) if letter in "<(" and index), len(name))
    return name[:end]


def split(text: str, mark: str) -> list[str]:
    """Split a string at a mark, but not inside brackets."""
    parts, start = [], 0
    for index, _ in _top_level(text):
        if index >= start and text.startswith(mark, index):
            parts.append(text[start:index])
            start = index + len(mark)
    return [*parts, text[start:]]


def _top_level(text: str) -> Iterator[tuple[int, str]]:
    """Yield index and letter of each character outside all brackets, and of each outermost opening bracket.

    Brackets in operator names and around unnamed namespaces count as letters. An unclosed bracket stays open; a closing
    bracket without an opening one is a letter.
    """
    letters = {index for match in _OPERATOR.finditer(text) for index in range(*match.span(1))}
    letters |= {index for match in _UNNAMED.finditer(text) for index in range(*match.span(1))}
    opened: list[str] = []
    counts = Counter[str]()  # of the open brackets: looking through all for each closing one is quadratic
    for index, letter in enumerate(text):
        if index in letters or (letter == ">" and text[index - 1 : index] == "-"):
            continue
        if letter in _OPEN:
            if not opened:
                yield index, letter
            opened.append(letter)
            counts[letter] += 1
        elif letter in _CLOSE:
            if counts[_PAIRS[letter]]:
                while (closed := opened.pop()) != _PAIRS[letter]:
                    counts[closed] -= 1
                counts[closed] -= 1
        elif not opened:
            yield index, letter


# Ways to spell a function, from the whole signature to the last word of it.
SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda demangled: demangled,
    qualified,
    _last_part,
    lambda demangled: "::".join(_head(part) for part in split(qualified(demangled), "::")),
    lambda demangled: _head(_last_part(demangled)),
)


# Find a kernel in a cubin by any spelling of its name, and the kernels that a source declares.

MOST_LISTED = 8

_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*+"?', re.DOTALL)
_DECLARATION = re.compile(r"\b__global__\b([^;{]*)")
_ATTRIBUTE = re.compile(r"\b__\w+__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")  # __launch_bounds__(256), …
_CALLED = re.compile(r"\b(\w++)\s*+\(")


def find(cubin: Cubin, wanted: str) -> str:
    """Return the mangled name of the kernel called `wanted`; raise UnknownKernel, or UsageError if it is ambiguous.

    `wanted` is mangled or demangled, with or without parameters, namespace and template arguments; empty means the
    only kernel.
    """
    return find_among(list(cubin.kernels), wanted, cubin.name)


def find_among(symbols: Sequence[str], wanted: str, file: str) -> str:
    """Return the kernel of a file that is called `wanted`, see `find`."""
    if not wanted:
        return _only(symbols, file)
    if wanted in symbols:
        return wanted
    named = demangle_all(symbols)
    for spelling in SPELLINGS:
        matching = [
            mangled
            for mangled, name in sorted(named.items(), key=lambda item: item[1])
            if spaceless(spelling(name)) == spaceless(wanted)
        ]
        if len(matching) == 1:
            return matching[0]
        if matching:
            names = _listed([named[mangled] for mangled in matching])
            one = spelled(named[matching[0]], named.values())
            raise UsageError(
                f"{file} has {len(matching)} kernels called {wanted}: {names}",
                Hint("give the full name of one: ", Typed(f"--kernel {shlex.quote(one)}")),
            )
    near = difflib.get_close_matches(wanted, list(map(qualified, named.values())), n=1, cutoff=0)
    hint = Typed(f"--kernel {shlex.quote(near[0])}") if near else "name a file with kernels"
    raise UnknownKernel(f"{file} has no kernel {wanted}; it has {_listed(list(named.values())) or 'none'}", hint)


def only_kernel(cubin: Cubin) -> str:
    """Return the mangled name of the only kernel; raise UnknownKernel, with the candidates, if there are several."""
    return _only(cubin.kernels, cubin.name)


def _only(symbols: Sequence[str], file: str) -> str:
    if len(symbols) == 1:
        return symbols[0]
    named = list(demangle_all(symbols).values())
    hint = Typed(f"--kernel {shlex.quote(spelled(named[0], named))}") if named else "name a file with kernels"
    raise UnknownKernel(
        f"{file} has {len(symbols)} kernels: {_listed(named)}" if named else f"{file} has no kernel", hint
    )


def spelled(demangled: str, others: Iterable[str]) -> str:
    """Return the shortest name that identifies this kernel to `find`: with parameters if it is overloaded."""
    name = qualified(demangled)
    return name if sum(qualified(other) == name for other in others) < 2 else demangled


def _listed(names: Sequence[str]) -> str:
    shown = sorted(spelled(name, names) for name in names)
    more = f" and {len(shown) - MOST_LISTED} more" if len(shown) > MOST_LISTED else ""
    return ", ".join(shown[:MOST_LISTED]) + more


def declared_kernels(text: str) -> list[str]:
    """Return the names of the ``__global__`` functions that a source text declares or defines, each once."""
    code = _COMMENT.sub(" ", text)
    heads = (_CALLED.search(_ATTRIBUTE.sub(" ", match[1])) for match in _DECLARATION.finditer(code))
    return list(dict.fromkeys(head[1] for head in heads if head))


def declared_parameters(text: str, function: str, count: int) -> list[str]:
    """Return the parameters of a ``__global__`` function as a source text declares them; empty if it does not.

    If it is overloaded, these are the first with that many parameters.
    """
    code = _COMMENT.sub(" ", text)
    for match in _DECLARATION.finditer(code):
        head = _CALLED.search(plain := _ATTRIBUTE.sub(" ", match[1]))
        if head and head[1] == function:
            inner = plain[head.end() : plain.rfind(")")]
            parameters = [" ".join(part.split()) for part in split(inner, ",") if part.strip()]
            if len(parameters) == count:
                return parameters
    return []


REGEX = "regex:"
FORM = "NAME|regex:EXPR"


@dataclass(frozen=True)
class KernelFilter:
    """A kernel's exact name, or ``regex:EXPRESSION``; empty lets every kernel pass. `origin` is what was typed."""

    text: str = ""
    origin: str = "--kernel-name"

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def expression(self) -> str:
        """The searched expression; empty for a plain name."""
        return self.text.removeprefix(REGEX) if self.text.startswith(REGEX) else ""

    def checked(self) -> KernelFilter:
        """Return the filter, or raise UsageError if its expression is not valid."""
        if self.expression:
            _ = self._pattern.compiled
        return self

    def passes(self, names: Iterable[str]) -> bool:
        """Return whether a kernel with these names passes: its mangled and demangled one, that of the catalogue.

        Each also counts without namespace and parameters, and without template arguments. Raises UsageError if the
        expression is not valid, or takes too long to match.
        """
        if not self.text:
            return True
        full = [name for name in names if name]
        short = [part(name) for name in full for part in (function, shorten)]
        every = dict.fromkeys((*full, *short))
        if not self.text.startswith(REGEX):
            return self.text in every
        # A filter never means the letters of a mangled name, unless it cannot be demangled.
        return self._pattern.found_in([name for name in every if not name.startswith("_Z")] or every)

    @property
    def _pattern(self) -> NamePattern:
        return NamePattern(self.expression, self.origin)
