"""The paging of a job's operators: options, and the directory of their page stores. Handed to `build`."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from penstock.engine.core.contract import Operator
from penstock.engine.paging.bucket import BucketSource
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.engine.paging.write_behind import WriteBehind
from penstock.state.files.private_files import make_private_folder
from penstock.state.stores.page_store import PageStore, PageStores


class Paging:
    """Makes paged operators; every instance has a page store of its own below ``directory``."""

    def __init__(
        self,
        options: PagingOptions,
        stores: PageStores,
        directory: Path,
        *,
        threads: bool = True,
        budgets: Callable[[], Mapping[str, int | None]] = dict,
    ) -> None:
        """Delete what the directory holds of an earlier attempt. With ``threads`` each store writes in its own.

        ``budgets`` returns those that differ from the one of the options, by operator.
        """
        self._threads, self._budgets = threads, budgets
        self._options = options
        self._stores = stores
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)

    def operator(
        self, make: Callable[[], Operator], name: str, instance: int, sources: Sequence[BucketSource]
    ) -> PagedOperator:
        """Return an operator instance that goes on from ``sources``."""

        def open_pages(memory_bytes: int) -> PageStore:
            # Names may hold anything; files are found by nobody but this store.
            folder = blake2b(name.encode(), digest_size=8).hexdigest()
            directory = self._directory / f"{folder}-{instance}"
            make_private_folder(directory.parent)
            # An instance that was restarted leaves the files of the one before behind.
            shutil.rmtree(directory, ignore_errors=True)
            pages = self._stores.create(directory, memory_bytes)
            return WriteBehind(pages) if self._threads else pages

        options, budgets = self._options, self._budgets()
        if name in budgets:
            options = replace(options, budget_bytes=budgets[name])
        return PagedOperator(make, options, open_pages, sources)
