"""Shared-memory bank conflicts, measured: Nsight Compute before and after a swizzle.

    import ncu_swizzle

    run = ncu_swizzle.profile("kernel2")
    run.profile.to_frame("accesses")

``docs/python.md`` describes what is offered here. It is imported when it is first used: the import alone stays fast.
"""

import sys

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from ncu_swizzle.answers import Profiles, ProgramResult, Result
    from ncu_swizzle.api import check, compare, profile, profile_program, read, report
    from ncu_swizzle.compare import Comparison
    from ncu_swizzle.errors import NcuSwizzleError
    from ncu_swizzle.profile import Profile
    from ncu_swizzle.testing import assert_degree, assert_no_excess

__all__ = [
    "Comparison",
    "NcuSwizzleError",
    "Profile",
    "Profiles",
    "ProgramResult",
    "Result",
    "assert_degree",
    "assert_no_excess",
    "check",
    "compare",
    "profile",
    "profile_program",
    "read",
    "report",
]

_HOMES = {
    "Comparison": "compare",
    "NcuSwizzleError": "errors",
    "Profile": "profile",
    "Profiles": "answers",
    "ProgramResult": "answers",
    "Result": "answers",
    "assert_degree": "testing",
    "assert_no_excess": "testing",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(type(sys)):  # type: ignore[misc]  # the type of modules
    """The package: its functions `profile` and `compare` win over the modules of the same names."""

    def __setattr__(self, name: str, value: object) -> None:
        # Importing ncu_swizzle.profile would bind it here. `from ncu_swizzle.profile import …` needs no such binding.
        if name not in __all__:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
