"""The program: `invariance`, and `python -m invariance`."""

from __future__ import annotations

import gc
import sys

# Objects that are made before Python looks for garbage: imports make many and leave next to none of
# them behind.
_BETWEEN_COLLECTIONS = 50_000


def main() -> None:
    gc.set_threshold(_BETWEEN_COLLECTIONS)
    for stream in (sys.stdout, sys.stderr):
        # Bars and dots must not stop a result from being printed where the encoding lacks them.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        from .cli.main import app

        app(prog_name="invariance")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        # the end takes half a second where all that was imported is looked through once more
        gc.freeze()


if __name__ == "__main__":
    main()
