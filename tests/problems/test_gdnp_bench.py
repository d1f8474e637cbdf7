"""The timing of GDNP runs, and the textbook's GDNP is the same algorithm."""

import numpy as np
from scipy import sparse

import bnlib
from tools import bench_gdnp


def test_a_row_gives_a_rate_and_its_ratios(monkeypatch, capsys):
    Z = sparse.csr_array(np.random.default_rng(0).standard_normal((50, 3)))
    monkeypatch.setattr(bench_gdnp, "rows", lambda: (Z, "a toy"))
    bench_gdnp.report(2)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "logistic loss on a toy, 50 x 3, float64,"
    table = said[4:9]
    assert [row[:20].strip() for row in table] == [*bench_gdnp.METHODS, "textbook GDNP"]
    numbers = [[float(number) for number in row[20:].split()] for row in table]
    assert (numbers[0][1], numbers[-1][2]) == (1, 1)
    assert min(min(row) for row in numbers) > 0


def test_the_textbook_takes_the_same_steps():
    Z = np.random.default_rng(0).standard_normal((200, 4)) - 0.4
    problem = bnlib.halfspaces.FiniteHalfspace(Z)
    start = np.ones(4)
    w, g = bench_gdnp.textbook(sparse.csr_array(Z), problem.L, start, 5)
    trace = bnlib.optim.gdnp(problem, start, -1.0, steps=5)
    np.testing.assert_allclose(trace.w[-1], w, rtol=1e-8)
    np.testing.assert_allclose(trace.g[-1], g, rtol=1e-8)


def test_without_a9a_rows_of_its_size_are_drawn(monkeypatch):
    monkeypatch.setattr(bnlib.data, "available", list)
    Z, name = bench_gdnp.rows()
    assert (Z.shape, Z.nnz, name) == ((32561, 123), 455854, "rows drawn at a9a's size")
    assert set(abs(Z.data)) == {1}


def test_where_a9a_is_here_its_rows_are_taken(monkeypatch):
    monkeypatch.setattr(bnlib.data, "available", lambda: ["a9a"])
    x = sparse.csr_matrix(np.array([[1.0, 0.0], [1.0, 1.0]]))
    data = bnlib.data.Dataset(x, np.array([1, -1]), None, None, "a9a", "")
    monkeypatch.setattr(bnlib.data, "load", lambda name: data)
    Z, name = bench_gdnp.rows()
    assert name == "a9a"
    np.testing.assert_array_equal(Z.toarray(), [[-1, 0], [1, 1]])
