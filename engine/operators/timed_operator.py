"""The base of operators that know which watermark has passed, by which rows are late."""

from penstock.engine.core.contract import Notes, Operator, OperatorContext
from penstock.engine.core.elements import START_OF_TIME_US


class TimedOperator(Operator):
    """Keeps the watermark that has passed from one run to the next; `on_watermark` of subclasses moves it on."""

    def open(self, context: OperatorContext) -> None:
        """Go on from the watermark that had passed."""
        super().open(context)
        self._passed_us = context.earliest("watermark_us", START_OF_TIME_US)
        self._ingest_ns = 0

    def notes(self) -> Notes:
        """Return the watermark, by which rows are late."""
        return {"watermark_us": self._passed_us}
