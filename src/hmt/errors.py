"""The one exception that is shown to the user, and recognising that memory ran out."""


class UserError(Exception):
    """A mistake of the user, in one sentence: what was given, what is allowed, what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; on a CPU, torch has no class for that and raises RuntimeError."""
    texts = ("can't allocate memory", "out of memory", "bad_alloc", "can't start new thread")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
    )
