"""The problem sets: how they are made and graded, for teachers.

``python -m grading make`` writes the student versions and a course folder for
nbgrader, where every submission is graded by calling the student's functions in a
process of their own. It comes with the repository, beside ``assignments``, and is no
part of the installed package.
"""

__all__ = ["configure", "variant_of"]


def configure(config):
    """Make nbgrader's autograding that of this course; for ``nbgrader_config.py``.

    Parameters
    ----------
    config : traitlets.config.Config
        What ``get_config()`` gave.

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
    """Return what a course key makes of a problem set.

    Parameters
    ----------
    name : str
        A set, such as ``"1-transform"``: a folder of ``assignments/source``.
    key : str
        The course key.

    Returns
    -------
    dict
        The values by name: those in capitals are the set's first cell.

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
