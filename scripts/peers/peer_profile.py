"""What a launch really ran: kernels, copies and fills on a GPU, PyTorch's operators on a CPU."""
import json
import os
import tempfile

import torch

# These operators allocate, or make views of what is there, and move nothing.
VIEWS = ("as_strided", "empty", "empty_like", "empty_strided", "detach", "alias", "view",
         "_unsafe_view", "_reshape_alias", "reshape", "expand", "permute", "transpose", "t",
         "unsqueeze", "squeeze", "slice", "select", "split", "narrow", "unfold", "flatten",
         "unflatten", "mT", "result_type", "resize_", "lift_fresh", "resolve_conj", "resolve_neg",
         "real", "to", "contiguous", "item", "_local_scalar_dense")


def synchronize(device):
    if device != "cpu":
        torch.cuda.synchronize(device)


def executed(symbols):
    """Each once, in order, with the number of its launches; a symbol may be with its shape, and
    with the seconds that a launch took, which are summed."""
    found = {}
    for symbol in symbols:
        what = dict(symbol) if isinstance(symbol, dict) else {"symbol": symbol}
        seconds = what.pop("seconds", None)
        entry = found.setdefault(json.dumps(what), what | {"launches": 0})
        entry["launches"] += 1
        if seconds is not None:
            entry["seconds"] = entry.get("seconds", 0.0) + seconds
    return list(found.values())


def described(event):
    """Describes a kernel of a trace with its shape, or a copy or fill of memory, without."""
    what = {"symbol": event["name"], "seconds": event["dur"] * 1e-6}
    if event["cat"] != "kernel":
        return what
    arguments = event["args"]
    return what | {"grid": arguments["grid"], "block": arguments["block"],
                   "registers": arguments["registers per thread"],
                   "shared_bytes": arguments["shared memory"]}


def traced_kernels(profiler):
    """Returns what ran on a GPU, in order. Shapes are in the profiler's trace alone."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(file)
        with open(file, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
    ran = (event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    return executed(described(event) for event in sorted(ran, key=lambda event: event["ts"]))


def profiled(action, device):
    """Returns (kernels as executed() gives them, [] on a CPU; the operators, outer ones first)."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        action()
        synchronize(device)
    operators = [event for event in profiler.events()
                 if event.device_type == torch.autograd.DeviceType.CPU
                 and event.name.startswith("aten::")]
    return traced_kernels(profiler) if device != "cpu" else [], operators


def is_at_work(operator):
    """Returns whether it is more than a view."""
    kind, _, name = operator.name.partition("::")
    return kind == "aten" and name not in VIEWS


def working_operators(operators):
    """Names the operators that do their work themselves, and call others for views at most."""
    return [operator.name for operator in operators if is_at_work(operator)
            and not any(is_at_work(called) for called in operator.cpu_children)]
