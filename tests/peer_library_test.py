#!/usr/bin/env python3
"""The libraries of scripts/peers with a torch that knows shapes and types and computes nothing:
what they ask for, what they refuse, and in which words. No GPU and no PyTorch are needed; with real
ones tests/peer_torch_test.cpp holds what they compute to the oracle."""
import collections
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "scripts" / "peers"
MODULES = ("peer_attention", "peer_calls", "peer_clock", "peer_memory", "peer_point",
           "peer_profile", "py_library", "fa4_library", "fa4_compile", "cudnn_library", "torch")


DESCALES = {"q_descale": "of q", "k_descale": "of k", "v_descale": "of v"}
PACKED = {"cu_seqlens_q": "rows", "cu_seqlens_k": "keys", "max_seqlen_q": 3, "max_seqlen_k": 3}


class Tensor:
    def __init__(self, shape, dtype="f16", requires_grad=False):
        self.shape, self.dtype, self.requires_grad = tuple(shape), dtype, requires_grad
        self.device = "cuda:0"

    def transpose(self, first, second):
        shape = list(self.shape)
        shape[first], shape[second] = shape[second], shape[first]
        return Tensor(shape, self.dtype, self.requires_grad)

    def requires_grad_(self, flag):
        self.requires_grad = flag
        return self

    def detach(self):
        return Tensor(self.shape, self.dtype)

    clone = detach

    def to(self, dtype):
        return Tensor(self.shape, dtype)

    def unsqueeze(self, _axis):
        return Tensor((*self.shape, 1), self.dtype)

    def squeeze(self, _axis):
        return Tensor(self.shape[:-1], self.dtype)


def stand_in():
    torch = types.ModuleType("torch")
    torch.__version__, torch.Tensor, torch.Size = "9.9", Tensor, tuple
    torch.float32, torch.float16, torch.bfloat16 = "f32", "f16", "bf16"
    torch.int32, torch.uint8, torch.float8_e4m3fn = "i32", "u8", "e4m3"
    torch.set_grad_enabled = lambda _flag: contextlib.nullcontext()
    torch.empty_like = lambda tensor: Tensor(tensor.shape, tensor.dtype)
    torch.empty = lambda shape, dtype, device: Tensor(shape, dtype)
    torch.autograd = types.SimpleNamespace(
        grad=lambda o, inputs, dout, retain_graph: [Tensor(x.shape, x.dtype) for x in inputs])
    torch.backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
    return torch


class Libraries(unittest.TestCase):
    def setUp(self):
        patches = (mock.patch.dict(sys.modules), mock.patch.object(sys, "path", list(sys.path)),
                   mock.patch.dict("os.environ"))
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules["torch"] = stand_in()
        sys.path.insert(0, str(PEERS))
        from peer_point import Failure, Point, Unsupported
        self.Failure, self.Point, self.Unsupported = Failure, Point, Unsupported

    def point(self, passes="fwd", layout="bhsd", dtype="f16", **mask):
        point = self.Point.__new__(self.Point)
        point.layout, point.passes, point.device, point.scale = layout, passes, "cuda:0", 0.5
        point.dropout, point.causal, point.padded, point.window, point.pattern = (0.0, False, False,
                                                                                  None, None)
        point.rows = point.columns = 3
        point.masks, point.keys = {"visible": "all that is seen"}, None
        point.descales = {}
        shape = (2, 3, 4, 8) if layout == "bshd" else (2, 4, 3, 8)
        point.inputs = {name: Tensor(shape, dtype) for name in ("q", "k", "v", "do")}
        for name, value in mask.items():
            setattr(point, name, value)
        return point

    def refusal(self, action, kind=None):
        with self.assertRaises(kind or self.Unsupported) as caught:
            action()
        return str(caught.exception)


class PythonFiles(Libraries):
    def load(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "mine.py"
        path.write_text(text, encoding="utf-8")
        import py_library
        return py_library.load(str(path))

    def launch(self, body, passes="fwd", parameters="q, k, v, *, causal, softmax_scale", **mask):
        library = self.load(f"def f({parameters}):\n    {body}\n")
        point = self.point(passes, **mask)
        library.check(point, "f")
        attention = library.attention(point, "f", point.dropout, True)
        attention.begin()
        return attention.launch()

    def test_gets_rows_before_heads_and_is_laid_out_as_the_point(self):
        outputs = self.launch("assert q.shape == (2, 3, 4, 8), q.shape; return q")
        self.assertEqual({name: x.shape for name, x in outputs.items()}, {"o": (2, 4, 3, 8)})

    def test_its_lse_is_taken(self):
        lse = "type(q)((q.shape[0], q.shape[2], q.shape[1]), 'f32')"
        outputs = self.launch(f"return q, {lse}")
        self.assertEqual((outputs["lse"].shape, outputs["lse"].dtype), ((2, 4, 3), "f32"))

    def test_its_o_of_e4m3_is_of_a_16_bit_type_and_verified_in_f16(self):
        parameters = "q, k, v, *, causal, softmax_scale, q_descale, k_descale, v_descale"
        for dtype in ("f16", "bf16"):
            body = f"assert q.dtype == v.dtype == 'e4m3'; return type(q)(q.shape, '{dtype}')"
            outputs = self.launch(body, parameters=parameters, dtype="e4m3", descales=DESCALES)
            self.assertEqual(outputs["o"].dtype, dtype)
            verified = self.point(descales=DESCALES).as_verified(outputs)
            self.assertEqual(verified["o"].dtype, "f16")
        for dtype in ("e4m3", "f32"):
            body = f"return type(q)(q.shape, '{dtype}')"
            said = self.refusal(lambda: self.launch(body, parameters=parameters, dtype="e4m3",
                                                    descales=DESCALES), self.Failure)
            self.assertIn(f"o as {dtype} [2, 3, 4, 8], wanted is f16 or bf16 [", said)

    def test_what_is_verified_of_other_types_is_what_it_returns(self):
        outputs = self.launch("return q", dtype="bf16")
        self.assertIs(self.point(dtype="bf16").as_verified(outputs), outputs)

    def test_gradients_are_autograds(self):
        self.assertEqual(set(self.launch("return q", "bwd")), {"dq", "dk", "dv"})
        self.assertEqual(set(self.launch("return q", "fwdbwd")), {"o", "dq", "dk", "dv"})

    def test_what_has_no_gradient_has_no_backward(self):
        said = self.refusal(lambda: self.launch("return q.detach()", "bwd"))
        self.assertIn("f has no backward", said)

    def test_another_shape_type_or_thing_is_an_error(self):
        for body, part in (("return q.transpose(1, 2)", "o as f16 [2, 4, 3, 8], wanted is f16 ["),
                           ("return type(q)(q.shape, 'f32')", "o as f32 [2, 3, 4, 8]"),
                           ("return None", "o as NoneType"),
                           ("return q, type(q)(q.shape[:3], 'f32')", "lse as f32 [2, 3, 4]"),
                           ("return q, type(q)((2, 4, 3), 'f16')", "lse as f16 [2, 4, 3]")):
            self.assertIn(part, self.refusal(lambda: self.launch(body), self.Failure), body)

    def test_what_it_raises_is_an_error_with_its_line(self):
        said = self.refusal(lambda: self.launch("raise ValueError('too odd\\nfor me')"),
                            self.Failure)
        self.assertEqual(said, "mine.py, line 2: ValueError: too odd")

    def test_the_line_is_the_innermost_of_the_file(self):
        library = self.load("def f(q, k, v, causal, softmax_scale):\n    return g()\n\n\n"
                            "def g():\n    return int('two')\n")
        attention = library.attention(self.point(), "f", 0.0, True)
        self.assertEqual(self.refusal(attention.launch, self.Failure),
                         "mine.py, line 6: ValueError: invalid literal for int() with base 10: "
                         "'two'")

    def test_not_implemented_is_what_it_cannot_do(self):
        said = self.refusal(lambda: self.launch("raise NotImplementedError('no rows of 3')"))
        self.assertEqual(said, "mine.py: no rows of 3")

    def test_a_file_that_does_not_run_is_refused(self):
        self.assertEqual(self.refusal(lambda: self.load("x = 1\nimport nowhere_to_be_found")),
                         "mine.py, line 2: ModuleNotFoundError: No module named "
                         "'nowhere_to_be_found'")
        self.assertIn("mine.py: SyntaxError: ", self.refusal(lambda: self.load("def")))
        import py_library
        self.assertIn("No such file", self.refusal(lambda: py_library.load("/nowhere/mine.py")))

    def test_a_function_that_is_not_there_is_refused(self):
        library = self.load("def there(q): pass\nx = 1\n")
        said = self.refusal(lambda: library.check(self.point(), "f"))
        self.assertIn("has no function 'f'; there are: there", said)
        said = self.refusal(lambda: library.check(self.point(), "there"))
        self.assertIn("there of ", said)
        self.assertIn("has no parameter 'causal'", said)

    def test_its_version_is_its_own_and_of_its_text(self):
        text = "__version__ = '1.5'\n"
        self.assertRegex(self.load(text).version,
                         r"^mine.py 1.5 \(sha256 [0-9a-f]{12}\), torch 9.9$")
        self.assertNotEqual(self.load(text).version, self.load(text + "x = 1\n").version)


class Keywords(Libraries):
    def keywords(self, parameters, dropout=0.0, **mask):
        import py_library
        point = self.point(dropout=dropout, **mask)
        return py_library.keywords_of(point, dropout, {"causal", "softmax_scale", *parameters}, "f")

    def test_are_those_that_the_function_has(self):
        self.assertEqual(self.keywords((), causal=True), {"causal": True, "softmax_scale": 0.5})
        self.assertEqual(self.keywords(("window_size", "visible", "dropout_p"), causal=True),
                         {"causal": True, "softmax_scale": 0.5, "window_size": (-1, -1),
                          "visible": None, "dropout_p": 0.0})
        self.assertEqual(self.keywords(("window_size",), causal=True, window=[5, 0]),
                         {"causal": True, "softmax_scale": 0.5, "window_size": (5, 0)})

    def test_a_mask_that_no_other_says_is_the_visible_one(self):
        self.assertEqual(self.keywords(("visible",), causal=True, window=[5, 0]),
                         {"causal": False, "softmax_scale": 0.5, "visible": "all that is seen"})
        self.assertEqual(self.keywords(("visible", "window_size"), window=[5, 0], padded=True),
                         {"causal": False, "softmax_scale": 0.5, "window_size": (-1, -1),
                          "visible": "all that is seen"})

    def test_packed_sequences_are_those_of_flash_attn_varlen_func(self):
        packed = {"cu_seqlens_q": "starts", "cu_seqlens_k": "others", "max_seqlen_q": 3,
                  "max_seqlen_k": 5}
        self.assertEqual(self.keywords(tuple(packed), packed=packed),
                         {"causal": False, "softmax_scale": 0.5, **packed})
        self.assertEqual(self.keywords(tuple(packed)),
                         {"causal": False, "softmax_scale": 0.5, **dict.fromkeys(packed)})

    def test_codes_of_e4m3_come_with_what_makes_values_of_them(self):
        self.assertEqual(self.keywords(tuple(DESCALES), descales=DESCALES),
                         {"causal": False, "softmax_scale": 0.5, **DESCALES})
        self.assertEqual(self.keywords(tuple(DESCALES)),
                         {"causal": False, "softmax_scale": 0.5, **dict.fromkeys(DESCALES)})

    def test_what_it_lacks_is_said(self):
        for parameters, mask, name in (((), {"window": [5, 0]}, "window_size"),
                                       (("q_descale", "k_descale"), {"descales": DESCALES},
                                        "v_descale"),
                                       (("cu_seqlens_q",), {"packed": PACKED}, "cu_seqlens_k"),
                                       ((), {"padded": True}, "visible"),
                                       (("window_size",), {"pattern": "any"}, "visible"),
                                       ((), {"dropout": 0.1}, "dropout_p")):
            self.assertIn(f"a parameter '{name}' of f, which it lacks",
                          self.refusal(lambda: self.keywords(parameters, **mask)))


class FlashAttention4(Libraries):
    def setUp(self):
        super().setUp()
        self.calls = []

        def forward(q, k, v, return_lse, out, **options):
            self.calls.append(("forward", return_lse, options))
            return out, Tensor((2, 4, 3), "f32") if return_lse else None, None, None, None

        def backward(q, k, v, o, dout, lse, **options):
            self.calls.append(("backward", lse is not None, options))
            return tuple(Tensor(x.shape, x.dtype) for x in (q, k, v))

        import fa4_library
        self.module = fa4_library
        self.interface = types.SimpleNamespace(_flash_attn_fwd=forward, _flash_attn_bwd=backward)

    def launch(self, passes, lse, **mask):
        attention = self.module.FlashAttention4OnPoint(self.interface, self.point(passes, **mask),
                                                       lse)
        attention.begin()
        return attention.launch()

    def test_lse_is_asked_for_where_something_needs_it(self):
        self.assertEqual(set(self.launch("fwd", False)), {"o"})
        self.assertEqual(set(self.launch("fwd", True)), {"o", "lse"})
        self.assertEqual(set(self.launch("bwd", False)), {"dq", "dk", "dv"})
        self.assertEqual(set(self.launch("fwdbwd", False)), {"o", "lse", "dq", "dk", "dv"})
        self.assertEqual([call[:2] for call in self.calls],
                         [("forward", False), ("forward", True), ("forward", True),
                          ("backward", True), ("forward", True), ("backward", True)])

    def test_outputs_lie_as_the_point_does(self):
        outputs = self.launch("fwdbwd", True)
        self.assertEqual({x.shape for name, x in outputs.items() if name != "lse"}, {(2, 4, 3, 8)})

    def test_masks_are_bands(self):
        self.launch("fwd", True, causal=True, window=[5, -1])
        self.assertEqual(self.calls[0][2], {"softmax_scale": 0.5, "causal": True,
                                            "window_size_left": 5, "window_size_right": None})

    def test_packed_entries_are_told_and_their_lse_is_not_handed_on(self):
        self.assertEqual(set(self.launch("fwdbwd", True, packed=PACKED)), {"o", "dq", "dk", "dv"})
        for _, _, options in self.calls:
            self.assertEqual({name: options[name] for name in PACKED}, PACKED)

    def test_compiling_ahead_meets_every_kernel_of_a_run(self):
        import fa4_compile
        fakes = types.ModuleType("torch._subclasses.fake_tensor")
        fakes.FakeTensorMode = contextlib.nullcontext
        sys.modules |= {"torch._subclasses": types.ModuleType("torch._subclasses"),
                        "torch._subclasses.fake_tensor": fakes}
        library = self.module.FlashAttention4.__new__(self.module.FlashAttention4)
        library.interface = self.interface
        with tempfile.TemporaryDirectory() as folder:
            asked = ["fa4_compile.py", "--layout", "bshd", "bhsd", "--head-dim", "64",
                     "--seqlen", "512", "--mask", "none", "causal", "window:8:0",
                     "--pass", "fwd", "fwdbwd"]
            environment = {"FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": folder}
            with (mock.patch.object(sys, "argv", asked), mock.patch.dict("os.environ", environment),
                  mock.patch.object(self.module, "load", lambda _file: library),
                  contextlib.redirect_stdout(io.StringIO()) as said):
                fa4_compile.main()
        self.assertTrue(said.getvalue().startswith("0 kernels are in "), said.getvalue())
        # In each of two layouts and under each of three masks.
        forward = {("forward", False): 1, ("forward", True): 3, ("backward", True): 2}
        self.assertEqual(collections.Counter(call[:2] for call in self.calls),
                         {call: 2 * 3 * times for call, times in forward.items()})
        windows = {(call[2]["window_size_left"], call[2]["window_size_right"])
                   for call in self.calls}
        self.assertEqual(windows, {(None, None), (8, 0)})

    def test_what_it_is_not_asked_for(self):
        library = self.module.FlashAttention4.__new__(self.module.FlashAttention4)
        library.check(self.point(causal=True), "")
        for mask, part in (({"padded": True}, "causal masks and windows only"),
                           ({"dropout": 0.1}, "no dropout"), ({"dtype": "f32"}, "f16 and bf16"),
                           ({"device": "cpu"}, "on a GPU only")):
            self.assertIn(part, self.refusal(lambda: library.check(self.point(**mask), "")))

    def test_without_it_the_remedy_is_said(self):
        with mock.patch.dict(sys.modules, {"flash_attn": None}):
            said = self.refusal(self.module.import_interface)
        self.assertIn("flash-attn-4 cannot be imported", said)
        self.assertIn("install.sh beside this script installs it", said)


class CudnnGraphs(Libraries):
    def setUp(self):
        super().setUp()
        import cudnn_library
        self.module = cudnn_library
        alignments = types.SimpleNamespace(TOP_LEFT="top", BOTTOM_RIGHT="bottom")
        self.library = cudnn_library.Cudnn.__new__(cudnn_library.Cudnn)
        self.library.cudnn = types.SimpleNamespace(diagonal_alignment=alignments)

    def masks(self, **mask):
        attention = self.module.CudnnAttention(self.library, self.point(**mask), True)
        return attention.masks({"seq_len_q": "rows", "seq_len_kv": "keys"})

    def test_bands(self):
        self.assertEqual(self.masks(), {})
        self.assertEqual(self.masks(causal=True),
                         {"diagonal_band_right_bound": 0, "diagonal_alignment": "top"})
        self.assertEqual(self.masks(causal=True, rows=2),
                         {"diagonal_band_right_bound": 0, "diagonal_alignment": "bottom"})
        self.assertEqual(self.masks(window=[5, 2]),  # the diagonal counts on the left
                         {"diagonal_band_left_bound": 6, "diagonal_band_right_bound": 2,
                          "diagonal_alignment": "top"})

    def test_lse_is_asked_for_where_something_needs_it(self):
        asked = []

        def sdpa(generate_stats, **_keywords):
            asked.append(generate_stats)
            return "o", "stats" if generate_stats else None

        graph = types.SimpleNamespace(sdpa=sdpa, sdpa_backward=lambda **_keywords: "qkv")

        def run(name, define, inputs, outputs):
            asked.append(name)
            self.assertEqual(set(define(graph, inputs)), set(outputs))

        for passes, lse in (("fwd", False), ("fwd", True), ("bwd", False), ("fwdbwd", False)):
            attention = self.module.CudnnAttention(self.library, self.point(passes), lse)
            attention.run = run
            attention.begin()
            outputs = attention.launch()
            self.assertEqual("lse" in outputs, lse or passes == "fwdbwd")
            self.assertEqual("dq" in outputs, passes != "fwd")
        self.assertEqual(asked, ["forward", False, "forward with lse", True,
                                 "forward with lse", True, "backward",
                                 "forward with lse", True, "backward"])

    def test_the_fastest_plan_is_taken(self):
        class Refused(Exception):
            pass

        class Plans:
            seconds = (3.0, None, 1.0, 2.0)

            def get_execution_plan_count(self):
                return len(self.seconds)

            def build_plan_at_index(self, index):
                if self.seconds[index] is None:
                    raise Refused("not this one")

            def get_plan_name_at_index(self, index):
                return f"eng{index}"

            def get_workspace_size_plan_at_index(self, index):
                return 10 * index

        graph = self.module.Graph.__new__(self.module.Graph)
        graph.graph = Plans()
        graph.seconds_of = lambda index, _tensors: Plans.seconds[index]
        graph.choose({}, Refused)
        self.assertEqual((graph.index, graph.workspace_bytes), (2, 20))
        self.assertEqual(graph.plan, "eng2 (number 3 of 4, 3 timed)")
        Plans.seconds = (None, None)
        self.assertEqual(self.refusal(lambda: graph.choose({}, Refused), Refused), "not this one")

    def test_without_the_frontend_the_remedy_is_said(self):
        with mock.patch.dict(sys.modules, {"cudnn": None}):
            said = self.refusal(self.module.import_frontend)
        self.assertIn("nvidia-cudnn-frontend cannot be imported", said)
        self.assertIn("install.sh beside this script installs it", said)

    def test_what_it_is_not_asked_for(self):
        self.library.check(self.point(causal=True, padded=True), "")
        for mask, part in (({"pattern": "any"}, "no block pattern"), ({"dropout": 0.1}, "dropout"),
                           ({"packed": PACKED}, "no packed sequences"),
                           ({"causal": True, "padded": True, "rows": 2}, "aligns a band"),
                           ({"dtype": "f32"}, "f16 and bf16"), ({"device": "cpu"}, "on a GPU")):
            self.assertIn(part, self.refusal(lambda: self.library.check(self.point(**mask), "")))


# Stands for a python3 that answers pip's call by the folder it is told to fill, and any other by
# the path that it would search.
PYTHON = """#!/bin/sh
[ "$2" = pip ] || { echo "$PYTHONPATH runs $*"; exit; }
while [ $# -gt 1 ]; do
  [ "$1" != --target ] || target=$2
  [ "$1" != -r ] || requirements=$2
  shift
done
mkdir -p "$target" && cp "$requirements" "$target" || exit
[ "${target##*/}" = cudnn ] || exit 0
lib=$target/nvidia/cudnn/lib
mkdir -p "$lib" && touch "$lib/libcudnn.so.9" "$lib/libcudnn_graph.so.9" "$lib/libcudnn_adv.so.9"
"""


class Installation(unittest.TestCase):
    """install.sh with a python3 that downloads nothing."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        python = self.folder / "bin" / "python3"
        python.write_text(PYTHON, encoding="utf-8")
        python.chmod(0o755)

    def run_bash(self, command):
        return subprocess.run(
            ["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, check=False,
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "INSTALL": str(PEERS / "install.sh")})

    def test_a_folder_that_was_moved_names_the_python_of_each_peer(self):
        made = self.run_bash('"$INSTALL" made && mv made moved')
        self.assertEqual(made.returncode, 0, made.stderr)
        moved = self.folder / "moved"
        for peer in ("cudnn", "fa4"):
            self.assertEqual((moved / peer / f"requirements-{peer}.txt").read_text(),
                             (PEERS / f"requirements-{peer}.txt").read_text())
            said = self.run_bash(f". moved/env.sh && $ATTNLAB_PYTHON_{peer.upper()} -c 1").stdout
            self.assertEqual(said, f"{moved}/{peer}:{moved}/{peer}/nvidia_cutlass_dsl/dsl_packages"
                                   " runs -c 1\n")
        kept = sorted(path.name for path in (moved / "cudnn/nvidia/cudnn/lib").iterdir())
        self.assertEqual(kept, ["libcudnn.so.9", "libcudnn_graph.so.9"])

    def test_only_the_peer_that_is_named(self):
        self.run_bash('"$INSTALL" made fa4')
        said = self.run_bash('. made/env.sh && echo "${ATTNLAB_PYTHON_CUDNN-none}"').stdout
        self.assertEqual(said, "none\n")

    def test_another_name_is_refused_and_pips_failure_said(self):
        refused = self.run_bash('"$INSTALL" made fa5')
        self.assertEqual((refused.returncode, "name cudnn or fa4" in refused.stderr), (2, True))
        self.assertFalse((self.folder / "made").exists())
        (self.folder / "bin" / "python3").write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
        self.assertEqual(self.run_bash('"$INSTALL" made fa4').returncode, 1)
        self.assertFalse((self.folder / "made" / "env.sh").exists())


class Documents(unittest.TestCase):
    def test_the_example_is_the_one_that_is_run(self):
        text = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
        example = (PEERS / "example.py").read_text(encoding="utf-8")
        self.assertIn(f"```python\n{example}```", text)


if __name__ == "__main__":
    unittest.main()
