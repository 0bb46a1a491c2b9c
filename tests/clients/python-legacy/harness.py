"""What the cases of both old SDKs share."""

import contextlib
import logging
import pathlib
import sys

from azure.common import AzureHttpError

sys.path.append(str(pathlib.Path(__file__).parent.parent / "common"))

from cases import case, equal, fresh_name, main, settings_of  # noqa: E402, F401  (for the cases)

# The libraries log every refusal, and refusals are what many cases want.
logging.disable(logging.CRITICAL)


@contextlib.contextmanager
def refused(status, code, text=None):
    try:
        yield
    except AzureHttpError as error:
        # A failed batch carries its code apart; other errors hold the whole body in their text.
        told = getattr(error, "code", None) or str(error)
        equal((error.status_code, code in told), (status, True), str(error))
        if text is not None:
            assert text in str(error), str(error)
        return
    raise AssertionError(f"accepted, where {status} {code} was due")
