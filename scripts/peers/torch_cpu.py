#!/usr/bin/env python3
"""Times attnlab's CPU kernels and PyTorch's CPU attention in interleaved rounds.

One side runs at a time. Each round visits all competitors in a new random order: PyTorch's
scaled_dot_product_attention with its flash and math backends in this process, and one attnlab
process that times naive and v2. Every timed call follows an untimed one of the same kind.

Needs a Python with PyTorch 2.x (any scratch environment) and a built attnlab:

  python3 -m venv /tmp/peer && /tmp/peer/bin/pip install torch
  /tmp/peer/bin/python scripts/peers/torch_cpu.py --attnlab build/cpu/attnlab
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

# Idle OpenMP threads must sleep, not spin beside the other side's timed call.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attnlab", default="build/cpu/attnlab", help="the attnlab binary")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seqlen", type=int, default=4096)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--layout", choices=["bshd", "bhsd"], default="bhsd",
                        help="order in memory; bhsd is contiguous for PyTorch")
    parser.add_argument("--block", help="tile of v2, like 128x128 (default: its own)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", help="write all samples to this JSON file")
    return parser.parse_args()


def torch_competitors(options):
    """Returns {(name, mask): function that times one call in seconds}."""
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        sys.exit("error: this Python has no PyTorch; remedy: pip install torch in a scratch "
                 "environment and run this script with its python")
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(7)
    shape = [options.batch, options.heads, options.seqlen, options.head_dim]
    if options.layout == "bshd":  # PyTorch takes it as a transposed view
        shape[1], shape[2] = shape[2], shape[1]
    q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
    if options.layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))

    def timed(backend, causal):
        with sdpa_kernel(backend), torch.no_grad():
            for is_timed in (False, True):
                begin = time.perf_counter()
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                if is_timed:
                    return time.perf_counter() - begin

    backends = {"torch flash": SDPBackend.FLASH_ATTENTION, "torch math": SDPBackend.MATH}
    competitors = {}
    for name, backend in backends.items():
        for mask in ("none", "causal"):
            competitors[(name, mask)] = (
                lambda backend=backend, mask=mask: timed(backend, mask == "causal"))
    return competitors, f"PyTorch {torch.__version__}"


def attnlab_samples(options):
    """Runs attnlab for one round; returns {(kernel, mask): seconds}."""
    with tempfile.TemporaryDirectory() as folder:
        records_file = os.path.join(folder, "round.jsonl")
        command = [options.attnlab, "run", "--backend", "cpu", "--kernel", "naive,v2",
                   "--mask", "none,causal", "--batch", str(options.batch),
                   "--heads", str(options.heads), "--seqlen", str(options.seqlen),
                   "--head-dim", str(options.head_dim), "--threads", str(options.threads),
                   "--layout", options.layout,
                   "--rounds", "1", "--no-progress", "--out", records_file]
        if options.block:
            command += ["--block", options.block]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"error: {' '.join(command)} ended with {result.returncode}:\n"
                     f"{result.stdout}{result.stderr}")
        samples = {}
        with open(records_file, encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                if record["status"] != "ok":
                    sys.exit(f"error: {record['key']}: {record['status']}: {record['reason']}")
                samples[(record["kernel"], record["problem"]["mask"])] = record["time"]["median_s"]
        return samples


def main():
    options = parse_arguments()
    competitors, torch_version = torch_competitors(options)
    version = subprocess.run([options.attnlab, "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    samples = {}
    for round_index in range(options.rounds):
        turns = list(competitors) + ["attnlab"]
        random.shuffle(turns)
        for turn in turns:
            if turn == "attnlab":
                for key, seconds in attnlab_samples(options).items():
                    samples.setdefault(key, []).append(seconds)
            else:
                samples.setdefault(turn, []).append(competitors[turn]())
        print(f"round {round_index + 1}/{options.rounds}", file=sys.stderr)

    print(version)
    print(f"{torch_version}, {options.threads} threads, f32, batch {options.batch}, "
          f"{options.heads} heads, d {options.head_dim}, seqlen {options.seqlen}, {options.layout}")
    print("| kernel | mask | median ms | q1 | q3 | min | n |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (name, mask), seconds in sorted(samples.items(), key=lambda item: (item[0][1], item[0][0])):
        q1, median, q3 = (1e3 * x for x in statistics.quantiles(seconds, n=4, method="inclusive"))
        print(f"| {name} | {mask} | {median:.1f} | {q1:.1f} | {q3:.1f} | {1e3 * min(seconds):.1f} "
              f"| {len(seconds)} |")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"attnlab": version, "torch": torch_version, "samples_s": {
                f"{name}/{mask}": seconds for (name, mask), seconds in samples.items()}}, file)


if __name__ == "__main__":
    main()
