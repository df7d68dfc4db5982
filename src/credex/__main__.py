"""``python -m credex`` is the command line."""

from __future__ import annotations

from credex.cli.app import main

if __name__ == "__main__":
    main()
