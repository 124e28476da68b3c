"""What the attentions of all libraries have in common: a pass on one set of inputs."""
import torch


class Library:
    """Declares what peer_calls.py asks of a library, beside its `version`, a text for people."""

    def version_of(self, backend):
        """Returns the version for records."""
        return self.version

    def check(self, point, backend):
        """Throws Unsupported where it is known without a try."""

    def attention(self, point, backend, dropout, lse, copy=False):
        """Returns an Attention. `lse`: the forward gives it, where the library can."""
        raise NotImplementedError

    def check_ran(self, backend, operators):
        """Throws Unsupported if another backend answered. `operators`: of a forward."""

    def operators_of(self, operators):
        """Returns the names of those operators that count as what ran on a CPU."""
        raise NotImplementedError

    def reason_of(self, backend, refusal, caught):
        """Says why the library refused; "" if it is an error, no refusal. `caught`: warnings."""
        return ""


class Attention:
    """An attention on one set of inputs: launch() runs the pass and returns {name: output}, laid
    out as the inputs are. Libraries say forward() and backward(), on tensors in their order of
    dimensions."""

    plan = None  # which of its ways the library chose, in its own words

    def __init__(self, point, order, lse, copy=False):
        """`order` brings a tensor from the point's order of dimensions into the library's, and
        back. `lse`: a forward that is the whole pass gives it, too."""
        self.point, self.order, self.lse = point, order, lse
        self.inputs = [point.inputs[name].clone() if copy else point.inputs[name].detach()
                       for name in ("q", "k", "v")]
        self.dout, self.state = None, None
        if point.passes != "fwd":
            dout = point.inputs["do"]
            self.dout = order(dout.clone() if copy else dout)

    def forward(self, lse):
        """Returns (o, lse), or (o, None) where it gives none: always, or unless `lse`."""
        raise NotImplementedError

    def backward(self, state, keep):
        """{"dq": ..., "dk": ..., "dv": ...} from what forward() returned; `keep`: it is needed
        again."""
        raise NotImplementedError

    def forward_of_pass(self):
        """Runs the pass's forward, or the one that a backward alone starts from."""
        return self.forward(self.lse or self.point.passes != "fwd")

    def begin(self):
        if self.point.passes == "bwd":
            self.state = self.forward_of_pass()

    def launch(self):
        passes = self.point.passes
        if passes == "bwd":
            return self.backward(self.state, keep=True)
        state = self.forward_of_pass()
        outputs = {"o": self.order(state[0].detach())}
        if state[1] is not None and not self.point.packed:  # packed lse: each has its own layout
            outputs["lse"] = state[1].detach()
        return outputs if passes == "fwd" else outputs | self.backward(state, keep=False)


class AutogradAttention(Attention):
    """An attention whose backward is PyTorch's to find."""

    def __init__(self, point, order, lse, copy=False):
        super().__init__(point, order, lse, copy)
        for tensor in self.inputs:
            tensor.requires_grad_(point.passes != "fwd")

    def attend(self, q, k, v):
        """Returns (o, lse), or (o, None)."""
        raise NotImplementedError

    def forward(self, lse):
        with torch.set_grad_enabled(self.point.passes != "fwd"):
            return self.attend(*(self.order(tensor) for tensor in self.inputs))

    def backward(self, state, keep):
        gradients = torch.autograd.grad(state[0], self.inputs, self.dout, retain_graph=keep)
        return dict(zip(("dq", "dk", "dv"), gradients))
