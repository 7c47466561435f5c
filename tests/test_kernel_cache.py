"""Processes that fill numba's cache at once do not mix the code of two signatures of a kernel."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile


def test_signatures_that_are_saved_at_once_are_all_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def slow_index(cache: IndexDataCacheFile) -> dict[str, str]:
        found: dict[str, str] = read_index(cache)
        time.sleep(0.02)
        return found

    read_index = IndexDataCacheFile._load_index
    monkeypatch.setattr(IndexDataCacheFile, "_load_index", slow_index)
    signatures = [f"signature {k}" for k in range(4)]

    def one() -> IndexDataCacheFile:
        return IndexDataCacheFile(str(tmp_path), "kernel", "stamp")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda signature: one().save(signature, f"code of {signature}"), signatures))
    assert [one().load(signature) for signature in signatures] == [f"code of {signature}" for signature in signatures]
