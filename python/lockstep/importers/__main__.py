"""python -m lockstep.importers tensorboard|wandb|mlflow PATH [--dir runs]"""

import argparse
import importlib
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lockstep.importers", description="Makes runs of what another tracker recorded.")
    parser.add_argument("tracker", choices=("tensorboard", "wandb", "mlflow"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--dir", type=Path, default=Path("runs"), help="directory of the runs (default: runs)")
    arguments = parser.parse_args()
    try:
        if not arguments.path.exists():
            raise ValueError(f"{arguments.path} does not exist")
        ids = importlib.import_module(f"lockstep.importers.{arguments.tracker}").import_runs(arguments.path, arguments.dir)
        if not ids:
            raise ValueError(f"{arguments.path}: no runs of {arguments.tracker}")
    except (ValueError, OSError) as error:
        print(f"lockstep.importers: error: {error}", file=sys.stderr)
        return 78
    print("\n".join(ids))
    return 0


if __name__ == "__main__":
    sys.exit(main())
