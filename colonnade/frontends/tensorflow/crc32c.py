"""CRC-32C (Castagnoli) of large buffers by numpy: many lanes side by side, joined by their linearity."""

from __future__ import annotations

import numpy as np

_POLYNOMIAL = 0x82F63B78
_LANES = 1 << 14


def _byte_table() -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


_TABLE = _byte_table()
_LIST: list[int] = _TABLE.tolist()


def masked(crc: int) -> int:
    """The checksum as it is stored: rotated and shifted, so that a checksum of checksums stays strong."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def extend(crc: int, data: bytes | memoryview) -> int:
    """The checksum of what `crc` was of, followed by `data`."""
    lane = len(data) // _LANES
    state = crc ^ 0xFFFFFFFF
    if lane >= 64:
        body = lane * _LANES
        state = _joined(state, np.frombuffer(data[:body], np.uint8).reshape(_LANES, lane))
        data = data[body:]
    for byte in bytes(data):
        state = _LIST[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def _joined(state: int, lanes: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> int:
    """The state after all lanes, each of which starts from zero."""
    states = np.zeros(len(lanes), np.uint32)
    for column in lanes.T:
        states = _TABLE[(states ^ column) & 0xFF] ^ (states >> 8)
    shift = _zeros(lanes.shape[1])
    for lane in states.tolist():
        state = _apply(shift, state) ^ lane
    return state


def _apply(matrix: list[int], state: int) -> int:
    out = 0
    bit = 0
    while state:
        if state & 1:
            out ^= matrix[bit]
        state >>= 1
        bit += 1
    return out


def _zeros(count: int) -> list[int]:
    """The matrix (an image a bit) that `count` zero bytes apply to a state."""
    step = [_LIST[(1 << bit) & 0xFF] ^ ((1 << bit) >> 8) for bit in range(32)]
    out = [1 << bit for bit in range(32)]
    while count:
        if count & 1:
            out = [_apply(step, image) for image in out]
        step = [_apply(step, image) for image in step]
        count >>= 1
    return out
