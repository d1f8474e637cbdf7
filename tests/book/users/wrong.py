"""Calls that are wrong: each line is followed by what mypy says of it."""

import numpy as np
import torch

import bnlib

x = np.ones((4, 3))
problem = bnlib.halfspaces.GaussianHalfspace(np.ones(3), 4 * np.eye(3))
trace = bnlib.optim.gdnp(problem, np.ones(3))
check = bnlib.claims.get("bn-range").check()
record = bnlib.experiments.load_record("digits-learning-rate")

bnlib.nothing  # attr-defined
bnlib.claims.get(3)  # arg-type
check.holds + "so"  # operator
check.nothing  # attr-defined
bnlib.data.load("digits", split="test")  # call-arg
bnlib.data.load("digits").labels  # attr-defined
record.array()  # call-arg
record.seconds.shape  # attr-defined
bnlib.optim.gdnp(problem, np.ones(3), steps="many")  # arg-type
bnlib.optim.gdnp("problem", np.ones(3))  # arg-type
trace.iterations  # attr-defined
bnlib.meanfield.growth_factor("relu", batch_size="large")  # arg-type
bnlib.implicit_bias.max_margin(x).width  # attr-defined
bnlib.approximation.necklaces(3)  # call-arg
bnlib.smoothness.linear_layers("network")  # arg-type
bnlib.batch_norm_forward(x, eps="small")  # arg-type
bnlib.batch_norm_forward(x)[1].mu  # attr-defined
bnlib.nn.BatchNorm1d("ten")  # arg-type
bnlib.nn.BatchNorm2d(16, activation=2)  # arg-type
bnlib.nn.BatchNorm2d(16)("images")  # arg-type
bnlib.nn.BatchNorm2d(16)(torch.zeros(2, 16, 3, 3)).nothing  # attr-defined
bnlib.nn.freeze(bnlib.nn.BatchNorm1d(3)).frozen.nothing  # union-attr
bnlib.fold(3, bnlib.nn.BatchNorm1d(3))  # arg-type
