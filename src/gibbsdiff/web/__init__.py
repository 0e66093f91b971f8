"""A page in the browser: `gibbsdiff serve`, and the report as one HTML file."""
