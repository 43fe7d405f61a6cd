"""The kernels in a cubin, by the names that people give them; and those that a source declares.

A cubin names C++ functions as the compiler mangles them (Itanium C++ ABI); the C++ runtime translates them back.
"""

from __future__ import annotations

import ctypes
import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from ncu_swizzle.errors import UnknownKernel, UsageError

_CONSTANTS, _INFO = ".nv.constant0.", ".nv.info."  # every kernel has both, other functions have neither
_ANONYMOUS = "(anonymous namespace)"
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DECLARATION = re.compile(r"\b__global__\b([^;{]*)")
_ATTRIBUTE = re.compile(r"\b__\w+__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")  # __launch_bounds__(256), …
_CALLED = re.compile(r"(\w+)\s*\(")


def kernels(cubin: bytes) -> list[str]:
    """Return the mangled names of the kernels in a cubin; raise UsageError where it is none."""
    try:
        names = [section.name for section in ELFFile(io.BytesIO(cubin)).iter_sections()]
    except ELFError as error:
        raise UsageError(f"the compiler's output cannot be read: {error}", "compile again") from error
    known = {name.removeprefix(_CONSTANTS) for name in names if name.startswith(_CONSTANTS)}
    return [name.removeprefix(_INFO) for name in names if name.removeprefix(_INFO) in known]


def find(cubin: bytes, wanted: str, file: str = "the source") -> str:
    """Return the mangled name of the kernel called `wanted`; raise UnknownKernel, or UsageError where several are.

    `wanted` is mangled or demangled, with or without its parameters, namespace and template arguments.
    """
    found = kernels(cubin)
    if wanted in found:
        return wanted
    named = {mangled: demangle(mangled) for mangled in found}
    for shorten in _WAYS:
        matching = [
            mangled
            for mangled, name in sorted(named.items(), key=lambda one: one[1])
            if _spaceless(shorten(name)) == _spaceless(wanted)
        ]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise UsageError(
                f"{file} has {len(matching)} kernels called {wanted}: {_listed(named[one] for one in matching)}",
                f'name one of them whole: --kernel "{qualified(named[matching[0]])}"',
            )
    raise UnknownKernel(
        f"{file} has no kernel {wanted}" + (f"; it has {_listed(named.values())}" if named else ""),
        f'--kernel "{qualified(next(iter(named.values())))}"' if named else "a template has to be instantiated there",
    )


def _listed(names: Iterable[str]) -> str:
    shown = sorted(qualified(name) for name in names)
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def declared(text: str) -> list[str]:
    """Return the names of the ``__global__`` functions that a source's text declares or defines, each once."""
    code = _COMMENT.sub(" ", text)
    heads = (_CALLED.search(_ATTRIBUTE.sub(" ", found[1])) for found in _DECLARATION.finditer(code))
    return list(dict.fromkeys(head[1] for head in heads if head))


# ---------------------------------------------------------------------------------------------- names


def demangle(name: str) -> str:
    """Return a C++ name as people write it, ``void ns::fn<32>(float*, int)``; any other name as it is."""
    translate = _translator()
    return (translate(name) or name) if translate and name.startswith("_Z") else name


@functools.cache
def _translator() -> Callable[[str], str | None] | None:
    try:
        translate = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):  # then only plain names and mangled ones are found
        return None
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    translate.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    translate.restype = ctypes.c_void_p

    def call(name: str) -> str | None:
        text = translate(name.encode(), None, None, ctypes.byref(ctypes.c_int()))
        try:
            return ctypes.string_at(text).decode() if text else None
        finally:
            free(text)

    return call


def qualified(name: str) -> str:
    """Return a demangled name without what it returns and takes: ``ns::fn<32>``."""
    head = name[: _parameters_at(name)]
    return head.removeprefix("void ") if "<" in head else head


def parameters(name: str) -> list[str] | None:
    """Return the types of a demangled name's parameters; None where the name tells none, as that of a C function."""
    start = _parameters_at(name)
    if start == len(name):
        return None
    inside = name[start + 1 : name.rindex(")")]
    return [part.strip() for part in _split(inside, ",")] if inside.strip() else []


def _parameters_at(name: str) -> int:
    hidden = name.replace(_ANONYMOUS, "_" * len(_ANONYMOUS))
    return next((at for at, depth, character in _walk(hidden) if character == "(" and depth == 0), len(name))


def _walk(name: str) -> Iterator[tuple[int, int, str]]:
    """Yield each character's place, and how many brackets are open around it."""
    depth = 0
    for at, character in enumerate(name):
        depth -= character in ")]}>"
        yield at, depth, character
        depth += character in "([{<"


def _split(name: str, mark: str) -> list[str]:
    cuts = [at for at, depth, _ in _walk(name) if depth == 0 and name.startswith(mark, at)]
    starts = [0, *(cut + len(mark) for cut in cuts)]
    return [name[start:end] for start, end in zip(starts, [*cuts, len(name)], strict=True)]


def _plain(name: str) -> str:
    """Return a qualified name without its namespaces."""
    return _split(name, "::")[-1]


def _untemplated(name: str) -> str:
    return name[: next((at for at, depth, character in _walk(name) if character == "<" and depth == 0), len(name))]


# From the whole name to the last word of it.
_WAYS: tuple[Callable[[str], str], ...] = (
    lambda name: name,
    qualified,
    lambda name: _plain(qualified(name)),
    lambda name: "::".join(_untemplated(part) for part in _split(qualified(name), "::")),
    lambda name: _untemplated(_plain(qualified(name))),
)


def _spaceless(name: str) -> str:
    """Return a name as it is compared: without spaces, and 32u as 32."""
    return re.sub(r"\b(\d+)[uUlL]+\b", r"\1", re.sub(r"\s+", "", name))
