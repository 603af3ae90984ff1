"""The program `hmt`, installed or as `python -m hmt`."""

import sys


def main() -> None:
    """Run the command line; an interrupt while it is still being loaded ends it quietly."""
    try:
        from hmt.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
