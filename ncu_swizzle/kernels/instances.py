"""Which instances of templates are compiled: those that a preprocessed text names with their arguments.

A kernel is named by its launches, or where its address is taken. Arguments are constants, types, or what the template
around is instantiated with; aliases and constants of the function around are put in their place; a type that a dispatch
macro of PyTorch's stands for is each of the macro's types.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ncu_swizzle.kernels import launch_sites
from ncu_swizzle.kernels.declarations import Declaration, PreprocessedUnit, closing_angle, split_arguments

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
        known = launch_sites.constants(self.unit, reference.offset, reference.inside)
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
        if (value := launch_sites.evaluated(text, names)) is not None:
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
