"""Write the files of docs/ that are printed from the code: `make docs`, or `python -m tools.pages`."""

from collections.abc import Callable
from pathlib import Path

from tools.settings_page import settings_page

ROOT = Path(__file__).resolve().parents[1]
PRINTED: dict[str, Callable[[], str]] = {  # file -> the function that prints it
    "docs/settings.md": settings_page,
}


def main() -> None:
    """Write each file that is not as the code has it."""
    for name, printed in PRINTED.items():
        path, text = ROOT / name, printed()
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"{name} is written")


if __name__ == "__main__":
    main()
