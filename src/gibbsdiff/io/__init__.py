"""Pictures in files: formats, depth, units, and writing without halves."""
