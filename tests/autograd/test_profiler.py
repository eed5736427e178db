"""Profiles: which ops are seen, labels, windows by schedule, and what is written."""
import json

import pytest

import rushlight as torch
from rushlight.profiler import ProfilerAction, ProfilerActivity


def step():
    x = torch.ones(3, requires_grad=True)
    with torch.profiler.record_function("forward part"):
        y = (x * 2).exp().sum()
    y.backward()


def test_ops_of_both_directions_are_counted():
    with torch.autograd.profiler.profile() as prof:
        step()
        step()
    counts = {average.key: average.count for average in prof.key_averages()}
    assert counts["aten::exp"] == counts["ExpBackward0"] == counts["forward part"] == 2


def test_a_label_holds_the_time_of_its_ops():
    with torch.autograd.profiler.profile() as prof:
        step()
    label = next(event for event in prof.function_events if event.name == "forward part")
    inside = [event for event in prof.function_events if event.cpu_parent is label]
    assert {event.name for event in inside} >= {"aten::mul", "aten::exp"}
    assert label.cpu_time_total >= sum(event.cpu_time_total for event in inside)
    assert label.self_cpu_time_total <= label.cpu_time_total


def test_the_table_names_its_columns_and_refuses_others():
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as prof:
        step()
    text = prof.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    assert "Self CPU %" in text and "# of Calls" in text and "forward part" in text
    with pytest.raises(AttributeError, match="no column"):
        prof.key_averages().table(sort_by="cuda_time")


def test_shapes_are_kept_where_asked_for():
    with torch.profiler.profile(record_shapes=True) as prof:
        torch.ones(2, 3) + torch.ones(3)
    event = next(event for event in prof.events() if event.name == "aten::add")
    assert event.input_shapes == [[2, 3], [3]]


def test_a_schedule_picks_the_steps(tmp_path):
    plan = torch.profiler.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    assert [plan(at).name for at in range(7)] == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    seen = []
    with torch.profiler.profile(schedule=plan, on_trace_ready=lambda p: seen.append([event.name for event in p.events() if "Step" in event.name])) as prof:
        for _ in range(7):
            step()
            prof.step()
    assert seen == [["ProfilerStep#3", "ProfilerStep#4"]]


def test_the_trace_is_a_file_for_chrome(tmp_path):
    with torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler(str(tmp_path / "log"))) as prof:
        step()
    written, = (tmp_path / "log").iterdir()
    names = [event["name"] for event in json.loads(written.read_text())["traceEvents"]]
    assert "ExpBackward0" in names and len(names) == len(prof.events())


def test_an_error_inside_ends_the_profile():
    with pytest.raises(ZeroDivisionError), torch.profiler.profile():
        raise ZeroDivisionError
    with torch.profiler.profile() as prof:
        step()
    assert prof.events()


def test_profiles_do_not_nest_and_unmeasured_options_say_so():
    with torch.profiler.profile(), pytest.raises(RuntimeError, match="running already"), torch.profiler.profile():
        pass
    with pytest.warns(UserWarning, match="profile_memory=True is not measured"):
        torch.autograd.profiler.profile(profile_memory=True)
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        torch.profiler.schedule(wait=-1, warmup=0, active=1)
    assert ProfilerAction.NONE.value == 0


def test_ops_have_pytorchs_names():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.LayerNorm(3))
    with torch.profiler.profile() as prof:
        x = torch.ones(4, 2)
        torch.nn.functional.mse_loss(model(x), torch.ones(4, 3)).backward()
        x.sum(), x.sum(0), x.mean(1), x.max(), x.double(), x[0], x.exp_()
        model[0](torch.ones(2, 2, 2))
        torch.nn.functional.max_pool2d(torch.ones(1, 1, 4, 4), 2)
        torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2))
        torch.nn.functional.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2)
        torch.fft.fft(x)
    counts = {average.key: average.count for average in prof.key_averages()}
    assert counts.keys() >= {"aten::" + name for name in (
        "addmm native_batch_norm native_layer_norm mse_loss sum mean max _to_copy exp_ max_pool2d_with_indices convolution upsample_nearest2d").split()}
    assert counts["aten::sum"] >= 2 and counts["aten::native_batch_norm"] == 1
    assert not [name for name in counts if name.endswith(("_all", "_dims", "_rows", "_statistics"))]


@pytest.mark.parametrize("make", [torch.profiler.profile, torch.autograd.profiler.profile])
def test_what_is_not_measured_is_said_once_at_the_users_line(make):
    with pytest.warns(UserWarning, match="with_flops=True is not measured") as said:
        with make(with_flops=True):
            pass
    assert [warning.filename for warning in said] == [__file__]


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'use_gpu'"):
        torch.autograd.profiler.profile(use_gpu=True)
