"""How a kernel is launched, as a client describes it: the fields of ncu-swizzle.toml's entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ncu_swizzle.catalog.kernel_options import KernelDescription, PairOptions
from ncu_swizzle.errors import UsageError
from ncu_swizzle.texts import Sizes

LISTS = ("args", "define", "include", "option")
RENAMED = {"kernel": "entry", "option": "tuning"}  # fields that the commands call otherwise


@dataclass(frozen=True)
class LaunchGiven:
    """One launch of a kernel in a file; empty where ncu-swizzle.toml or the file says it."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - for schemas made of this class: no field is ignored

    kernel: str = ""  # the function
    grid: Sizes = ""
    block: Sizes = ""
    shared: str | int = ""
    args: tuple[str, ...] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    define: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    std: str = ""
    option: tuple[str, ...] = ()  # of a kernel written in Python: num_warps=8
    arch: str = ""
    sample: int | None = None

    @classmethod
    def of_json(cls, content: Mapping[str, Any] | None) -> LaunchGiven:
        """Return what a client sent; raise UsageError for a field that does not exist."""
        given: dict[str, Any] = dict(content or {})
        names = [each.name for each in fields(cls)]
        for name in given:
            if name not in names:
                raise UsageError(f"launch has no field {name!r}", f"its fields: {', '.join(names)}")
        lists = {name: tuple(given[name]) for name in LISTS if name in given}
        return cls(**{**given, **lists})

    def described(self) -> KernelDescription:
        """Return the description that all commands take. Raises UsageError."""
        options = PairOptions(
            entry=self.kernel,
            grid=self.grid,
            block=self.block,
            shared=self.shared,
            args=self.args,
            define=self.define,
            include=self.include,
            std=self.std,
            tuning=self.option,
            arch=self.arch,
            sample=self.sample,
        )
        return options.described(self.problem)

    def as_json(self) -> dict[str, Any]:
        """Return what is given, as a client sends it."""
        given = {name: value for name, value in vars(self).items() if value not in ("", (), {}, None)}
        return {name: list(value) if name in LISTS else value for name, value in given.items()}

    def keywords(self) -> dict[str, Any]:
        """Return what is given as the keywords of `api.functions`."""
        return {RENAMED.get(name, name): value for name, value in self.as_json().items()}
