"""Run a function on the workers of a Dask cluster; its results come in order.

A task brings everything with it: the function, its data and the version of mtkit. So a worker may
join or die at any moment; what a dead worker was doing is done again by another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from socket import create_connection
from typing import Any, TypeVar

import mtkit
from mtkit.artifacts.manifest import VERSION, hash_file, sha256_of
from mtkit.errors import MtkitError, UserError
from mtkit.report import plural, say

CONNECT_SECONDS = 5.0
"""How long to wait for the scheduler, and for the first worker."""
TASKS_PER_THREAD = 4
"""Number of tasks that wait or are at work, for each thread of the workers."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Run = Callable[[Callable[[_Item], _Result], Iterable[_Item]], Iterator[_Result]]


@contextmanager
def open_cluster(address: str, shared: Path) -> Iterator[Run[Any, Any]]:
    """Connect to a scheduler; yield a function that maps a function over items on its workers.

    `shared`: a file that all workers must see, with the same content.

    Raises:
        UserError: nobody answers at the address, there is no worker, or a worker has another
            version of mtkit or does not see the file.
        MtkitError: several workers died at a task, or the connection was lost.
    """
    try:
        from distributed import CancelledError, Client, KilledWorker
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise UserError(
            "--cluster needs Dask; install it with: pip install 'mtkit[cluster]'"
        ) from error
    try:
        # First without Dask, which would try again and again, and write tracebacks.
        host_and_port = get_address_host_port(address)
        create_connection(host_and_port, CONNECT_SECONDS).close()
        connect: Any = Client  # has no types
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"--cluster {address}: no scheduler answers; start one with `dask scheduler`, and give "
            "the address that it prints, such as tcp://HOST:8786"
        ) from error
    with client:
        _check_workers(client, address, shared)
        try:
            yield lambda function, items: _run(client, function, items)
        except KilledWorker as error:
            raise MtkitError(
                f"--cluster {address}: several workers died at the same task; if memory ran "
                "out, start fewer workers per machine"
            ) from error
        except CancelledError as error:
            raise MtkitError(
                f"--cluster {address}: the connection was lost; start the scheduler, its workers "
                "and the same command again"
            ) from error


def _run(
    client: Any, function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[_Result]:
    """Yield the results in order; few of them wait, so that memory stays bounded."""
    version = version_of_code()
    waiting: deque[Any] = deque()
    for item in items:
        # Not joblib: its backend for Dask would wait forever for a task whose workers have died.
        task = client.submit(_call, version, function, item, pure=False)
        waiting.append(task)
        threads = sum(client.ncores().values())
        if len(waiting) > TASKS_PER_THREAD * threads:
            oldest = waiting.popleft()
            yield oldest.result()
    while waiting:
        oldest = waiting.popleft()
        yield oldest.result()


def _check_workers(client: Any, address: str, shared: Path) -> None:
    """Raise UserError unless there are workers, and all can work on this task."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise UserError(
            f"--cluster {address} has no worker; start some with `dask worker {address}`"
        ) from None
    version = version_of_code()
    content = hash_file(shared)
    path = str(shared.absolute())
    descriptions = client.run(describe_worker, path, on_error="return")
    for worker, found in descriptions.items():
        if isinstance(found, Exception):  # its Python has no mtkit, or an older one
            raise UserError(f"--cluster: worker {worker} cannot run mtkit ({found})")
        worker_version, worker_content = found
        if worker_version != version:
            raise UserError(
                f"--cluster: worker {worker} has mtkit {worker_version}, but this machine has "
                f"{version}; install the same version"
            )
        if worker_content != content:
            raise UserError(
                f"--cluster: worker {worker} does not see {path}; all workers need the file system "
                "of this machine, at the same place"
            )
    threads_of_workers = client.ncores().values()
    workers = plural(len(threads_of_workers), "worker")
    threads = plural(sum(threads_of_workers), "thread")
    say(f"cluster: {workers}, {threads}")


def describe_worker(path: str) -> tuple[str, str | None]:
    """Return the version of mtkit of this process, and the hash of a file if it sees the file."""
    file = Path(path)
    content = hash_file(file) if file.is_file() else None
    return version_of_code(), content


@cache
def version_of_code() -> str:
    """Return the version of mtkit with a hash of its code, which may differ without a release."""
    folder = Path(mtkit.__file__).parent
    code: dict[str, str] = {}
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder).as_posix()
        code[name] = hash_file(path)
    digest = sha256_of(code)
    return f"{VERSION}-{digest[:8]}"


def _call(version: str, function: Callable[[_Item], _Result], item: _Item) -> _Result:
    """Call the function in a worker, unless the worker has joined with another version of mtkit."""
    worker_version = version_of_code()
    if worker_version != version:
        raise UserError(
            f"--cluster: a worker has mtkit {worker_version}, but the command has {version}; "
            "install the same version"
        )
    return function(item)
