"""``python -m livery.cli``: the same command, for launchers that start a module."""

from livery.cli import main

main()
