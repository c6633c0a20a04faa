"""`python -m tidegate`: the program `tidegate`."""

from ._command import main

if __name__ == "__main__":
    main()
