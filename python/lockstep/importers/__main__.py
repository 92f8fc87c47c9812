"""python -m lockstep.importers tensorboard|wandb|mlflow PATH [--dir runs]"""

import argparse
import importlib
import sys
from pathlib import Path

from lockstep.recording.run import describe


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lockstep.importers", description="Makes runs of what another tracker recorded.")
    parser.add_argument("tracker", choices=("tensorboard", "wandb", "mlflow"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--dir", type=Path, default=Path("runs"), help="directory of the runs (default: runs)")
    arguments = parser.parse_args()
    importer = importlib.import_module(f"lockstep.importers.{arguments.tracker}")
    problems = [] if arguments.path.exists() else [f"{arguments.path} does not exist"]
    sources = importer.sources(arguments.path)
    if not sources and not problems:
        problems = [f"{arguments.path}: no runs of {arguments.tracker}"]
    for source in sources:
        try:
            print(importer.import_run(source, arguments.path, arguments.dir), flush=True)
        except Exception as error:
            problems.append(f"{source}: {error if isinstance(error, (ValueError, OSError)) else describe(type(error), error)}")
    for problem in problems:
        print(f"lockstep.importers: error: {problem}", file=sys.stderr)
    return 78 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
