"""PySpark's bytecode for Spark's Python processes: `python -m apportion.spark.bytecode`.

Spark starts its Python processes with PySpark and Py4J from archives, `python/lib/*.zip` of its
directory, which come without bytecode, and Python stores none in an archive. So each process
compiles them anew, and a new query starts five, one after the other. The command adds the bytecode
to the archives, once for each installation of PySpark.

A process of Spark remembers where each member of an archive lies, and opens the file anew for each.
So the archive is replaced in one step, and nothing moves in it: Spark may run while bytecode is
added. While it is removed, Spark may not: its room is freed, also that of replaced bytecode, and a
process that has begun to use it would fail. Another version of Python ignores the bytecode.
"""

import argparse
import marshal
import os
import shutil
import struct
import sys
import tempfile
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

HOME = "SPARK_HOME"
DAMAGED = (BadZipFile, EOFError, zlib.error)
"""What is raised of an archive that is none or has a damaged member."""
UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flags of bytecode that is used without a look at its source (PEP 552)."""
LOCAL_HEADER = struct.Struct("<26xHH")
"""Of a member: the lengths of its name and of its extra field (APPNOTE.TXT, 4.3.7)."""
HAS_DATA_DESCRIPTOR, DATA_DESCRIPTOR_BYTES = 0x08, 24
"""The flag of members that end with a data descriptor, and the size of the longest one (4.3.9)."""
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
    """Add the bytecode that modules of an archive lack; return of how many modules.

    Other bytecode of these modules is dropped: that of another Python, or of an earlier source.
    Nothing moves in the archive, so that Spark may run meanwhile. Raises OSError, DAMAGED.
    """
    added, dropped = dict[str, bytes](), set[str]()
    with ZipFile(archive) as opened:
        compiled = _compiled(opened)
        for name in [each for each in opened.namelist() if each.endswith(".py")]:
            source, its_code = opened.read(name), f"{name}c"
            if TESTS in name or (its_code in compiled and _fits(opened, its_code, source)):
                continue
            code = _code_or_none(archive, name, source)
            if code is not None:
                added[its_code] = code
            if its_code in compiled:
                dropped.add(its_code)
    if added or dropped:
        with _changed(archive, dropped) as extended:
            for name, code in added.items():
                extended.writestr(name, code)
    return len(added)


def remove_bytecode(archive: Path) -> int:
    """Remove the bytecode of its modules from an archive; return of how many modules.

    The sources stay where they lie, but a process that has begun to use the bytecode may fail: stop
    Spark first. Raises OSError, DAMAGED.
    """
    with ZipFile(archive) as opened:
        compiled = _compiled(opened)
    if compiled:
        with _changed(archive, compiled) as reduced:
            reduced.start_dir = min(_end(archive, reduced.infolist()), reduced.start_dir)
    return len(compiled)


def _compiled(opened: ZipFile) -> set[str]:
    """Return the members that are bytecode of another member."""
    names = set(opened.namelist())
    return {name for name in names if name.endswith(".pyc") and name[:-1] in names}


def _fits(opened: ZipFile, name: str, source: bytes) -> bool:
    """Return whether a member is the bytecode that this Python makes of the source."""
    expected = _head(source)
    with opened.open(name) as member:
        return member.read(len(expected)) == expected


@contextmanager
def _changed(archive: Path, dropped: Collection[str]) -> Iterator[ZipFile]:
    """Provide a copy of an archive without some members, which replaces it at the end.

    The other members stay where they lie. What is written comes behind all that is there; where
    the attribute `start_dir` is lowered, what is behind is cut off.
    """
    with _replaced(archive) as draft:
        shutil.copyfile(archive, draft)
        with ZipFile(draft, "a", ZIP_DEFLATED) as changed:
            # zipfile has no call that drops a member: these two are its directory.
            changed.filelist = [each for each in changed.filelist if each.filename not in dropped]
            changed.NameToInfo = {each.filename: each for each in changed.filelist}
            changed.comment = changed.comment  # so that the directory is written in any case
            yield changed


def _end(archive: Path, members: Sequence[ZipInfo]) -> int:
    """Return the offset behind the last of these members; one at the least."""
    last = max(members, key=lambda member: member.header_offset)
    with archive.open("rb") as opened:
        opened.seek(last.header_offset)
        lengths = LOCAL_HEADER.unpack(opened.read(LOCAL_HEADER.size))
    end: int = last.header_offset + LOCAL_HEADER.size + sum(lengths) + last.compress_size
    return end + (DATA_DESCRIPTOR_BYTES if last.flag_bits & HAS_DATA_DESCRIPTOR else 0)


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
    return _head(source) + marshal.dumps(code)


def _head(source: bytes) -> bytes:
    """Return what a .pyc file has before the code (PEP 552)."""
    return MAGIC_NUMBER + UNCHECKED_HASH + source_hash(source)


REMOVE_HELP = (
    "remove the bytecode again; stop Spark first, as processes that have begun to use it would fail"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Add or remove the bytecode, say what was done, and return the exit code.

    arguments: of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m apportion.spark.bytecode",
        description="Let Spark's Python processes start without compiling PySpark anew.",
        epilog="In a cluster, run it on each host, with the Python of Spark's workers.",
    )
    parser.add_argument("--remove", action="store_true", help=REMOVE_HELP)
    options = parser.parse_args(arguments)
    change = remove_bytecode if options.remove else add_bytecode
    done = "removed" if options.remove else "added"
    nothing = "has no bytecode" if options.remove else "has its bytecode already"
    try:
        for archive in archives(os.environ):
            count = change(archive)
            modules = "1 module" if count == 1 else f"{count} modules"
            said = f"bytecode of {modules} is {done}" if count else nothing
            print(f"{archive}: {said}", flush=True)
    except NoArchives as error:
        return _failed(str(error))
    except PermissionError:
        owner = f"the owner of {archive.parent}"
        return _failed(f"{archive} cannot be changed: run this as {owner}")
    except OSError as error:  # whose text may name the draft, which is gone
        return _failed(f"{archive} cannot be changed: {error.strerror or error}")
    except DAMAGED as error:
        return _failed(f"{archive} is no archive of modules ({error}): install PySpark again")
    return 0


def _failed(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
