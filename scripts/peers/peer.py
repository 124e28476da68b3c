#!/usr/bin/env python3
"""Another library's attention as a competitor of attnlab's kernels: the other end of
`attnlab run --peer`.

  peer.py LIBRARY            torch, cudnn, fa4, or py:FILE for a Python file of yours

attnlab starts this script (harness/run/peer_process.h), one process a library, and speaks with it
in lines of JSON: one request a line on stdin, {"id": 7, "call": "time", ...}, one answer a line on
stdout, {"id": 7, ...}. Nothing else ever goes to stdout. An answer says "ok", or one of
"unsupported", "out_of_memory", "no_access" (memory that was offered cannot be opened: hand over
files) and "error" with a sentence; a process that goes on after an answer with "fatal" would lie,
so it ends.

  hello                      protocol, version (of the library), devices
  prepare  backend           of the library (torch: eager, flash, efficient, cudnn, math; py: the
                             function), "" where it has one
           device            cpu or cuda:N;  threads: of the CPU;  tf32: true allows it (f32 eager)
           input             a file as `attnlab run --save` writes it: q, k, v, do, block_pattern,
                             and what its metadata say: pass, layout, mask, lengths, scale, dropout;
                             of e4m3 q, k and v are codes, F8_E4M3, and q_descale, k_descale and
                             v_descale, F32 [batch, heads_kv], make values of them
           inputs            instead of q, k, v and do in that file: {"q": {"dtype": "BF16",
                             "shape": [...], "handle": 128 hexadecimal digits of a CUipcMemHandle,
                             "offset": bytes}, ...}, memory to copy them from
           sets              copies of the inputs that launches go through in turn (cold caches)
           output            the file to write the outputs of a first launch to
           outputs           instead of output: memory to write them to, as inputs names it
    ->     handle, kernels (what the pass ran: symbol, grid, block, registers of a thread,
           shared_bytes, launches, seconds of all launches; copies and fills of memory: without
           a shape; on the CPU operators: symbol, launches), peak_bytes (of a launch above
           inputs and masks, with what its forward left), plan (which of its ways the library
           chose, or null), version (of what ran), lse (whether it is among the outputs),
           verified_dropout
  warm_up  handle, bytes     writes so many bytes of its own, then launches once, untimed: before a
                             sample, as attnlab fills its own kernels' outputs and launches them
  load     handle, launches  queues them one after the other and times nothing
    ->     seconds until they are done
  time     handle, launches
           behind            sleep, or launches: a GPU under load has no rest
    ->     seconds of all together, launch_cost_hidden, launches_ahead (in all calls so far, those
           that kept the GPU busy until the others were queued)
  outputs  handle, output    writes the outputs of the last timed launch; or outputs, as above
    ->     lse
  release  handle
  quit

What is measured. Tensors lie in memory as attnlab's do; a library that wants their dimensions in
another order gets transposed views, as users do. fwd runs without gradients; bwd is the backward of
a forward that ran before; fwdbwd is both. A forward that is timed alone makes no lse where the
library can leave it out: outputs to verify come from a launch with it, and o of the last timed
launch is verified, too. A backward needs it, and gets it. Keys past a padded entry's end are set to
zero: no result depends on them, and in f16 their products overflow where a framework forms them.

  torch   eager is what a framework's user writes: matmul, times scale, masked_fill, softmax,
          dropout, matmul in the tensors' type, on those views (torch copies inside matmul what it
          cannot view; that is timed), with K and V repeated for grouped heads. The others are
          scaled_dot_product_attention held to one backend. Masks are boolean tensors made before,
          `is_causal` is used where it means the same, and the lower-right causal bias where the
          backend knows it. Which backend ran is read from the profiler: another one than asked for
          is refused.
  py      FUNCTION(q, k, v, *, causal, softmax_scale, ...) of FILE (py_library.py has the rules)

Functions alone are given e4m3: the codes that attnlab's kernels get, with V as it lies. What a
function does to them is in its time; that bf16 becomes f16, in which attnlab verifies o, is not.

PyTorch draws dropout masks of its own: outputs to verify come from a launch without dropout
("verified_dropout": 0), the timed ones have it.

On a GPU the time lies between two events behind a sleeping kernel, long enough for all launches to
be queued behind it, or behind up to 100 launches more; launch_cost_hidden says whether it was. It
sleeps in any case where it would take more. Everything is synchronised before an answer. On the CPU
it is the wall clock.
"""
import importlib
import json
import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_IGN)  # attnlab decides when to stop
# Idle OpenMP threads must sleep, not spin beside the other side's timed launch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

PROTOCOL = 7
REMEDY = ("pip install torch for this Python, or set ATTNLAB_PYTHON to one that has it "
          f"(this one is {sys.executable})")
MODULES = {"torch": "torch_library", "cudnn": "cudnn_library", "fa4": "fa4_library",
           "py": "py_library"}


def greet(name):
    """(the answer to hello, the peer): without its library the answer is a sentence, and no
    peer."""
    kind, _, file = name.partition(":")
    if kind not in MODULES:
        return {"unsupported": f"there is no library '{name}': take {', '.join(MODULES)}"}, None
    try:
        import torch
    except (ImportError, OSError) as error:
        return {"unsupported": f"PyTorch cannot be imported ({error}): {REMEDY}"}, None
    try:
        from peer_calls import Peer
        from peer_point import Unsupported
        load = importlib.import_module(MODULES[kind]).load
    except (ImportError, AttributeError) as error:
        return {"unsupported": f"torch {torch.__version__} lacks what this needs, 2.5 is the least "
                               f"({error}): {REMEDY}"}, None
    try:
        peer = Peer(load(file))
    except Unsupported as error:
        return {"unsupported": str(error)}, None
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    return {"ok": True, "protocol": PROTOCOL, "version": peer.library.version,
            "devices": [torch.cuda.get_device_name(i) for i in devices]}, peer


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    peer = None
    for line in sys.stdin:
        number = None
        try:
            request = json.loads(line)
            number, call = request["id"], request["call"]
        except (ValueError, KeyError, TypeError) as error:
            answer = {"error": f"the request is no JSON object with id and call: {error!r}"}
        else:
            if call == "quit":
                break
            if call == "hello" and peer is None:
                answer, peer = greet(sys.argv[1] if len(sys.argv) > 1 else "")
            elif peer is None:
                answer = {"error": "say hello first"}
            else:
                answer = peer.answer(request)
        try:
            answers.write(json.dumps({"id": number} | answer) + "\n")
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # nobody is there any more
        if answer.get("fatal"):
            os._exit(1)


if __name__ == "__main__":
    main()
