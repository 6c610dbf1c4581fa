"""What ends or interrupts a capture, with the exit code of the command."""

from __future__ import annotations


class CaptureProblem(Exception):
    """A capture cannot go on.

    Attributes:
        code: Exit code of the command.
    """

    code = 2


class Misconfigured(CaptureProblem):
    """Something has to be changed first: an option, a table, a role, a setting of the server."""


class ChangesLost(CaptureProblem):
    """The slot cannot give the changes that follow those in the folder; waiting does not help."""

    code = 3


class Unavailable(CaptureProblem):
    """The same may work later: a server is away, a slot is in use, a disk is full."""

    code = 1
