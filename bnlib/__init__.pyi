from . import (
    approximation as approximation,
)
from . import (
    claims as claims,
)
from . import (
    conformance as conformance,
)
from . import (
    course as course,
)
from . import (
    data as data,
)
from . import (
    decoupling as decoupling,
)
from . import (
    experiments as experiments,
)
from . import (
    folding as folding,
)
from . import (
    functional as functional,
)
from . import (
    halfspaces as halfspaces,
)
from . import (
    implicit_bias as implicit_bias,
)
from . import (
    kernels as kernels,
)
from . import (
    landscape as landscape,
)
from . import (
    losses as losses,
)
from . import (
    meanfield as meanfield,
)
from . import (
    networks as networks,
)
from . import (
    nn as nn,
)
from . import (
    optim as optim,
)
from . import (
    plotting as plotting,
)
from . import (
    problems as problems,
)
from . import (
    recalibration as recalibration,
)
from . import (
    shift as shift,
)
from . import (
    smoothness as smoothness,
)
from . import (
    statistics as statistics,
)
from . import (
    transform as transform,
)
from .folding import fold as fold
from .recalibration import recalibrate as recalibrate
from .statistics import RunningStatistics as RunningStatistics
from .transform import (
    batch_norm_backward as batch_norm_backward,
)
from .transform import (
    batch_norm_backward_steps as batch_norm_backward_steps,
)
from .transform import (
    batch_norm_forward as batch_norm_forward,
)
from .transform import (
    batch_norm_inference as batch_norm_inference,
)

__version__: str
