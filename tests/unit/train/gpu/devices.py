"""Where the tests of training's kernels run: interpreted here, and on a device."""

from __future__ import annotations

import pytest

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
