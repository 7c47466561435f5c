"""A table from the browser to a file, piece by piece, up to a limit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import create_form_parser
from starlette.requests import Request

from ...exceptions import DataError

LARGEST = 200_000_000
_LONGEST_NAME = 200  # bytes
NO_FILE = "No table came with this request: choose a file first."


class TooLargeError(DataError):
    """More than is taken."""


async def receive_table(request: Request, folder: Path, largest: int = LARGEST) -> tuple[Path, dict[str, str]]:
    """The file, under its own name, in a new folder inside the given one; and the other fields that are not empty.

    What is too large is read to its end all the same, and thrown away: a browser that is cut off shows no answer.
    """
    place = Path(tempfile.mkdtemp(dir=folder))
    files: list[Any] = []
    fields: list[Any] = []
    settings = {"UPLOAD_DIR": str(place), "UPLOAD_DELETE_TMP": False, "MAX_MEMORY_FILE_SIZE": 0}
    try:
        content_type = request.headers.get("content-type", "").encode("latin-1")
        parser = create_form_parser({"Content-Type": content_type}, fields.append, files.append, settings)
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= largest:
                parser.write(chunk)
        if size <= largest:
            parser.finalize()
        for file in files:
            if file.in_memory:  # it is empty
                file.flush_to_disk()
    except OSError as error:
        raise DataError(f"The table cannot be kept on this machine: {error.strerror or error}.") from error
    except (FormParserError, ValueError):
        raise DataError(NO_FILE) from None
    finally:
        for file in files:
            file.close()
    if size > largest:
        for left in place.iterdir():
            left.unlink()
        raise TooLargeError(
            f"The file has more than {largest // 1_000_000} MB, which is too large for this page. The command line "
            "takes files of any size."
        )
    if not files or not files[0].file_name:
        raise DataError(NO_FILE)
    file = Path(files[0].actual_file_name.decode()).rename(place / plain_name(files[0].file_name))
    return file, {field.field_name.decode(): field.value.decode() for field in fields if field.value}


def plain_name(sent: bytes) -> str:
    """The last part of a name, whatever system it comes from, as a file can have it."""
    name = sent.decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
    name = "".join(c for c in name if c.isprintable()).strip(" .") or "table"
    return name if len(name.encode()) <= _LONGEST_NAME else name[-_LONGEST_NAME // 4 :]
