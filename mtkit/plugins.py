"""The registry of extras: what installed packages add to mtkit, found by their entry points.

A package adds a command, for example, by an entry point in the group `mtkit.commands`. mtkit's own
extras (`mtkit/extras`) do the same in pyproject.toml, so that the core imports none of them. The
object that an entry point names is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from mtkit.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PluginGroup = Literal[
    "commands", "importers", "exporters", "text_steps", "accelerations", "actions"
]
"""What an entry point adds:

- commands: a function for Typer, or a `CommandGroup`.
- importers: a subclass of `Importer`; its name is the end of the files' names, such as ".tsv".
- exporters: a function of a model and an output path; its name is that of the format.
- text_steps: a function of a segment and a context, like those in `STEPS` of
  mtkit.decoding.text.pipeline; in alphabetical order, before these.
- accelerations: a subclass of `Acceleration`; its name is the type of a device, such as "cuda".
- actions: what the core calls for an option or a setting, by a name such as "dry_run" (of
  `train --dry-run`): a function, or a class such as `FineTuning`, of which the core has the base.
"""


@cache
def find_plugins(group: PluginGroup) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, in alphabetical order.

    Raises:
        UserError: two packages add something of the same name.
    """
    # Imported here, because it takes some milliseconds, which many commands need not spend.
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=f"mtkit.{group}")):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise UserError(
                f"{point.name}: both {other.value} and {point.value} add it to mtkit.{group}; "
                "uninstall one of the two packages"
            )
    return found


def load_plugin(group: PluginGroup, name: str) -> Any:
    """Import and return what an installed package adds to a group.

    Raises:
        UserError: no package adds it.
        ImportError: its module needs a package that is missing.
    """
    point = find_plugins(group).get(name)
    if point is None:
        known = ", ".join(find_plugins(group)) or "none"
        raise UserError(f"{name!r} is not installed; mtkit.{group} has {known}; reinstall mtkit")
    return point.load()


def find_action(name: str) -> Any | None:
    """Import and return what an installed package adds to the actions; None if no package does."""
    return load_plugin("actions", name) if name in find_plugins("actions") else None
