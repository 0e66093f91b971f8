"""The one error that is a user's to mend."""


class InputError(ValueError):
    """Something a user gave cannot be used; the message is one line, fit to be shown."""
