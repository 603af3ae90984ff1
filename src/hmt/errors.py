"""The one exception that is meant for the user's eyes."""


class UserError(Exception):
    """A mistake of the user, told in one sentence: what was given, what is allowed, what to do."""
