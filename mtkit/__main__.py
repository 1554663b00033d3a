"""`python -m mtkit` is `mtkit`."""

from mtkit.cli.main import main

main()
