"""The sign convention of the data, in one place: z = -y x."""

from typing import Any

from scipy import sparse

from bnlib._arrays import Array


def halfspace_rows(X: Any, y: Array) -> Any:
    """Return the rows ``z_n = -y_n x_n`` that a loss of ``t = z.w`` is averaged over.

    So t is minus the margin ``y_n x_n.w``: t below 0 is a right answer, and losses
    increase with t. `bnlib.implicit_bias` uses margins, with the rows ``-z_n``: see
    `bnlib.implicit_bias.signed_rows`.

    Parameters
    ----------
    X : array or scipy.sparse matrix, shape (n, d)
        One example per row.
    y : array, shape (n,)
        Labels -1 and 1.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (n, d)

    Raises
    ------
    ValueError
        If the numbers of rows and labels differ, or a label is not -1 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> halfspace_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1])).tolist()
    [[-1.0, -2.0], [3.0, 4.0]]

    References
    ----------
    Kohler et al. 2019, section 4; chapter 09, "Learning halfspaces".
    """
    if X.ndim != 2 or tuple(y.shape) != (X.shape[0],):
        raise ValueError(
            f"X has shape {tuple(X.shape)} and y {tuple(y.shape)}: give (n, d) and (n,)"
        )
    if not bool(((y == 1) | (y == -1)).all()):
        raise ValueError("y has labels other than 1 and -1")
    if sparse.issparse(X):
        return sparse.csr_array(X.multiply(-y[:, None]))
    return -y[:, None] * X
