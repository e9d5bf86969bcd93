from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_codes"]

def check_codes(
    codes: NDArray[np.integer[Any]], num_values: int, out_validity: NDArray[np.uint8] | None = None
) -> int: ...
