"""`python -m gibbsdiff.cli`, for programs that start Python modules, such as torchrun."""

from gibbsdiff.cli import main

if __name__ == "__main__":
    main()
