"""The points of a sweep as a Parquet file, for pandas, DuckDB, Polars: `table.COLUMNS`, and where each point ran."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import pandas as pd

from ncu_swizzle.errors import BadFile, DamagedFile, EnvironmentLacking
from ncu_swizzle.files import brief, is_folder, read_bytes, write_atomically
from ncu_swizzle.profiles.frames import RATIO, TEXT, Column
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.outcome import Sweep
from ncu_swizzle.sweep.table import PointRow
from ncu_swizzle.texts import encodable

DATASET = "points.parquet"
INSTALL = "pip install 'ncu-swizzle[fleet]'"

# Of the machines; what `table.COLUMNS` lacks because it differs from run to run.
WHERE: tuple[Column[PointRow], ...] = (
    Column("driver", TEXT, "", "the GPU's driver", lambda r: r.values.machine.driver if r.values else ""),
    Column("ncu", TEXT, "", "the ncu that measured", lambda r: r.values.machine.ncu if r.values else ""),
    Column("clocks", TEXT, "", "ncu's clock control", lambda r: r.values.machine.clock_control if r.values else ""),
    Column("when", TEXT, "", "the day and time in UTC", lambda r: r.values.when if r.values else ""),
    Column("worker", TEXT, "", "the worker; empty: none, one process did it all", lambda r: r.outcome.where.worker),
    Column("host", TEXT, "", "the worker's machine", lambda r: r.outcome.where.host),
    Column("gpu_uuid", TEXT, "", "the worker's GPU", lambda r: r.outcome.where.uuid),
    Column("seconds", RATIO, "s", "with building and checking", lambda r: r.outcome.where.seconds or None),
)


def write(sweep: Sweep, folder: Path) -> None:
    """Write the dataset into the sweep's folder if pyarrow is installed."""
    if importlib.util.find_spec("pyarrow") is None:
        return
    content = io.BytesIO()
    points = table.to_frame(sweep, WHERE)
    texts: pd.Index[str] = points.select_dtypes("string").columns
    points[texts] = points[texts].map(encodable)
    points.columns = pd.Index([encodable(str(name)) for name in points.columns])
    points.to_parquet(content, engine="pyarrow", index=False)
    write_atomically(folder / DATASET, content.getvalue())


def load_sweep(path: str | Path) -> pd.DataFrame:
    """Return the points of a sweep, given its folder or its points.parquet: a row per point, unknown values NA.

    The columns are ``kernel``, the problem's sizes, and those that docs/sweep.md lists. Raises BadFile, DamagedFile,
    and EnvironmentLacking without pyarrow.
    """
    path = Path(path)
    if importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentLacking("pyarrow is not installed, which reads and writes Parquet", INSTALL)
    file = path / DATASET if is_folder(path) else path
    if is_folder(path) and not file.exists():
        raise BadFile(
            f"{path} has no {DATASET}: without pyarrow none is written",
            f"{INSTALL}, then add -o {path} --resume to the command of the sweep",
        )
    data = read_bytes(file, "give the folder of a sweep, such as swizzle-out/sweep-gemm")
    try:
        return pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except Exception as error:  # pyarrow's own, and whatever a damaged file leads to
        raise DamagedFile(f"{file} is damaged: {brief(error)}", "run the sweep again with --resume") from error
