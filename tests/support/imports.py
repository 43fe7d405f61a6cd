"""Which modules a statement loads."""

import subprocess
import sys

HEAVY = {"pandas", "numpy", "jinja2", "pygments", "pycuda", "ncu_report", "torch", "rich.console"}


def imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
