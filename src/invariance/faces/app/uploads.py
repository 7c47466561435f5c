"""A table from the browser to a file, piece by piece, up to a limit."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import create_form_parser
from starlette.requests import Request

from ...exceptions import DataError

LARGEST = 200_000_000
_LONGEST_NAME = 200  # bytes
NO_FILE = "No table came with this request: choose a file first."


class TooLargeError(DataError):
    """More than is taken."""


class Upload(NamedTuple):
    """name: as it was sent; file: where it is; fields: the others of the form that are not empty"""

    name: str
    file: Path
    fields: dict[str, str]


async def receive_table(request: Request, folder: Path, largest: int = LARGEST) -> Upload:
    """A file, in a new folder inside the given one, of which nothing is left where it does not arrive.

    What is too large is read to its end all the same, and thrown away: a browser that is cut off shows no answer.
    """
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        return await _receive(request, place, largest)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


async def _receive(request: Request, place: Path, largest: int) -> Upload:
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
        raise TooLargeError(
            f"The file has more than {largest // 1_000_000} MB, which is too large for this page. The command line "
            "takes files of any size."
        )
    if not files or not files[0].file_name:
        raise DataError(NO_FILE)
    name = sent_name(files[0].file_name)
    file = Path(files[0].actual_file_name.decode()).rename(place / plain_name(name))
    return Upload(name, file, {_text(field.field_name): _text(field.value) for field in fields if field.value})


def _text(sent: bytes) -> str:
    return sent.decode("utf-8", "replace")


def sent_name(sent: bytes) -> str:
    """The name that a file has where it comes from. Browsers write three signs of it otherwise."""
    name = _text(sent)
    for written, sign in (("%22", '"'), ("%0A", "\n"), ("%0D", "\r")):
        name = name.replace(written, sign)
    return name.rpartition("/")[2]


def plain_name(name: str) -> str:
    """The last part of a name, whatever system it comes from, as a file can have it on any."""
    name = name.replace("\\", "/").rpartition("/")[2]
    name = "".join(c for c in name if c.isprintable()).strip(" .") or "table"
    return name if len(name.encode()) <= _LONGEST_NAME else name[-_LONGEST_NAME // 4 :]
