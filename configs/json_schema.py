"""Print the JSON schema of configs, for editors: configs/schema.json."""

from __future__ import annotations

import json

from mtkit.config.settings import Config


def schema() -> str:
    """Return the JSON schema."""
    return json.dumps(Config.model_json_schema(), indent=2)


if __name__ == "__main__":
    print(schema())
