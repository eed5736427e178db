"""Grad modes and the default dtype: nesting, decorators, generators, classes, threads."""
import threading

import pytest

import rushlight as torch


def test_nesting_and_errors_restore_the_mode():
    with pytest.raises(ZeroDivisionError):
        with torch.no_grad():
            with torch.enable_grad():
                raise ZeroDivisionError
    assert torch.is_grad_enabled()


def test_decorators_with_and_without_parentheses():
    @torch.no_grad
    def bare():
        return torch.is_grad_enabled()

    @torch.no_grad()
    def called():
        return torch.is_grad_enabled()

    @torch.inference_mode()
    def inference():
        return torch.is_inference_mode_enabled()
    assert (bare(), called(), inference(), torch.is_grad_enabled()) == (False, False, True, True)


def test_recursion_through_a_decorated_function():
    @torch.no_grad()
    def down(n):
        return [torch.is_grad_enabled()] + (down(n - 1) if n else [])
    assert not any(down(3)) and torch.is_grad_enabled()


def test_set_grad_enabled_as_a_statement_and_a_context():
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_inference_mode_can_be_off():
    with torch.inference_mode(False):
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    assert torch.ones(1).dtype is torch.get_default_dtype() is torch.float64
    with pytest.raises(TypeError):
        torch.set_default_dtype(torch.int64)


def test_each_thread_has_its_own_mode():
    ready, done, seen = threading.Event(), threading.Event(), []

    def other():
        with torch.no_grad():
            ready.set()
            done.wait(5)
            seen.append(torch.is_grad_enabled())
    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(5)
    assert torch.is_grad_enabled()
    done.set()
    thread.join()
    assert seen == [False]
