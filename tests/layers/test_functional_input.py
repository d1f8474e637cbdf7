"""What bnlib.functional.batch_norm refuses: it is named, and nothing has changed."""

import numpy as np
import pytest
import torch
from common import assert_same, buffers, randn, torchs

from bnlib.functional import batch_norm


def ones(*shape, **options):
    return torch.ones(*shape, **options)


BAD = {
    "one value": (dict(input=ones(1, 3)), ValueError, r"\(1, 3\).*one value"),
    "one position": (dict(input=ones(1, 3, 1, 1)), ValueError, r"\(1, 3, 1, 1\)"),
    "one axis": (dict(input=ones(3)), ValueError, r"input has shape \(3,\): give"),
    "no axis": (dict(input=ones(())), ValueError, r"input has shape \(\)"),
    "features": (
        dict(input=ones(4, 2)),
        ValueError,
        r"running_mean .*\(4, 2\): give \(2,\)",
    ),
    "integers": (dict(input=ones(4, 3, dtype=torch.int64)), TypeError, "int64"),
    "complex": (dict(input=ones(4, 3, dtype=torch.complex64)), TypeError, "complex64"),
    "booleans": (dict(input=ones(4, 3, dtype=torch.bool)), TypeError, "bool"),
    "NumPy": (
        dict(input=np.ones((4, 3))),
        TypeError,
        "input is a ndarray: give a torch",
    ),
    "list": (dict(input=[[1.0]]), TypeError, "input is a list: give a torch tensor"),
    "None": (dict(input=None), TypeError, "input is a NoneType"),
    "sparse": (dict(input=torch.eye(3).to_sparse()), TypeError, "input .*sparse"),
    "float8": (
        dict(input=ones(4, 3).to(torch.float8_e5m2)),
        TypeError,
        "input.*float8",
    ),
    "device": (dict(input=ones(4, 3, device="meta")), ValueError, "input is on meta"),
    "weight": (dict(weight=ones(2)), ValueError, r"weight has shape \(2,\).*\(3,\)"),
    "bias": (dict(bias=ones(3, 1)), ValueError, r"bias has shape \(3, 1\)"),
    "weight NumPy": (dict(weight=np.ones(3)), TypeError, "weight is a ndarray"),
    "weight float": (dict(weight=1.0), TypeError, "weight is a float"),
    "weight int": (
        dict(weight=ones(3, dtype=torch.int32)),
        TypeError,
        "weight has dty",
    ),
    "weight meta": (
        dict(weight=ones(3, device="meta")),
        ValueError,
        "weight is on meta",
    ),
    "var shape": (
        dict(running_var=ones(1)),
        ValueError,
        r"running_var has shape \(1,\)",
    ),
    "var int": (dict(running_var=ones(3, dtype=torch.int32)), TypeError, "running_var"),
    "one buffer": (
        dict(running_mean=None),
        ValueError,
        "both running_mean and running_v",
    ),
    "no var": (dict(running_var=None), ValueError, "both running_mean and running_var"),
    "momentum high": (dict(momentum=1.5), ValueError, r"momentum is 1\.5: .*\[0, 1\]"),
    "momentum low": (dict(momentum=-0.1), ValueError, r"momentum is -0\.1"),
    "momentum nan": (dict(momentum=float("nan")), ValueError, "momentum is nan"),
    "momentum None": (
        dict(momentum=None),
        TypeError,
        "momentum is None: give a number",
    ),
    "eps low": (
        dict(eps=-1),
        ValueError,
        "eps is -1: give a finite number of at least 0",
    ),
    "eps nan": (dict(eps=float("nan")), ValueError, "eps is nan"),
    "eps text": (dict(eps="small"), TypeError, "eps is 'small'"),
    "var written twice": (
        dict(running_var=ones(1).expand(3)),
        ValueError,
        "running_var",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_named_and_nothing_changes(bad):
    changed, error, says = BAD[bad]
    mean, var = torch.zeros(3), torch.ones(3)
    given = dict(
        input=randn(4, 3, dtype=torch.float32), running_mean=mean, running_var=var
    )
    with pytest.raises(error, match=says):
        batch_norm(**{**given, **changed}, training=True)
    assert (mean == 0).all()
    assert (var == 1).all()


def test_buffers_made_in_inference_mode_are_refused_before_either_changes():
    mean = torch.zeros(3)
    with torch.inference_mode():
        var = torch.ones(3)
    with pytest.raises((ValueError, RuntimeError), match=r"running_var|inference"):
        batch_norm(randn(4, 3), mean, var, training=True)
    assert (mean == 0).all()


def test_eval_without_statistics_is_an_error():
    with pytest.raises(ValueError, match="no statistics to normalise with"):
        batch_norm(randn(4, 3), None, None)


def test_one_value_a_channel_is_enough_for_eval():
    for shape in ((1, 3), (1, 3, 1, 1)):
        assert_same(
            [batch_norm(randn(*shape), *buffers(3))],
            [torchs(randn(*shape), *buffers(3))],
        )
