"""`python -m rushlight`: see cli/."""
import sys

from rushlight.cli import main

sys.exit(main())
