"""Say which extra to install when a package of it is missing."""

from contextlib import contextmanager

DISTRIBUTION = "batch-normalization-proved-and-run"


@contextmanager
def extra(name):
    """Raise an error that names the extra to install, if an import in the block fails.

    Parameters
    ----------
    name : str
        The extra, as pyproject.toml calls it.

    Raises
    ------
    ModuleNotFoundError
        In place of the import's error, which does not say what to install.

    Examples
    --------
    >>> with extra("plot"):
    ...     import matplotlib_of_tomorrow  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ModuleNotFoundError: matplotlib_of_tomorrow is not installed; the extra 'plot' ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed; the extra {name!r} brings it: "
            f"pip install '{DISTRIBUTION}[{name}]'",
            name=error.name,
        ) from error
