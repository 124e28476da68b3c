"""cuDNN as a peer, through nvidia-cudnn-frontend: scaled_dot_product_attention as a graph of its
own, whichever cuDNN PyTorch has loaded (a newer one, installed before PyTorch's own on Python's
path, serves both).

For each graph heuristics A name plans, each is built and timed on the point's own tensors, and the
fastest is taken; the record's `plan` says which. f16 and bf16; masks that are bands (causal,
windows) and padding; no dropout, whose mask would be its own.
"""
import os
import weakref

import torch

from peer_attention import Attention, Library
from peer_clock import CudaClock
from peer_point import Unsupported

REMEDY = ("install.sh beside this script installs it (docs/peers.md says how); or set "
          "ATTNLAB_PYTHON_CUDNN to a Python that has it")
PLANS, LAUNCHES, TIMINGS = 8, 5, 3  # plans to try, launches a timing, timings: the fastest counts


def import_frontend():
    """Imports the frontend, which takes the cuDNN that is in this process, not a second one."""
    torch.backends.cudnn.version()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = [line.split()[-1] for line in maps if "/libcudnn.so" in line]
    if loaded:  # the frontend looks there first
        os.environ["LD_LIBRARY_PATH"] = os.path.dirname(loaded[0])
    try:
        import cudnn
    except ImportError as error:
        raise Unsupported(f"nvidia-cudnn-frontend cannot be imported ({error}): "
                          f"{REMEDY}") from error
    return cudnn


class Cudnn(Library):
    def __init__(self):
        self.cudnn = import_frontend()
        self.version = (f"cuDNN {self.cudnn.backend_version_string()}, frontend "
                        f"{self.cudnn.__version__}, torch {torch.__version__}")
        self.types = {torch.float16: self.cudnn.data_type.HALF,
                      torch.bfloat16: self.cudnn.data_type.BFLOAT16,
                      torch.float32: self.cudnn.data_type.FLOAT,
                      torch.int32: self.cudnn.data_type.INT32}
        self.handles = {}  # by device
        self.graphs = weakref.WeakKeyDictionary()  # of points that somebody has prepared

    def check(self, point, backend):
        point.refuse_packed("cuDNN")
        if point.device == "cpu":
            raise Unsupported("cuDNN runs on a GPU only")
        if point.inputs["q"].dtype not in (torch.float16, torch.bfloat16):
            raise Unsupported("cuDNN's attention takes f16 and bf16 only")
        if point.pattern is not None:
            raise Unsupported("cuDNN's attention takes no block pattern")
        if point.padded and point.rows != point.columns and (point.causal or point.window):
            raise Unsupported("cuDNN aligns a band at each entry's own end, attnlab at the padded "
                              "one")
        if point.dropout > 0:
            raise Unsupported("dropout is not asked of cuDNN: take torch:cudnn")

    def attention(self, point, backend, dropout, lse, copy=False):
        return CudnnAttention(self, point, lse, copy)

    def graph(self, point, key, make):
        """Returns the point's graph of this name, made once."""
        graphs = self.graphs.setdefault(point, {})
        if key not in graphs:
            graphs[key] = make()
        return graphs[key]

    def handle(self, device):
        if device not in self.handles:
            self.handles[device] = self.cudnn.create_handle()
        return self.handles[device]


class Graph:
    """Runs one operation on tensors of certain shapes and strides, by the fastest of its plans."""

    def __init__(self, library, device, define, inputs, outputs):
        """`define(graph, {name: cuDNN's tensor})` -> {name: output of the operation}. `inputs`,
        `outputs`: {name: PyTorch's tensor}, for shapes, and to time plans on."""
        cudnn = library.cudnn
        self.handle = library.handle(device)
        self.graph = cudnn.pygraph(io_data_type=library.types[inputs["q"].dtype],
                                   intermediate_data_type=cudnn.data_type.FLOAT,
                                   compute_data_type=cudnn.data_type.FLOAT, handle=self.handle)
        try:
            self.of = {name: self.graph.tensor(name=name, dim=list(tensor.shape),
                                               stride=list(tensor.stride()),
                                               data_type=library.types[tensor.dtype])
                       for name, tensor in inputs.items()}
            self.of |= define(self.graph, self.of)
            for name, tensor in outputs.items():
                output = self.of[name].set_output(True)
                output.set_dim(list(tensor.shape)).set_stride(list(tensor.stride()))
                output.set_data_type(library.types[tensor.dtype])
            self.graph.validate()
            self.graph.build_operation_graph()
            self.graph.create_execution_plans([cudnn.heur_mode.A])
            self.graph.check_support()
            self.choose(inputs | outputs, cudnn.cudnnGraphNotSupportedError)
        except cudnn.cudnnGraphNotSupportedError as error:
            raise Unsupported(f"cuDNN: {str(error).splitlines()[0]}") from error

    def choose(self, tensors, refusal):
        """Builds and times the plans."""
        count = self.graph.get_execution_plan_count()
        seconds, refusals = {}, []
        for index in range(min(count, PLANS)):
            try:
                self.graph.build_plan_at_index(index)
            except refusal as error:
                refusals.append(error)
            else:
                seconds[index] = self.seconds_of(index, tensors)
        if not seconds:
            raise refusals[0] if refusals else refusal("it has no plan")
        self.select(min(seconds, key=seconds.get))
        self.plan = (f"{self.graph.get_plan_name_at_index(self.index)} "
                     f"(number {self.index + 1} of {count}, {len(seconds)} timed)")

    def select(self, index):
        self.index = index
        self.workspace_bytes = self.graph.get_workspace_size_plan_at_index(index)

    def seconds_of(self, index, tensors):
        self.select(index)
        self.run(tensors)
        clock = CudaClock()
        return min(clock.seconds_of(lambda: self.run(tensors), LAUNCHES)[0]
                   for _ in range(TIMINGS))

    def run(self, tensors):
        workspace = torch.empty(max(self.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
        pack = {self.of[name]: tensor for name, tensor in tensors.items()}
        self.graph.execute_plan_at_index(pack, workspace, self.index, handle=self.handle)


class CudnnAttention(Attention):
    def __init__(self, library, point, lse, copy=False):
        super().__init__(point, point.heads_first, lse, copy)
        self.library = library
        self.inputs_by_name = dict(zip(("q", "k", "v"), (self.order(x) for x in self.inputs)))
        if point.padded:
            of_batch = (len(point.keys), 1, 1, 1)
            for name, lengths in (("seq_len_q", [point.rows] * len(point.keys)),
                                  ("seq_len_kv", point.keys)):
                self.inputs_by_name[name] = torch.tensor(lengths, dtype=torch.int32,
                                                         device=point.device).view(of_batch)
        self.plans = {}  # by the name of their graph

    @property
    def plan(self):
        return "; ".join(f"{name}: {plan}" for name, plan in self.plans.items())

    def masks(self, inputs):
        """Returns sdpa's keywords for the point's mask."""
        cudnn, point = self.library.cudnn, self.point
        left, right = point.window or (-1, -1)
        if point.causal:
            right = 0
        keywords = {}
        if left >= 0:
            keywords["diagonal_band_left_bound"] = left + 1  # the diagonal counts
        if right >= 0:
            keywords["diagonal_band_right_bound"] = right
        if keywords:
            alignments = cudnn.diagonal_alignment
            keywords["diagonal_alignment"] = (alignments.TOP_LEFT if point.rows == point.columns
                                              else alignments.BOTTOM_RIGHT)
        if point.padded:
            keywords |= {"use_padding_mask": True, "seq_len_q": inputs["seq_len_q"],
                         "seq_len_kv": inputs["seq_len_kv"]}
        return keywords

    def run(self, name, define, inputs, outputs):
        graph = self.library.graph(self.point, name, lambda: Graph(
            self.library, self.point.device, define, inputs, outputs))
        self.plans[name] = graph.plan
        graph.run(inputs | outputs)

    def forward(self, lse):
        q = self.inputs_by_name["q"]
        outputs = {"o": torch.empty_like(q)}
        if lse:
            outputs["stats"] = torch.empty((*q.shape[:3], 1), dtype=torch.float32, device=q.device)

        def define(graph, inputs):
            o, stats = graph.sdpa(q=inputs["q"], k=inputs["k"], v=inputs["v"],
                                  attn_scale=self.point.scale, generate_stats=lse, name="sdpa",
                                  **self.masks(inputs))
            return {"o": o, "stats": stats} if lse else {"o": o}

        self.run("forward with lse" if lse else "forward", define, self.inputs_by_name, outputs)
        return outputs["o"], outputs["stats"].squeeze(-1) if lse else None

    def backward(self, state, keep):
        o, lse = state
        gradients = {f"d{name}": torch.empty_like(self.inputs_by_name[name])
                     for name in ("q", "k", "v")}
        inputs = self.inputs_by_name | {"o": o, "do": self.dout, "stats": lse.unsqueeze(-1)}

        def define(graph, inputs):
            outputs = graph.sdpa_backward(
                q=inputs["q"], k=inputs["k"], v=inputs["v"], o=inputs["o"], dO=inputs["do"],
                stats=inputs["stats"], attn_scale=self.point.scale, name="sdpa_backward",
                **self.masks(inputs))
            return dict(zip(("dq", "dk", "dv"), outputs))

        self.run("backward", define, inputs, gradients)
        return {name: self.order(tensor) for name, tensor in gradients.items()}


def load(_file):
    return Cudnn()
