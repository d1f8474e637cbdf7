"""Langevin dynamics: descent with Gaussian noise, at a temperature."""

from typing import Any, NamedTuple

import numpy as np

from bnlib import _arrays, _checks


class Walk(NamedTuple):
    """The places that independent chains visited.

    Attributes
    ----------
    points : array, shape (records, chains, d)
        The start, and the place after every ``every`` steps.
    accepted : array, shape (chains,)
        The share of proposals that each chain accepted; 1 without adjustment.
    steps : int
        The number of steps made, including one that diverged.
    stop_reason : str
        "steps", or "diverged" if a chain left the finite numbers: ``points`` then ends
        before that step.
    """

    points: np.ndarray
    accepted: np.ndarray
    steps: int
    stop_reason: str


class Occupancy(NamedTuple):
    """A share of time, and its standard error.

    Attributes
    ----------
    share : float
    standard_error : float
        It is computed from the spread over the chains, so the correlation within a
        chain does not matter.
    """

    share: float
    standard_error: float


def langevin(
    problem: Any,
    start: np.ndarray,
    *,
    temperature: float | np.ndarray,
    step: float,
    steps: int,
    rng: np.random.Generator,
    adjust: bool = True,
    every: int = 1,
) -> Walk:
    r"""Follow dX = -grad U dt + sqrt(2 T) dB with many independent chains.

    A proposal is one Euler step, X - step grad U + sqrt(2 step T) times normal noise.
    With ``adjust`` it is accepted or rejected by the rule of Metropolis and Hastings
    (MALA), and the chains tend to the Boltzmann distribution for every step. Without
    it every proposal is accepted, and the limit distribution depends on the step.

    Parameters
    ----------
    problem : object
        With methods value, (chains, d) to (chains,), and gradient, (chains, d) to
        (chains, d), such as `Wells`.
    start : array, shape (chains, d)
        Not changed.
    temperature : float above 0, or array of shape (chains,)
        T, one for all chains or one for each.
    step : float above 0
        The time step.
    steps : int, at least 1
    rng : numpy.random.Generator
    adjust : bool
    every : int, at least 1
        Keep the places of every ``every``-th step.

    Returns
    -------
    Walk

    Raises
    ------
    TypeError, ValueError
        If the problem has no value or gradient of the shapes above, the start has
        another shape, ``rng`` is no generator, ``temperature``, ``step``, ``steps`` or
        ``every`` is out of range, or U or its gradient is not finite at the start.

    Examples
    --------
    >>> from bnlib.landscape import Wells
    >>> rng, start = np.random.default_rng(0), np.zeros((2, 2))
    >>> walk = langevin(Wells("flat"), start, temperature=0.2, step=0.1, steps=50,
    ...                 rng=rng, every=10)
    >>> walk.points.shape, walk.stop_reason
    ((6, 2, 2), 'steps')
    >>> wild = langevin(Wells("flat"), start + 9, temperature=0.2, step=9.0, steps=50,
    ...                 rng=rng, adjust=False)
    >>> wild.stop_reason, wild.steps < 50
    ('diverged', True)

    References
    ----------
    Roberts and Tweedie 1996; chapter 14, "Langevin dynamics".
    """
    here, temperatures = _checked(problem, start, temperature, rng)
    _checks.check_positive("step", step)
    _checks.check_integer("steps", steps, 1)
    _checks.check_integer("every", every, 1)
    move = _Move(problem, temperatures, step, rng, adjust)
    state = move.start(here)
    taken = np.zeros(len(here))
    kept = [here]
    made, reason = 0, "steps"
    # stop_reason reports a step that leaves the finite numbers; no warning is needed.
    with _arrays.silently():
        for made in range(1, steps + 1):
            state, accepted = move(state)
            taken += accepted
            if not np.isfinite(state[0]).all():
                reason = "diverged"
                break
            if made % every == 0:
                kept.append(state[0])
    return Walk(np.stack(kept), taken / made, made, reason)


class _Move:
    """One step of all chains; a state is (place, value, gradient)."""

    def __init__(self, problem, temperatures, step, rng, adjust):
        self._problem, self._rng, self._adjust = problem, rng, adjust
        self._temperatures, self._step = temperatures, step
        self._spread = np.sqrt(2 * step * temperatures)[:, None]

    def start(self, here):
        return here, self._problem.value(here), self._problem.gradient(here)

    def __call__(self, state):
        here, value, gradient = state
        noise = self._rng.standard_normal(here.shape)
        there = here - self._step * gradient + self._spread * noise
        if not self._adjust:
            return (there, None, self._problem.gradient(there)), 1.0
        new_value, new_gradient = (
            self._problem.value(there),
            self._problem.gradient(there),
        )
        back = (here - there + self._step * new_gradient) / self._spread
        log_odds = (value - new_value) / self._temperatures
        log_odds += ((noise**2).sum(axis=1) - (back**2).sum(axis=1)) / 2
        # NaN compares as False, so a proposal of value or slope NaN is rejected.
        taken = np.log(self._rng.random(len(here))) < log_odds
        rows = taken[:, None]
        merged = (
            np.where(rows, there, here),
            np.where(taken, new_value, value),
            np.where(rows, new_gradient, gradient),
        )
        return merged, taken


def _checked(problem, start, temperature, rng):
    """Check the arguments; return the start and all chains' temperatures in float64."""
    for name in ("value", "gradient"):
        if isinstance(problem, type) or not callable(getattr(problem, name, None)):
            raise TypeError(
                f"problem is {problem!r}, without {name}: give an object with methods "
                "value and gradient"
            )
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng is {rng!r}: give a numpy.random.Generator")
    _checks.check_numpy(start=start)
    here = start.astype(np.float64)
    if here.ndim != 2 or here.size == 0:
        raise ValueError(
            f"start has shape {here.shape}: give (chains, d), at least one of each"
        )
    _checks.check_finite("start", here)
    for name, shape in (("value", here.shape[:1]), ("gradient", here.shape)):
        with _arrays.silently():
            found = np.asarray(getattr(problem, name)(here))
        if found.shape != shape:
            raise ValueError(
                f"problem.{name} has shape {found.shape} for points of shape "
                f"{here.shape}: it must give {shape}"
            )
        if not np.isfinite(found).all():
            raise ValueError(f"problem.{name} is not finite at the start of a chain")
    try:
        temperatures = np.array(temperature, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"temperature is {temperature!r}: give numbers") from None
    if temperatures.shape not in ((), (len(here),)):
        raise ValueError(
            f"temperature has shape {temperatures.shape}: give one number, or one for "
            f"each of the {len(here)} chains"
        )
    # Written so that NaN, which compares as False, raises too.
    if not ((temperatures > 0) & np.isfinite(temperatures)).all():
        raise ValueError(f"temperature is {temperature}: give finite numbers above 0")
    return here, np.broadcast_to(temperatures, len(here))


def occupancy(visits: np.ndarray) -> Occupancy:
    """Return the share of time that chains spend in a region.

    Parameters
    ----------
    visits : array of bool, shape (records, chains)
        Whether a chain is in the region. Leave out the records before the chains have
        forgotten their start.

    Returns
    -------
    Occupancy
        The standard error is the standard deviation of the chains' shares, divided by
        the root of their number. It assumes independent chains. It does not show that
        all chains are still close to their start: compare groups of different starts.

    Raises
    ------
    TypeError, ValueError
        If there are no records, fewer than two chains, or the array is not of bools.

    Examples
    --------
    >>> occupancy(np.array([[True, False], [True, True]]))
    Occupancy(share=0.75, standard_error=0.25)

    References
    ----------
    Chapter 14, "Langevin dynamics".
    """
    visits = np.asarray(visits)
    if visits.dtype != bool:
        raise TypeError(f"visits has dtype {visits.dtype}: give an array of bool")
    if visits.ndim != 2 or len(visits) == 0 or visits.shape[1] < 2:
        raise ValueError(
            f"visits has shape {visits.shape}: give (records, chains), at least one "
            "record and two chains"
        )
    shares = visits.mean(axis=0)
    error = shares.std(ddof=1) / np.sqrt(len(shares))
    return Occupancy(float(shares.mean()), float(error))
