"""The object cache: hits, damage, hostile directories, bounds."""

import os

import pytest

from rushlight.kernels import cache


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(path))
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    cache._private.cache_clear()
    yield path
    cache._private.cache_clear()


def test_what_is_stored_is_found(place):
    name = cache.key("a", "b")
    assert cache.load(name) is None
    cache.store(name, b"machine code")
    assert cache.load(name) == b"machine code"
    assert (place.stat().st_mode & 0o777) == 0o700


def test_keys_tell_their_parts_apart():
    assert len({cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key("abc", "")}) == 4


def test_every_damaged_byte_is_noticed(place):
    name = cache.key("x")
    cache.store(name, b"0123456789")
    path = place / f"{name}.o"
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1:])
        with pytest.warns(RuntimeWarning, match="damaged"):
            assert cache.load(name) is None
        assert not path.exists()
    path.write_bytes(whole[:20])
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert cache.load(name) is None


def test_an_entry_under_another_name_is_refused(place):
    cache.store(cache.key("x"), b"code")
    os.rename(place / f"{cache.key('x')}.o", place / f"{cache.key('y')}.o")
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert cache.load(cache.key("y")) is None


def test_links_and_pipes_are_not_read(place, tmp_path):
    cache.store(cache.key("x"), b"code")
    os.symlink(place / f"{cache.key('x')}.o", place / f"{cache.key('y')}.o")
    os.mkfifo(place / f"{cache.key('z')}.o")
    assert cache.load(cache.key("y")) is None and cache.load(cache.key("z")) is None


def test_a_directory_that_others_may_write_is_not_used(place):
    place.mkdir()
    place.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="private directory"):
        cache.store(cache.key("x"), b"code")
    assert not list(place.iterdir())


def test_it_can_be_turned_off(place, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")
    cache.store(cache.key("x"), b"code")
    assert not place.exists()


def test_the_least_recently_used_go_first(place):
    for i in range(4):
        cache.store(cache.key(str(i)), bytes(100))
        os.utime(place / f"{cache.key(str(i))}.o", (i, i))
    size = (place / f"{cache.key('0')}.o").stat().st_size
    assert cache.load(cache.key("0"))  # now the newest
    cache.trim(place, limit=2 * size)
    assert sorted(path.stem for path in place.glob("*.o")) == sorted([cache.key("0"), cache.key("3")])


def test_the_directory_is_looked_through_once_a_day_only(place, monkeypatch):
    looked = []
    trim = cache.trim
    monkeypatch.setattr(cache, "trim", lambda place: looked.append(place) or trim(place))
    monkeypatch.setattr(cache, "_stores", 0)
    for number in range(3):
        cache.store(f"{number}", b"code")
    assert looked == [str(place)]
    os.utime(place / cache.STAMP, (0, 0))
    cache.store("3", b"code")
    cache.store("4", b"code")
    assert looked == [str(place)] * 2
    monkeypatch.setattr(cache, "_stores", 255)
    cache.store("5", b"code")
    assert looked == [str(place)] * 3
