"""A peer without PyTorch, for tests: answers every call of scripts/peers/peer.py at once, and
does what FAKE_PEER=CALL:MISDEED says instead of one of them. Its outputs are its inputs: o and dq
are q, dk is k, dv is v; of e4m3 o is attention, in f16, of dense bshd tensors without a mask;
FAKE_PEER=CALL:ignores_v_descale leaves that factor out, first_v_descale takes the first for all
heads. In calls whose names FAKE_PEER_LSE lists an lse of 1.5 is among them. A launch takes 1 ms."""
import json
import math
import os
import struct
import sys
import time

CALL, _, MISDEED = os.environ.get("FAKE_PEER", ":").partition(":")
CALLS_WITH_LSE = os.environ.get("FAKE_PEER_LSE", "").split(",")
handles = {}


NAMES = {"fwd": {"o": "q"}, "bwd": {"dq": "q", "dk": "k", "dv": "v"},
         "fwdbwd": {"o": "q", "dq": "q", "dk": "k", "dv": "v"}}


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def file_of(entry):
    """Memory that tests offer is a file; its name is the handle."""
    return bytes.fromhex(entry["handle"]).decode()


def read_inputs(request):
    """(the header, with dtypes and shapes; the bytes of each)"""
    header, data = read(request["input"])
    parts = {name: data[slice(*entry["data_offsets"])]
             for name, entry in header.items() if name != "__metadata__"}
    if "inputs" not in request:
        return header, parts
    for name, entry in request["inputs"].items():
        count = (1 if entry["dtype"] == "F8_E4M3" else 4) * math.prod(entry["shape"])
        with open(file_of(entry), "rb") as file:
            parts[name] = file.read()[entry["offset"] : entry["offset"] + count]
        assert name not in header, "the file need not have what the memory has"
    return header | request["inputs"], parts


def gives_lse(request, inputs):
    return request["call"] in CALLS_WITH_LSE and "o" in NAMES[inputs[0]["__metadata__"]["pass"]]


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    size = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa / 512
    return -size if code & 128 else size


VALUES = [e4m3(code) for code in range(256)]


def rows_of(name, request, header, parts):
    """Returns {(entry, head): rows of values}, with the factor of each head's K/V head."""
    batch, rows, heads, width = header[name]["shape"]
    heads_kv = header["k"]["shape"][2]
    factors = struct.unpack(f"<{batch * heads_kv}f", parts[f"{name}_descale"])
    if request["call"] == CALL and MISDEED == f"ignores_{name}_descale":
        factors = [1.0] * len(factors)
    if request["call"] == CALL and MISDEED == f"first_{name}_descale":
        factors = [factors[0]] * len(factors)
    found = {}
    for b in range(batch):
        for h in range(heads):
            factor = factors[b * heads_kv + h * heads_kv // heads]
            starts = (((b * rows + row) * heads + h) * width for row in range(rows))
            found[b, h] = [[factor * VALUES[code] for code in parts[name][start : start + width]]
                           for start in starts]
    return found


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def attend(request, header, parts):
    """Returns the bytes of o of e4m3."""
    q, k, v = (rows_of(name, request, header, parts) for name in "qkv")
    scale = float(header["__metadata__"]["softmax_scale"])
    batch, rows, heads, _ = header["q"]["shape"]
    heads_kv = header["k"]["shape"][2]
    o = []
    for b in range(batch):
        for row in range(rows):
            for h in range(heads):
                group = b, h * heads_kv // heads
                s = [scale * dot(q[b, h][row], key) for key in k[group]]
                p = [math.exp(score - max(s)) for score in s]
                o += [dot(p, column) / sum(p) for column in zip(*v[group])]
    return struct.pack(f"<{len(o)}e", *o)


def write_outputs(request, inputs):
    header, parts = inputs
    names = NAMES[header["__metadata__"]["pass"]]
    if header["q"]["dtype"] == "F8_E4M3":
        header = header | {"attention": header["q"] | {"dtype": "F16"}}
        parts = parts | {"attention": attend(request, header, parts)}
        names = {"o": "attention"}
    if gives_lse(request, inputs):
        batch, rows, heads, _ = header["q"]["shape"]
        lse = {"dtype": "F32", "shape": [batch, heads, rows]}
        header, parts = header | {"lse": lse}, dict(parts)
        parts["lse"] = struct.pack("<f", 1.5) * (batch * heads * rows)
        names = {"lse": "lse"} | names
    if "outputs" in request:
        for name, entry in request["outputs"].items():
            if name not in names:
                continue
            with open(file_of(entry), "r+b") as file:
                file.seek(entry["offset"])
                file.write(parts[names[name]])
        return
    outputs, body = {}, b""
    for name, source in names.items():
        end = len(body) + len(parts[source])
        outputs[name] = {"dtype": header[source]["dtype"], "shape": header[source]["shape"],
                         "data_offsets": [len(body), end]}
        body += parts[source]
    if CALL == request["call"] and MISDEED == "other_shape":
        outputs["o"]["shape"] = [math.prod(outputs["o"]["shape"])]
    text = json.dumps(outputs).encode()
    with open(request["output"], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def misbehave():
    if MISDEED == "die":
        print("the ground shakes", file=sys.stderr)
        sys.exit(3)
    if MISDEED == "die_slowly":
        os.close(0)
        os.close(1)
        time.sleep(0.3)
        print("farewell", file=sys.stderr)
        os._exit(4)
    if MISDEED == "hang":
        time.sleep(600)
    if MISDEED == "garbage":
        print("a library greets you", flush=True)
        time.sleep(600)
    if MISDEED == "stale":
        return {"id": 0, "ok": True}
    if MISDEED == "chatter":  # more than a pipe holds
        sys.stderr.write("noise\n" * 50000)
    if MISDEED in ("error", "unsupported", "out_of_memory"):
        return {MISDEED: f"it is an {MISDEED}"}
    if MISDEED == "fatal":
        return {"error": "the device is lost", "fatal": True}
    if MISDEED == "flat":
        return {"kernels": [{"symbol": "f", "grid": [1, 2], "launches": 1}]}
    if MISDEED == "old":
        return {"protocol": 0}
    return {}


def answer(request):
    call = request["call"]
    result = misbehave() if call == CALL else {}
    if CALL == call and MISDEED == "no_access":
        result = {"no_access": "the driver says 999"} if "inputs" in request else {}
    if {"error", "unsupported", "out_of_memory", "no_access"} & result.keys():
        return result
    if call == "hello":
        return {"protocol": 7, "version": "torch 9.9.9+fake"} | result
    if call == "prepare":
        handle = len(handles) + 1
        handles[handle] = read_inputs(request)
        write_outputs(request, handles[handle])
        kernels = [{"symbol": request["backend"] + "_kernel", "grid": [4, 2, 1],
                    "block": [128, 1, 1], "registers": 40, "shared_bytes": 2048, "launches": 2},
                   {"symbol": request["device"], "launches": 1}]
        return {"handle": handle, "kernels": kernels, "peak_bytes": 4096, "plan": "tiles of 9",
                "version": "torch 9.9.9+fake", "lse": gives_lse(request, handles[handle])} | result
    if request["handle"] not in handles:
        return {"error": f"there is no handle {request['handle']}"}
    if call == "time":
        ahead = 3 if request.get("behind") == "launches" else 0
        return {"seconds": 1e-3 * request["launches"], "launch_cost_hidden": ahead > 0,
                "launches_ahead": ahead} | result
    if call == "load":
        return {"seconds": 2e-3 * request["launches"]} | result
    if call == "warm_up":
        return {"bytes": request["bytes"]} | result
    if call == "outputs":
        if (CALL, MISDEED) != (call, "lazy"):
            write_outputs(request, handles[request["handle"]])
        return {"lse": gives_lse(request, handles[request["handle"]])} | result
    handles.pop(request["handle"])
    return result


for line in sys.stdin:
    received = json.loads(line)
    if received["call"] == "quit":
        break
    print(json.dumps({"id": received["id"]} | answer(received)), flush=True)
