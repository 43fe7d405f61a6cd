"""Options that describe a kernel of a user's own .cu file, shared by the commands that build kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EntryOption = Annotated[
    str, typer.Option("--kernel", metavar="FUNCTION", help="Of a .cu: its kernel, such as fn, ns::fn or 'fn<32>'.")
]
GridOption = Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Of a .cu: blocks, such as n//32,n//32.")]
BlockOption = Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Of a .cu: threads of a block.")]
SharedOption = Annotated[str, typer.Option(metavar="BYTES", help="Of a .cu: dynamic shared memory of a block.")]
ArgOption = Annotated[
    list[str],
    typer.Option("--arg", metavar="ARG", help="Of a .cu: one for each parameter, in order; see above."),
]
DefineOption = Annotated[
    list[str], typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="Of a .cu: a macro; repeat it.")
]
IncludeOption = Annotated[
    list[str], typer.Option("-I", "--include", metavar="FOLDER", help="Of a .cu: where headers are; repeat it.")
]
StandardOption = Annotated[str, typer.Option("--std", metavar="STANDARD", help="Of a .cu: c++17, c++20 …")]
NvccOption = Annotated[
    list[str], typer.Option("--nvcc-option", metavar="OPTION", help="Of a .cu: goes to nvcc; repeat it.")
]
BeforeOption = Annotated[
    list[str], typer.Option(metavar="OPTIONS", help="Of a .cu: nvcc's options of the kernel before, as -DSWIZZLE=0.")
]
AfterOption = Annotated[
    list[str], typer.Option(metavar="OPTIONS", help="Of a .cu: those of the kernel after; both are profiled.")
]
ConfigOption = Annotated[
    str, typer.Option(metavar="FILE|none", help="Kernels and families; default: the nearest ncu-swizzle.toml.")
]
CatalogOption = Annotated[
    list[Path], typer.Option("--catalog", metavar="FOLDER", help="Families of your own; repeat it.")
]
