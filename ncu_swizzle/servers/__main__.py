"""The process that makes one call.

    python -m ncu_swizzle.servers FOLDER

The folder has the request; the answer, or an error, goes there too. Each line on stdout tells how far the call is.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import InternalError, NcuSwizzleError, as_json, error_of_system
from ncu_swizzle.base.files import brief, read_json, write_json
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.commands.groups import Hearing
from ncu_swizzle.engines.settings import Done
from ncu_swizzle.servers.answer import ANSWER, REQUEST, Answer, Caller, Folders, LaunchGiven, hint, progress_line

REPORT = "report it where you got ncu-swizzle, with the call that you made"
# Each call's module, imported when it is called.
OTHERS = (
    "judge",
    "lint",
    "check",
    "lines",
    "line",
    "fix",
    "rewrite",
    "profile",
    "compare",
    "read_report",
    "explain",
    "suggest",
)
CALLS: Mapping[str, str] = {"list_kernels": "answer", **dict.fromkeys(OTHERS, "calls")}


def answer(request: Mapping[str, Any]) -> Answer:
    """Return the answer to a request. Raises NcuSwizzleError."""
    arguments = dict(request["arguments"])
    if "launch" in arguments:
        arguments["launch"] = LaunchGiven.of_json(arguments["launch"])
    caller = Caller(Folders.of_json(request["folders"]), Hearing(_tell), request["timeout_s"])
    name = request["call"]
    result: Answer = getattr(importlib.import_module(f"ncu_swizzle.servers.{CALLS[name]}"), name)(caller, **arguments)
    return result


def _tell(name: str, done: Done) -> None:
    sys.stdout.write(progress_line(name, done))
    sys.stdout.flush()


def main() -> int:
    folder = Path(sys.argv[1])
    request = read_json(folder / REQUEST)
    try:
        content = {"answer": answer(request).as_json()}
        in_json(content)  # an answer that cannot be sent is our bug, not the client's
    except NcuSwizzleError as error:
        content = {"error": _error(error)}
    except OSError as error:
        content = {"error": _error(error_of_system(error))}
    except Exception as error:
        traceback.print_exc()
        bug = InternalError(
            f"a bug in ncu-swizzle: {brief(error)}", "the same command on the command line keeps a file"
        )
        content = {"error": _error(bug)}
    write_json(folder / ANSWER, content)
    return 0


def _error(error: NcuSwizzleError) -> dict[str, Any]:
    error.hint = hint(error)
    return as_json(error)


if __name__ == "__main__":
    sys.exit(main())
