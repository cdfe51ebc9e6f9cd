"""File locks for every operating system. A lock is released when its process ends, however it ends."""

from __future__ import annotations


def try_lock(descriptor: int) -> bool:
    """Lock the open file `descriptor` exclusively; return False if it is already locked.

    The lock lasts until the descriptor is closed or the process ends. Raises OSError if the file system has no locks.
    """
    import portalocker  # here, because it takes 60 ms to import and most commands lock nothing

    try:
        portalocker.lock(descriptor, portalocker.LOCK_EX | portalocker.LOCK_NB)
    except portalocker.AlreadyLocked:
        return False
    except portalocker.LockException as error:
        raise OSError(*getattr(error.__cause__, "args", (0, "cannot be locked"))) from error
    return True
