"""What every client's program shares: how it is called, and how it says what it saw."""

import sys
import traceback

URL, KEY, MODEL = sys.argv[1:4]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def run(checks):
    """Runs the checks in their order; exits 1 if one of them raises."""
    failed = 0
    for check in checks:
        try:
            check()
            print(f"ok {check.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED {check.__name__}")
            traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)
