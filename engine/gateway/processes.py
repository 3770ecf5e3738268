"""Several gateway processes on one port: forked from a parent that holds the listening socket, watches them and serves nothing.

The socket is one and is shared, so a connection that nobody has accepted yet is nobody's: the death of a process costs what it had
accepted and nothing else. The parent runs no event loop and no thread, so that it can fork again at any time.
"""

from __future__ import annotations

import logging
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EXIT_FAILED = 1
# Above what a process takes to stop in the worst case: requests in flight, then the spans that wait.
STOP_S = 25.0
# One that dies sooner is started again after a pause, which doubles.
YOUNG_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
# The path of a Unix socket has at most 104 bytes (macOS) or 108 (Linux).
MAX_FOLDER_CHARS = 90
_UP = b"u"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("cachescope.gateway")


@dataclass(frozen=True, slots=True)
class Place:
    """Which of a gateway's processes this is.

    number: 0 … count - 1, kept by the one that is started in a dead one's stead. folder: where their sockets are.
    lifeline: readable when the parent is gone.
    """

    number: int
    count: int
    folder: Path
    lifeline: socket.socket

    def tell_up(self) -> None:
        """Tell the parent that this process serves."""
        self.lifeline.send(_UP)


@dataclass(slots=True)
class _Child:
    number: int
    pid: int
    lifeline: socket.socket
    started_s: float
    up: bool = False


def run(count: int, listener: socket.socket, serve: Callable[[Place], int]) -> int:
    """Run `serve` in `count` processes until a signal; return the exit code.

    The first is started alone: what prevents its start ends the whole with its exit code. Later ones that die are started again.
    """
    folder = Path(tempfile.mkdtemp(prefix="cachescope-"))
    try:
        if len(str(folder)) > MAX_FOLDER_CHARS:
            print(f"cachescope gateway: the path {folder} is too long for sockets; set TMPDIR to a shorter one", file=sys.stderr)  # noqa: T201
            return EXIT_FAILED
        return _Parent(count, listener, folder, serve).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Parent:
    def __init__(self, count: int, listener: socket.socket, folder: Path, serve: Callable[[Place], int]) -> None:
        self._count = count
        self._listener = listener
        self._folder = folder
        self._serve = serve
        self._children: dict[int, _Child] = {}
        self._due: dict[int, float] = {0: 0.0}  # number -> when it is to be started
        self._pauses: dict[int, float] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._signalled = False
        self._began = False  # the first process has served
        self._kill_at: float | None = None  # set while stopping
        self._code = 0

    def run(self) -> int:
        for end in (self._wake, self._waker):
            end.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        woken = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            while self._kill_at is None or self._children:
                self._turn()
            return self._code
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            self._wake.close()
            self._waker.close()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._signalled = True

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._wait_s()):
            if key.fileobj is self._wake:
                self._wake.recv(4_096)
            else:
                self._hear(self._children[key.data])
        now = time.monotonic()
        if self._signalled:
            self._signalled = False
            self._stop()
        if self._kill_at is None:
            for number in [number for number, at in self._due.items() if at <= now]:
                del self._due[number]
                self._start(number)
        elif now >= self._kill_at:
            self._send_all(signal.SIGKILL)
            self._kill_at = now + STOP_S

    def _wait_s(self) -> float | None:
        times = [self._kill_at] if self._kill_at is not None else list(self._due.values())
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _start(self, number: int) -> None:
        try:
            self._fork(number)
        except OSError as error:  # no memory, no process, no descriptor: the others go on
            if not self._began:
                raise
            pause_s = self._pauses.get(number, FIRST_PAUSE_S)
            self._pauses[number] = min(2 * pause_s, LONGEST_PAUSE_S)
            self._due[number] = time.monotonic() + pause_s
            logger.warning("process %d could not be started (%s); tried again in %g s", number, error.strerror, pause_s)

    def _fork(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal between the fork and the child's own handlers would run the parent's in the child, and be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                ours.close()
                self._become(Place(number, self._count, self._folder, theirs))
        except OSError:
            ours.close()
            theirs.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
        self._children[number] = _Child(number, pid, ours, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, number)

    def _become(self, place: Place) -> None:
        """Be the child; never return."""
        code = EXIT_FAILED
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            # Else a sibling's lifeline would outlive the parent here.
            for end in (*(child.lifeline for child in self._children.values()), self._wake, self._waker):
                end.close()
            self._selector.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            code = self._serve(place)
        finally:
            if sys.exc_info()[1] is not None:
                traceback.print_exc()  # here, and no further: the parent's stack must not go on in the child
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _hear(self, child: _Child) -> None:
        try:
            said = child.lifeline.recv(1)
        except OSError:
            said = b""
        if not said:
            self._ended(child)
        elif not child.up:
            child.up = True
            if not self._began:
                self._began = True
                self._due = dict.fromkeys(range(1, self._count), 0.0)

    def _ended(self, child: _Child) -> None:
        """Bury a child; start it again unless all stops, or nothing has ever served."""
        self._selector.unregister(child.lifeline)
        child.lifeline.close()
        del self._children[child.number]
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if self._kill_at is not None:
            self._code = self._code or max(code, 0)
            return
        if not self._began:
            self._code = code if code > 0 else EXIT_FAILED
            self._stop()
            return
        now = time.monotonic()
        pause_s = 0.0
        if not child.up or now - child.started_s < YOUNG_S:
            pause_s = self._pauses.get(child.number, FIRST_PAUSE_S)
        self._pauses[child.number] = min(2 * pause_s or FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._due[child.number] = now + pause_s
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        again = f"in {pause_s:g} s" if pause_s else "now"
        logger.warning("process %d (pid %d) %s; it is started again %s", child.number, child.pid, how, again)

    def _stop(self) -> None:
        if self._kill_at is None:
            self._listener.close()  # when the children have closed theirs, nobody listens
            self._kill_at = time.monotonic() + STOP_S
        self._send_all(signal.SIGTERM)

    def _send_all(self, number: signal.Signals) -> None:
        for child in self._children.values():
            os.kill(child.pid, number)  # not waited for yet, so the pid is still its own
