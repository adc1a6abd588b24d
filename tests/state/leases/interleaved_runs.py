"""Runs that share a folder, of which one file operation at a time happens, in an order that a test draws."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock.state.files.durable_files import DurableFiles

LONG_S = 30.0


class Gone(BaseException):
    """The process of a run was killed."""


class Stepped(DurableFiles):
    """Files of which every operation waits for its turn."""

    def __init__(self, inner: DurableFiles, turn: Callable[[], None]) -> None:
        self._inner, self._turn = inner, turn

    def _do(self, name: str, *arguments: Any) -> Any:
        self._turn()
        return getattr(self._inner, name)(*arguments)

    def write(self, path, content):
        return self._do("write", path, content)

    def chunks(self, path) -> Iterator[bytes]:
        self._turn()
        yield b"".join(self._inner.chunks(path))

    def size(self, path):
        return self._do("size", path)

    def list(self, folder):
        return self._do("list", folder)

    def folders(self, folder):
        return self._do("folders", folder)

    def delete(self, *paths):
        for path in paths:
            self._do("delete", path)

    def delete_folder(self, folder):
        return self._do("delete_folder", folder)

    def clear_unfinished(self, folder):
        return self._do("clear_unfinished", folder)


class Stepping:
    """One run in a thread of its own: `step` lets it do one file operation, and what it computes after that."""

    def __init__(self, files: DurableFiles, life: Callable[["Stepping", DurableFiles], None]) -> None:
        self.killed = False
        self.ended = False
        self.error: Exception | None = None
        self._may, self._did = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, args=(Stepped(files, self._turn), life), daemon=True)
        self._thread.start()
        assert self._did.acquire(timeout=LONG_S)

    def step(self) -> None:
        if not self.ended:
            self._may.release()
            assert self._did.acquire(timeout=LONG_S)

    def kill(self) -> None:
        """Let none of its operations happen any more."""
        self.killed = True
        while not self.ended:
            self.step()

    def _turn(self) -> None:
        self._did.release()
        assert self._may.acquire(timeout=LONG_S)
        if self.killed:
            raise Gone

    def _live(self, files: DurableFiles, life: Callable[["Stepping", DurableFiles], None]) -> None:
        try:
            life(self, files)
        except Exception as error:
            self.error = error
        except Gone:
            pass
        finally:
            self.ended = True
            self._did.release()
