"""``python -m lancecy``: the command line where the script is not on the path."""

from lancecy.cli import run

if __name__ == "__main__":
    run()
