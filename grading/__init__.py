"""The problem sets: how they are made and graded, for teachers.

``python -m grading make`` writes the student versions and a course folder for
nbgrader. Every submission is graded there by calling the student's functions in a
separate process. This package comes with the repository, beside ``assignments``, and is
not part of the installed package.
"""

__all__ = ["configure", "variant_of"]


def configure(config):
    """Make nbgrader autograde as this course does; for ``nbgrader_config.py``.

    Parameters
    ----------
    config : traitlets.config.Config
        The return value of ``get_config()``.

    Examples
    --------
    >>> from traitlets.config import Config
    >>> config = Config()
    >>> configure(config)
    >>> config.Autograde.exporter_class
    'grading.plugins.SubmissionExporter'
    """
    from grading import plugins

    plugins.install(config)


def variant_of(name, key="book"):
    """Return the values that a course key gives a problem set.

    Parameters
    ----------
    name : str
        A set, such as ``"1-transform"``: a folder of ``assignments/source``.
    key : str
        The course key.

    Returns
    -------
    dict
        The values by name; those in capitals stand in the set's first cell.

    Raises
    ------
    ValueError
        If there is no such set, or the key is empty.

    Examples
    --------
    >>> variant_of("1-transform", "spring") == variant_of("1-transform", "spring")
    True
    """
    from grading import sets

    return sets.load_variant(name, key)
