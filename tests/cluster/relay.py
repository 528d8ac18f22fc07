"""A TCP relay that does to a connection what a bad network does."""

from __future__ import annotations

import contextlib
import socket
import threading


class Relay:
    """127.0.0.1:port → target. `there` is the way from who connects to the target."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.open = {"there": threading.Event(), "back": threading.Event()}
        for way in self.open.values():
            way.set()
        self.refusing = False
        self.corrupt = {"there": 0, "back": 0}  # so many pieces more get a wrong byte
        self.delay_s = 0.0
        self.taken = 0
        self._stopped = threading.Event()
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                one.close()
                continue
            try:
                other = socket.create_connection(self.target, timeout=5)
                other.settimeout(None)
            except OSError:
                one.close()
                continue
            self.taken += 1
            with self._lock:
                self._sockets += [one, other]
            for a, b, way in ((one, other, "there"), (other, one, "back")):
                threading.Thread(target=self._pump, args=(a, b, way), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                while not self.open[way].wait(0.1):
                    if self._stopped.is_set():
                        return
                if self.delay_s:
                    self._stopped.wait(self.delay_s)
                if self.corrupt[way] and len(data) > 40:
                    self.corrupt[way] -= 1
                    data = data[:-5] + bytes([data[-5] ^ 0xFF]) + data[-4:]
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self, *, refusing: bool = False) -> None:
        """Ends every connection; what was on its way is lost."""
        self.refusing = refusing
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def heal(self) -> None:
        self.refusing = False
        for way in self.open.values():
            way.set()

    def close(self) -> None:
        self._stopped.set()
        self._listener.close()
        self.cut(refusing=True)
