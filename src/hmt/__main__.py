"""`python -m hmt` is `hmt`."""

from hmt.cli import main

if __name__ == "__main__":
    main()
