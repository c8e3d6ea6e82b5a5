"""The one exception for what a user can mend."""


class UserError(Exception):
    """A wrong setting, file or state. Its text is one sentence: what it is, what was found, what to do; exit code 2."""
