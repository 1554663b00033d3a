"""`python -m mtkit` is `mtkit`."""

from mtkit.cli import main

main()
