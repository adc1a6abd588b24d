"""Errors of the client, by what whoever asked can do: reach the job, send a token, send another, ask differently."""

from penstock.http_api.answers import ErrorCode
from penstock.model.errors import UserError


class JobUnreachableError(UserError):
    """Nothing answers at the address of a job, or not any more."""


class TokenMissingError(UserError):
    """The job wants a token, and got none or a wrong one."""


class WrongScopeError(UserError):
    """The token may not do this, or nobody may."""


class RequestRefusedError(UserError):
    """The job does not do what it was asked; ``code`` is of which kind the reason is, None: no job answers there."""

    def __init__(self, text: str, code: ErrorCode | None = None) -> None:
        super().__init__(text)
        self.code = code
