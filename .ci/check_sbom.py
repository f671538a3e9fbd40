"""Check a bill of materials: CycloneDX, and the package with everything that it always
needs.

python .ci/check_sbom.py FILE
"""

import json
import re
import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Read the file, and stop where a package is missing."""
    bom = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    components = {
        component["name"].lower().replace("_", "-"): component
        for component in bom["components"]
    }
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    needed = [
        re.split(r"[<>=~!;\\[ ]", text)[0].lower() for text in project["dependencies"]
    ]
    missing = [name for name in ("rindices", *needed) if name not in components]
    if bom["bomFormat"] != "CycloneDX" or missing:
        raise SystemExit(
            f"{sys.argv[1]}: {bom['bomFormat']} {bom['specVersion']} lacks {', '.join(missing) or 'nothing'}"
        )
    print(f"{sys.argv[1]}: CycloneDX {bom['specVersion']}, {len(components)} packages")


if __name__ == "__main__":
    main()
