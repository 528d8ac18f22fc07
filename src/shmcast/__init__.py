"""Ordered, fault-tolerant messaging between processes in shared memory, with time bounds."""

from __future__ import annotations

__version__ = "0.1.0"
