"""The one exception that is meant for the user's eyes, and one that is recognised late."""


class UserError(Exception):
    """A mistake of the user, in one sentence: what was given, what is allowed, what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch raises RuntimeError for that, on a CPU without a class."""
    texts = ("can't allocate memory", "out of memory", "bad_alloc", "can't start new thread")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
    )
