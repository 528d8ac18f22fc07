"""Seeds for the fuzz targets: sound inputs of every kind, and some with a first wound.

python tests/fuzz/seeds.py fuzz_open|fuzz_read DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

RESEAL, SUMS, EVERY_COPY, CUT = 4, 8, 16, 32
FIXED, WORDS = 272, 96  # bytes of the mask before the sender table
SEND, BATCH, LOAN, READ, READ_TOO, VIEW, JOIN, CHANGE, LOOK, WOUND, FORGE, HURT, REPLACE = (
    0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip


def fuzz_open() -> Iterator[bytes]:
    for protocol in range(3):
        yield bytes([protocol, 0])
        yield bytes([protocol | CUT, 40])
        for flags in (0, EVERY_COPY, RESEAL | EVERY_COPY, RESEAL | SUMS | EVERY_COPY):
            for at in (0, 48, 60, 64, FIXED, FIXED + 8, FIXED + WORDS, FIXED + WORDS + 600):
                yield bytes([protocol | flags, 0]) + bytes(at) + b"\xff\x01\x00\x80\x7f\xff\x02\x40"
            yield bytes([protocol | flags, 0]) + bytes(FIXED + WORDS) + bytes(range(256)) * 6


def fuzz_read() -> Iterator[bytes]:
    slots = 8192 + 256 + 3 * 256 + 3 * 64 + 2 * 64  # where the first message lies
    for protocol in range(3):
        for safe in (0, 1, 2):
            head = bytes([protocol | 4, safe])
            yield head + bytes(
                [SEND, BATCH, READ, LOAN, READ_TOO, VIEW, JOIN, SEND, READ, READ_TOO]
            )
            for at in (
                1024,
                4096,
                4096 + 72,
                8192 + 256,
                slots,
                slots + 24,
                slots + 36,
                slots + 70,
            ):
                wound = bytes([WOUND, safe + 1, at & 255, at >> 8, 3, 1, 2, 3, 4])
                yield head + bytes([SEND, SEND]) + wound + bytes([READ, SEND, READ_TOO, READ])
                forged = bytes([FORGE, 1, safe + 1, at & 255, at >> 8, 7, *range(1, 9)])
                yield head + bytes([SEND, READ]) + forged + bytes([READ_TOO, LOOK, REPLACE, SEND])
            length = bytes(
                [FORGE, 1, safe + 1, (slots + 36) & 255, (slots + 36) >> 8, 3, 0, 0, 0, 1]
            )
            yield head + bytes([SEND]) + length + bytes([VIEW, READ_TOO])
            hurt = bytes([HURT, 1, safe + 1, 90])
            yield head + bytes([SEND]) + hurt + bytes([READ, REPLACE, SEND, CHANGE, SEND, VIEW])


def main() -> None:
    target, folder = sys.argv[1], Path(sys.argv[2])
    for number, seed in enumerate({"fuzz_open": fuzz_open, "fuzz_read": fuzz_read}[target]()):
        (folder / f"seed-{number:03}").write_bytes(seed)


if __name__ == "__main__":
    main()
