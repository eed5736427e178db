"""A save that is killed, or that the system fails, leaves the old file or the new one, whole."""
import errno
import io
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from rushlight.serialize import atomic, load, save
from rushlight.tensor import wrap

ROOT = Path(__file__).resolve().parents[2]
KILLER = textwrap.dedent("""
    import os, random, signal, sys, time
    import numpy as np
    from rushlight.serialize import load, save
    from rushlight.tensor import wrap

    folder, seen, left = sys.argv[1], set(), 0
    random.seed(0)
    paths = [os.path.join(folder, name) for name in ("a.pt", "a.safetensors")]
    for path in paths:
        save({"x": wrap(np.full(60_000, -1.0, "f4")), "y": wrap(np.full(10, -1.0, "f4"))}, path)
    for kill in range(300):
        path = paths[kill % 2]
        child = os.fork()
        if child == 0:
            value = kill
            while True:
                save({"x": wrap(np.full(60_000, value, "f4")), "y": wrap(np.full(10, value, "f4"))}, path)
                value += 1000
        time.sleep(random.uniform(0.0005, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        loaded = load(path)
        x, y = loaded["x"]._array, loaded["y"]._array
        assert x.shape == (60_000,) and (x == x[0]).all() and (y == x[0]).all(), (kill, path)
        seen.add(float(x[0]))
        for name in os.listdir(folder):
            if name.endswith(".tmp"):
                left += 1
                os.unlink(os.path.join(folder, name))
    print(len(seen), left)
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_300_kills_while_saving(tmp_path):
    ran = subprocess.run([sys.executable, "-c", KILLER, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    values, left = map(int, ran.stdout.split())
    assert values > 20, "the saves hardly ran"
    assert left > 20, "no kill came in the middle of a save"


def payload(value, count=10_000):
    return {"x": wrap(np.full(count, value, np.float32))}


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
@pytest.mark.parametrize("call", ["fsync", "replace", "open", "fchmod"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_system_call_leaves_the_old_file(tmp_path, monkeypatch, name, call, code):
    path = tmp_path / name
    save(payload(1), path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, call, fail)
        with pytest.raises(OSError, match=os.strerror(code)):
            save(payload(2), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [name]
    save(payload(2), path)
    assert load(path)["x"]._array[0] == 2


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_every_write_failing_in_turn(tmp_path, monkeypatch, name):
    """The k-th write fails with a full disk, for each k there is."""
    path = tmp_path / name
    save(payload(1), path)
    before, real, k = path.read_bytes(), os.fdopen, 0
    while True:
        k += 1

        class Failing(io.BufferedWriter):
            left = k

            def write(self, data):
                self.left -= 1
                if not self.left:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data)
        with monkeypatch.context() as patch:
            patch.setattr(atomic.os, "fdopen", lambda fd, mode: Failing(io.FileIO(fd, "wb")))
            try:
                save(payload(2), path)
            except OSError as error:
                assert error.errno == errno.ENOSPC
            else:
                break
        assert path.read_bytes() == before and os.listdir(tmp_path) == [name]
    assert k > 2 and load(path)["x"]._array[0] == 2 and os.fdopen is real


def test_a_refused_object_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    save(payload(1), path)
    with pytest.raises(TypeError):
        save({"x": lambda: 1}, path)
    assert load(path)["x"]._array[0] == 1 and os.listdir(tmp_path) == ["a.pt"]


def test_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    save(payload(1), path)

    def interrupt(*args):
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save(payload(2), path)
    assert load(path)["x"]._array[0] == 1 and os.listdir(tmp_path) == ["a.pt"]


def test_the_mode_of_the_target_is_kept(tmp_path):
    path = tmp_path / "a.pt"
    save(payload(1), path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    for mode in (0o600, 0o444, 0o664):
        path.chmod(mode)
        save(payload(2), path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_symbolic_link_stays_one(tmp_path):
    target, link = tmp_path / "store" / "real.pt", tmp_path / "link.pt"
    target.parent.mkdir()
    save(payload(1), target)
    link.symlink_to(target)
    save(payload(2), link)
    assert link.is_symlink() and load(target)["x"]._array[0] == 2
    dangling = tmp_path / "dangling.pt"
    dangling.symlink_to(tmp_path / "store" / "new.pt")
    save(payload(3), dangling)
    assert dangling.is_symlink() and load(tmp_path / "store" / "new.pt")["x"]._array[0] == 3


def test_what_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="expected a file name to save to"):
        save(payload(1), tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="expected a regular file"):
        save(payload(1), tmp_path / "fifo")
    save(payload(1), "/dev/null")
    with pytest.raises(FileNotFoundError):
        save(payload(1), tmp_path / "none" / "a.pt")


def test_long_and_odd_names(tmp_path):
    for name in ("x" * 250, "a b.pt", "ü" * 100 + ".pt"):
        save(payload(1), tmp_path / name)
        assert load(tmp_path / name)["x"]._array[0] == 1
    assert len(os.listdir(tmp_path)) == 3


def test_saving_over_the_file_that_is_mapped(tmp_path):
    path = tmp_path / "a.safetensors"
    save(payload(5, 100_000), path)
    mapped = load(path, mmap=True)
    save(mapped, path)
    assert load(path)["x"]._array.sum() == 500_000
