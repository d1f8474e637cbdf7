"""The sign of the data: z = -y x, and the rows of margins, its negative."""

import numpy as np
import pytest
import torch
from refusals import refused
from scipy import sparse

from bnlib.halfspaces import FiniteHalfspace, halfspace_rows
from bnlib.implicit_bias import signed_rows

X, Y = np.array([[1.0, 2.0], [3.0, 0.0], [0.5, -1.0]]), np.array([1.0, -1.0, 1.0])
Z = np.array([[-1.0, -2.0], [3.0, 0.0], [-0.5, 1.0]])


def test_a_row_is_minus_its_label_times_its_example():
    assert halfspace_rows(X, Y).tolist() == Z.tolist()
    assert halfspace_rows(torch.tensor(X), torch.tensor(Y)).tolist() == Z.tolist()


def test_sparse_rows_stay_sparse():
    found = halfspace_rows(sparse.csr_matrix(X), Y)
    assert isinstance(found, sparse.csr_array)
    assert found.toarray().tolist() == Z.tolist()


def test_the_rows_of_margins_are_their_negatives():
    np.testing.assert_array_equal(signed_rows(X, Y), -halfspace_rows(X, Y))


def test_on_these_rows_a_loss_falls_with_the_margin():
    problem, w = FiniteHalfspace(halfspace_rows(X, Y)), np.array([0.3, 0.2])
    margins = Y * (X @ w)
    assert problem.value(w) == pytest.approx(np.log1p(np.exp(-margins)).mean())


def test_what_are_no_labels_is_named():
    with refused(ValueError, "y", "labels other", "1 and -1"):
        halfspace_rows(X, np.array([0.0, 1.0, 1.0]))
    with refused(ValueError, "X y", "(3, 2) (2,)", "(n, d) and (n,)"):
        halfspace_rows(X, Y[:2])
