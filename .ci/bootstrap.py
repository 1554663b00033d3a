"""Create .venv with mtkit and its tools. Needs nothing but Python, which may be too old."""

import shutil
import subprocess
import sys
import urllib.request

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's wheels without CUDA libraries, which take gigabytes."""


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - the Python that runs this may be older
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"mtkit needs Python 3.11 or newer, this is {found}: try make PYTHON=python3.11")
    run([sys.executable, "-m", "venv", ".venv"])
    pip = [".venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *find_index(), "-c", "constraints.txt", "-e", ".[dev]"])


def run(command: "list[str]") -> None:  # in quotes, because Python 3.8 cannot read the type
    """Run a command; if it fails, exit with its code: it has said why."""
    code = subprocess.run(command).returncode
    if code != 0:
        sys.exit(code)


def find_index() -> "list[str]":
    """Return pip's options for CPU_INDEX if there is no NVIDIA GPU and the index can be reached."""
    if sys.platform != "linux" or shutil.which("nvidia-smi") is not None:
        return []
    request = urllib.request.Request(CPU_INDEX + "/torch/", method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=5)
    except OSError:
        return []
    return ["--extra-index-url", CPU_INDEX]


if __name__ == "__main__":
    main()
