"""The error for what users give and can put right themselves."""


class InputError(ValueError):
    """A file, a picture or an option cannot be used; the message is one line that names it."""
