"""``python -m lancecy``: the command line without the script on the path."""

from lancecy.cli import run

if __name__ == "__main__":
    run()
