#!/usr/bin/env python3
"""PyTorch's attention as a competitor of attnlab's kernels: the other end of `attnlab run --peer`.

attnlab starts this script (harness/run/peer_process.h) and speaks with it in lines of JSON: one
request a line on stdin, {"id": 7, "call": "time", ...}, one answer a line on stdout, {"id": 7,
...}. Nothing else ever goes to stdout. An answer says "ok", or one of "unsupported",
"out_of_memory", "no_access" (memory that was offered cannot be opened: hand over files) and "error"
with a sentence; a process that goes on after an answer with "fatal" would lie, so it ends.

  hello                      protocol, versions of torch, CUDA and cuDNN, devices
  prepare  backend           eager, flash, efficient, cudnn or math
           device            cpu or cuda:N;  threads: of the CPU;  tf32: true allows it (f32 eager)
           input             a file as `attnlab run --save` writes it: q, k, v, do, block_pattern,
                             and what its metadata say: pass, layout, mask, lengths, scale, dropout
           inputs            instead of q, k, v and do in that file: {"q": {"dtype": "BF16",
                             "shape": [...], "handle": 128 hexadecimal digits of a CUipcMemHandle,
                             "offset": bytes}, ...}, memory to copy them from
           sets              copies of the inputs that launches go through in turn (cold caches)
           output            the file to write the outputs of a first launch to
           outputs           instead of output: memory to write them to, as inputs names it
    ->     handle, kernels (what the pass ran: symbol, grid, block, registers of a thread,
           shared_bytes, launches, seconds of all launches; copies and fills of memory: without
           a shape; on the CPU operators: symbol, launches), peak_bytes (of a launch above
           inputs and masks, with what its forward left), verified_dropout
  warm_up  handle, bytes     writes so many bytes of its own, then launches once, untimed: before a
                             sample, as attnlab fills its own kernels' outputs and launches them
  time     handle, launches  -> seconds of all together, launch_cost_hidden
  outputs  handle, output    writes the outputs of the last timed launch; or outputs, as above
  release  handle
  quit

What is measured. Tensors lie in memory as attnlab's do; bshd ones are passed as transposed views,
as users do. eager is what a framework's user writes: matmul, times scale, masked_fill, softmax,
dropout, matmul in the tensors' type, on those views (torch copies inside matmul what it cannot
view; that is timed), with K and V repeated for grouped heads. The others are scaled_dot_product_attention
held to one backend. Masks are boolean tensors made before, `is_causal` is used where it means the
same, and the lower-right causal bias where the backend knows it. fwd runs without gradients; bwd is
torch.autograd.grad of a forward that ran before; fwdbwd is both. Which backend ran is read from the
profiler: another one than asked for is refused. Keys past a padded entry's end are set to zero: no
result depends on them, and in f16 their products overflow where the framework forms them.

PyTorch draws dropout masks of its own: outputs to verify come from a launch without dropout
("verified_dropout": 0), the timed ones have it.

On a GPU the time lies between two events behind a sleeping kernel, long enough for all launches to
be queued behind it; launch_cost_hidden says whether it was. Everything is synchronised before an
answer. On the CPU it is the wall clock.
"""
import json
import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_IGN)  # attnlab decides when to stop
# Idle OpenMP threads must sleep, not spin beside the other side's timed launch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

PROTOCOL = 4
REMEDY = ("pip install torch for this Python, or set ATTNLAB_PYTHON to one that has it "
          f"(this one is {sys.executable})")


def greet():
    """(the answer to hello, the peer): without PyTorch the answer is a sentence, and no peer."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return {"unsupported": f"PyTorch cannot be imported ({error}): {REMEDY}"}, None
    try:
        import torch_peer
    except (ImportError, AttributeError) as error:
        return {"unsupported": f"torch {torch.__version__} lacks what this needs, 2.5 is the least "
                               f"({error}): {REMEDY}"}, None
    cuda = torch.cuda.is_available()
    return {"ok": True, "protocol": PROTOCOL, "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version() if cuda else None,
            "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
                       if cuda else []}, torch_peer.Peer()


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
                answer, peer = greet()
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
