"""PySpark's bytecode for Spark's Python processes: `python -m apportion.spark.bytecode`.

Spark starts its Python processes with PySpark and Py4J from archives, `python/lib/*.zip` of its
directory, which come without bytecode, and Python stores none in an archive. So each process
compiles them anew, and a new query starts five, one after the other. The command adds the bytecode
to the archives, once for each installation of PySpark.

The sources stay where they lie in the archive, and it is replaced in one step, so that Spark may
run meanwhile. Another version of Python ignores the bytecode.
"""

import argparse
import marshal
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

HOME = "SPARK_HOME"
UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flags of bytecode that is used without a look at its source (PEP 552)."""
TESTS = "/tests/"  # of PySpark: most of its files, and no worker imports one


class NoArchives(RuntimeError):
    """There are no archives of PySpark; the text says where they were looked for."""


def archives(environment: Mapping[str, str]) -> list[Path]:
    """Return the archives from which Spark starts Python, in order of name. Raises NoArchives.

    environment: Spark's directory is its SPARK_HOME, or else the installed package.
    """
    home, why = environment.get(HOME), f"set {HOME} to Spark's directory"
    if not home:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise NoArchives(f"there is no pyspark in {sys.executable}: install it, or {why}")
        home = str(Path(spec.origin).parent)
    directory = Path(home, "python", "lib")
    found = sorted(directory.glob("py*.zip"))
    if not found:
        raise NoArchives(f"there is no pyspark.zip in {directory}: {why}")
    return found


def add_bytecode(archive: Path) -> int:
    """Add the bytecode of its modules to an archive; return of how many, 0 if it is there.

    Raises OSError, BadZipFile.
    """
    with ZipFile(archive) as opened:
        compiled = [name for name in opened.namelist() if name.endswith(".pyc")]
        if compiled and all(opened.read(name)[:4] == MAGIC_NUMBER for name in compiled):
            return 0
    if compiled:  # by another Python
        remove_bytecode(archive)
    count = 0
    with _replaced(archive) as draft:
        shutil.copyfile(archive, draft)
        with ZipFile(draft, "a", ZIP_DEFLATED) as extended:
            for name in [each for each in extended.namelist() if each.endswith(".py")]:
                code = None if TESTS in name else _code_or_none(archive, name, extended.read(name))
                if code is not None:
                    extended.writestr(f"{name}c", code)
                    count += 1
    return count


def remove_bytecode(archive: Path) -> int:
    """Remove all bytecode from an archive; return of how many modules.

    A process that has begun to use the bytecode may fail. Raises OSError, BadZipFile.
    """
    with ZipFile(archive) as opened:
        members = opened.infolist()
        kept = [member for member in members if not member.filename.endswith(".pyc")]
        if len(kept) == len(members):
            return 0
        with _replaced(archive) as draft, ZipFile(draft, "w", ZIP_DEFLATED) as reduced:
            for member in kept:
                reduced.writestr(member, opened.read(member))
    return len(members) - len(kept)


@contextmanager
def _replaced(archive: Path) -> Iterator[Path]:
    """Provide the path of a draft beside the archive, which replaces it at the end."""
    handle, name = tempfile.mkstemp(dir=archive.parent, prefix=f"{archive.name}.")
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        shutil.copymode(archive, draft)
        draft.replace(archive)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _code_or_none(archive: Path, name: str, source: bytes) -> bytes | None:
    """Return the bytecode of a member, as a .pyc file has it; None if it is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark's code, which is not ours to mend
        try:
            # The name that errors show, as of a module that Python compiles itself.
            code = compile(source, f"{archive}{os.sep}{name}", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return None
    return MAGIC_NUMBER + UNCHECKED_HASH + source_hash(source) + marshal.dumps(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Add or remove the bytecode, say what was done, and return the exit code.

    arguments: of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m apportion.spark.bytecode",
        description="Let Spark's Python processes start without compiling PySpark anew.",
        epilog="In a cluster, run it on each host, with the Python of Spark's workers.",
    )
    parser.add_argument("--remove", action="store_true", help="remove the bytecode again")
    options = parser.parse_args(arguments)
    change = remove_bytecode if options.remove else add_bytecode
    done = "removed" if options.remove else "added"
    nothing = "has no bytecode" if options.remove else "has its bytecode already"
    try:
        for archive in archives(os.environ):
            count = change(archive)
            said = f"bytecode of {count} modules is {done}" if count else nothing
            print(f"{archive}: {said}", flush=True)
    except NoArchives as error:
        return _failed(str(error))
    except PermissionError as error:
        return _failed(f"{error.filename} cannot be written: run this as its owner")
    except OSError as error:
        return _failed(f"{archive} cannot be changed: {error}")
    except BadZipFile as error:
        return _failed(f"{archive} is no archive of modules ({error}): install PySpark again")
    return 0


def _failed(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
