"""What compiling says of itself: `RUSHLIGHT_LOGS` names the topics, with commas between them."""

import logging
import os

log = logging.getLogger("rushlight.compile")
LOGS = frozenset(filter(None, os.environ.get("RUSHLIGHT_LOGS", "").replace(" ", "").split(",")))
