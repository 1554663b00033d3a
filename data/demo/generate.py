"""Write the demo corpus again, by `python -m mtkit.demo.generate` or by the path of this file."""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Write the files beside this one, whether run as a module or by its path."""
    folder = Path(__file__).resolve().parent
    package = __package__
    if not package:
        sys.path.insert(0, str(folder.parent))
        package = folder.name
    import_module(f"{package}.corpus").write(folder)


if __name__ == "__main__":
    main()
