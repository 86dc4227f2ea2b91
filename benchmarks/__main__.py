"""Run the named benchmarks: ``python -m benchmarks [names]``. Without a name, run all."""

import importlib
import importlib.util
import sys

NAMES = ("kafka_log", "judge", "recording", "startup", "plugin", "model", "wire", "apps", "reports")


def main(names: list[str]) -> int:
    """Run the ``main()`` of each named module. Return 2 if there is no module with a name."""
    here = [name for name in NAMES if importlib.util.find_spec(f"benchmarks.{name}")]
    if unknown := [name for name in names if name not in here]:
        print(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(here)}")
        return 2
    for name in names or here:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
