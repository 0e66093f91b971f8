"""Pictures in files: formats, depth, units, and writing all of a file or none of it."""
