"""Run the benchmarks that need a GPU or many cores, and keep what each prints.

python benchmarks/on_device.py sweeps --out FOLDER      BIP-VI for many outcomes on a device
python benchmarks/on_device.py cores --out FOLDER       exact inference and others by cores
python benchmarks/on_device.py genes --data deletions --out FOLDER    the study of the drawn genes

Each part is planned for nine minutes on one NVIDIA H200 with 16 cores. Every command has a limit in
seconds and writes its own file, so that a run that is cut short keeps what it has measured. On a
machine on which nothing can be installed, packages in build/device are used: fill it elsewhere by
`pip install --target build/device lazy-loader` and copy it along.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCREENED = "BIP-screen ICP-screen Hidden-ICP-screen EILLS-screen Lasso Marginal"


def sweeps(data: Path | None) -> Iterator[tuple[str, int, str]]:
    """Yield the name, the limit in seconds and the arguments of each command."""
    yield "check", 90, "benchmarks/check.py --only device"
    for targets, limit in ((32, 90), (256, 180)):
        command = f"benchmarks/gene_device.py --vi --targets {targets}"
        yield f"simulated-{targets}", limit, command
        if data is not None:
            yield f"deletions-{targets}", limit, f"{command} --deletions {data}/deletions.npz"


def cores(data: Path | None) -> Iterator[tuple[str, int, str]]:
    command = "benchmarks/cores.py --repeats 1"
    yield "fits", 240, f"{command} --only exact,fit,mode --features 25,28 --workers 1,2,4,8,16"
    yield "exact-30", 60, f"{command} --only exact --features 30 --workers 16"
    yield "others", 240, f"{command} --only tempering,logistic,sweep --workers 1,2,4,8,16"


def genes(data: Path | None) -> Iterator[tuple[str, int, str]]:
    command = f"-m replication genes --data {data} --targets drawn:100 --folds 1 --replicates 1"
    yield "vi", 540, f"{command} --methods BIP-VI --device cuda --jobs 2 --out {{out}}/vi-rows"
    yield "screened", 540, f"{command} --methods {SCREENED} --jobs 14 --out {{out}}/screened-rows"


PARTS = {"sweeps": sweeps, "cores": cores, "genes": genes}
TOGETHER = {"genes"}  # on a device and on processes beside it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder of deletions.npz")
    options = parser.parse_args()
    if options.part == "genes" and options.data is None:
        parser.error("genes needs --data, the folder of deletions.npz")
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.data is not None:
        options.data = options.data.resolve()
    folders = ROOT / "src", ROOT, ROOT / "build" / "device"
    paths = (*map(str, folders), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths)}
    running = []
    for name, limit, arguments in PARTS[options.part](options.data):
        log = options.out / f"{options.part}-{name}.txt"
        command = ["timeout", str(limit), sys.executable]
        command += arguments.format(out=options.out).split()
        with log.open("w", encoding="utf-8") as file:
            started = time.perf_counter()
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
            )
        running.append((name, log, process, started))
        if options.part not in TOGETHER:
            process.wait()
            report(*running.pop())
    for one in running:
        one[2].wait()
        report(*one)


def report(name: str, log: Path, process: subprocess.Popen[bytes], started: float) -> None:
    """Print the last lines of what a command printed, with its seconds and exit code."""
    seconds = time.perf_counter() - started
    print(f"== {name}: {seconds:.0f} s, exit code {process.returncode} (124: cut short)")
    print("\n".join(log.read_text(encoding="utf-8").splitlines()[-25:]), flush=True)


if __name__ == "__main__":
    main()
