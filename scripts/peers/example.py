"""A function of yours as a peer: attnlab run --peer py:scripts/peers/example.py:attend ..."""
import torch


def attend(q, k, v, *, causal, softmax_scale, q_descale=None, k_descale=None, v_descale=None):
    """Takes (batch, seqlen, heads, head_dim) each; the results have v's type, of e4m3 float16."""
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))  # heads before rows
    groups = q.shape[1] // k.shape[1]  # query heads that share a head of K and V
    o_type = v.dtype
    if q_descale is not None:  # e4m3: q, k and v are codes, and these make values of them
        q_descale = q_descale.repeat_interleave(groups, dim=1)
        q, k, v = (codes.float() * descale[:, :, None, None] for codes, descale in
                   ((q, q_descale), (k, k_descale), (v, v_descale)))
        o_type = torch.float16
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    s = softmax_scale * q.float() @ k.float().mT
    if causal:  # aligned at the bottom right
        seen = torch.ones_like(s, dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        s = s.masked_fill(~seen, float("-inf"))
    lse = s.logsumexp(dim=-1)
    return ((s - lse[..., None]).exp().to(v.dtype) @ v).to(o_type).transpose(1, 2), lse
