"""How x is drawn: the process, denoisers and solvers."""
