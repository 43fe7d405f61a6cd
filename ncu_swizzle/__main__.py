"""The entry point of ``ncu-swizzle`` and ``python -m ncu_swizzle``."""

from __future__ import annotations

import sys

if __name__ == "__main__" and __spec__ and not sys.flags.safe_path:
    # python -m put the current folder first: no module is to be imported from a checkout.
    del sys.path[:1]

import gc
import os
import signal

GARBAGE = 100_000  # objects between garbage collections, which by default take a third of reading and rendering
ENDING = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


def main() -> int:
    """Run the command line and return the exit code."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _end_loading)
    try:
        _open_streams()
        gc.set_threshold(GARBAGE)
        from ncu_swizzle.base import bounds

        bounds.ask_before_numpy()
        from ncu_swizzle import cli

        return cli.main()
    except (KeyboardInterrupt, SystemExit) as stop:  # between the end of the command and that of this function
        from ncu_swizzle.commands import output

        return output.stopped(stop)
    except Exception as error:  # such as an installation that lacks a package or a file
        from ncu_swizzle.commands import output

        return output.explain(error)
    finally:  # what is left takes a moment, and the command has had its word
        gc.freeze()  # the interpreter's last collections would look at every profile once more
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)


def _end_loading(number: int, frame: object) -> None:  # noqa: ARG001 - what signal handlers are given
    """End while modules are loading, where nothing has to be cleaned up."""
    os.write(2, f"{ENDING[signal.Signals(number)]}: nothing was written\n".encode())
    os._exit(128 + number)


def _open_streams() -> None:
    """Open the standard streams that the caller closed: the next file opened would get their number.

    Writing to a closed stdout has to fail, as it does for any program; what goes to a closed stderr is lost.
    """
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:  # a lower one is closed too, and Python gave it to something else
                os.dup2(opened, number)
                os.close(opened)
            mode, errors = ("w", "backslashreplace") if number else ("r", "surrogateescape")
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors=errors, closefd=False))


if __name__ == "__main__":
    sys.exit(main())
