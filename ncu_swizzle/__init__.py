"""Shared-memory bank conflicts, measured: Nsight Compute before and after a swizzle.

    import ncu_swizzle

    run = ncu_swizzle.profile("kernel2")
    run.profile.to_frame("accesses")

``docs/python.md`` describes the functions and classes. Each is imported on first use, so that the import is fast.
"""

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without the time to import typing
if TYPE_CHECKING:
    from ncu_swizzle.base.errors import NcuSwizzleError
    from ncu_swizzle.commands.answers import (
        Comparison,
        Profile,
        Profiles,
        ProgramResult,
        Result,
        assert_degree,
        assert_no_excess,
    )
    from ncu_swizzle.commands.api import (
        banks,
        check,
        compare,
        judge,
        lint,
        predict,
        profile,
        profile_program,
        profile_sweep,
        prove,
        read,
        report,
        run,
        suggest,
    )

__all__ = [
    "Comparison",
    "NcuSwizzleError",
    "Profile",
    "Profiles",
    "ProgramResult",
    "Result",
    "assert_degree",
    "assert_no_excess",
    "banks",
    "check",
    "compare",
    "judge",
    "lint",
    "predict",
    "profile",
    "profile_program",
    "profile_sweep",
    "prove",
    "read",
    "report",
    "run",
    "suggest",
]

_HOMES = {
    "Comparison": "commands.answers",
    "NcuSwizzleError": "base.errors",
    "Profile": "commands.answers",
    "Profiles": "commands.answers",
    "ProgramResult": "commands.answers",
    "Result": "commands.answers",
    "assert_degree": "commands.answers",
    "assert_no_excess": "commands.answers",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'commands.api')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
