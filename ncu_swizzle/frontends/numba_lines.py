"""The lines of functions that Numba itself inlines: those under ``inline="always"``, and functions within a kernel.

Numba keeps the lines of their statements but says that they are the kernel's file's, and not who calls them. Here each
statement keeps its callers, and is located in its own function, inlined into them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FRAMES = "ncu_swizzle_frames"  # of a statement's location: itself and its callers, innermost first


@dataclass(frozen=True)
class InlinedFunction:
    """A function that was inlined: its name, its file, and the line that it begins at."""

    name: str
    file: str
    line: int


Frame = tuple[int, InlinedFunction | None]  # a line, and the function that it is in; None for the one compiled


def keep_callers() -> None:
    """Have Numba's inlining keep callers, and its code be located with them; does nothing for an unknown version."""
    try:
        from numba.cuda import debuginfo, lowering
        from numba.cuda.core import inline_closurecall

        worker, closure = inline_closurecall.InlineWorker.inline_ir, inline_closurecall.inline_closure_call
        located = lowering.Lower.lower_inst
        usual = debuginfo.DIBuilder._di_location
    except (ImportError, AttributeError):
        return

    def inline_ir(self: Any, caller_ir: Any, block: Any, i: int, callee_ir: Any, *more: Any, **named: Any) -> Any:
        called = block.body[i].loc
        made = worker(self, caller_ir, block, i, callee_ir, *more, **named)
        function = callee_ir.func_id
        _note(
            made[1].values(), called, InlinedFunction(function.func_qualname, function.filename, function.firstlineno)
        )
        return made

    def inline_closure_call(func_ir: Any, glbls: Any, block: Any, i: int, callee: Any, *more: Any, **named: Any) -> Any:
        called = block.body[i].loc
        code = callee.code if hasattr(callee, "code") else callee.__code__
        made = closure(func_ir, glbls, block, i, callee, *more, **named)
        _note(made[0].values(), called, InlinedFunction(code.co_name, code.co_filename, code.co_firstlineno))
        return made

    def lower_inst(self: Any, inst: Any) -> None:
        setattr(self.debuginfo, FRAMES, getattr(self.loc, FRAMES, ()))
        located(self, inst)

    def _di_location(self: Any, line: int) -> Any:
        frames: tuple[Frame, ...] = getattr(self, FRAMES, ())
        return _location(self, frames) if frames else usual(self, line)

    inline_closurecall.InlineWorker.inline_ir = inline_ir
    inline_closurecall.inline_closure_call = inline_closure_call
    lowering.Lower.lower_inst = lower_inst
    debuginfo.DIBuilder._di_location = _di_location


def _note(blocks: Iterable[Any], called: Any, function: InlinedFunction) -> None:
    """Note the callers of statements that were inlined; those that were inlined into them before have some already."""
    callers: tuple[Frame, ...] = getattr(called, FRAMES, ((called.line, None),))
    for block in blocks:
        for statement in block.body:
            inner: tuple[Frame, ...] = getattr(statement.loc, FRAMES, ((statement.loc.line, None),))
            own = (*inner[:-1], (inner[-1][0], function))
            statement.loc = copy.copy(statement.loc)
            setattr(statement.loc, FRAMES, (*own, *callers))


def _location(builder: Any, frames: Iterable[Frame]) -> Any:
    """Return the debug location of inlined code, made from the outermost frame inwards."""
    made: Any = None
    for line, function in reversed(tuple(frames)):
        scope = _subprogram(builder, function) if function else builder.subprograms[-1]
        operands = {"line": line, "column": 1, "scope": scope, **({"inlinedAt": made} if made else {})}
        made = builder.module.add_debug_info("DILocation", operands, is_distinct=True)
    return made


def _subprogram(builder: Any, function: InlinedFunction) -> Any:
    """Return the debug information of an inlined function, made once per module."""
    known = vars(builder).setdefault("ncu_swizzle_functions", {})
    if function not in known:
        known[function] = _described(builder, function)
    return known[function]


def _described(builder: Any, function: InlinedFunction) -> Any:
    at = Path(function.file).absolute()
    add = builder.module.add_debug_info
    file = add("DIFile", {"directory": str(at.parent), "filename": at.name})
    signature = add("DISubroutineType", {"types": builder.module.add_metadata([])})
    described = {"name": function.name, "linkageName": function.name, "scope": file, "file": file,
                 "line": function.line, "type": signature, "isLocal": True, "isDefinition": True,
                 "scopeLine": function.line, "isOptimized": True, "unit": builder.dicompileunit}  # fmt: skip
    return add("DISubprogram", described, is_distinct=True)
