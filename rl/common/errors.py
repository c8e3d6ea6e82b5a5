"""The one exception for user-fixable errors."""


class UserError(Exception):
    """User-fixable error: a wrong setting, file or state.

    Its text is one sentence: what is wrong, what was found, what to do. Programs print it and exit with code 2.
    """
