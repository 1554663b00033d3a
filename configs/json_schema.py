"""Print the JSON schema of configs, for editors: configs/schema.json."""

from __future__ import annotations

from mtkit.config.yaml import schema

if __name__ == "__main__":
    print(schema())
