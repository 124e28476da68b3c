// Handles tensors in files: the safetensors format, the user's own q, k, v in such a file, and what
// a run saves in one.
//
// The format: 8 bytes, the header's length N, little-endian; N bytes of JSON, an object of
// "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]} and perhaps
// "__metadata__": {"key": "text"}; then the tensors' bytes, row-major and little-endian, one behind
// the other without holes. Source: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/tensors/safetensors_header.h"
#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"

namespace attnlab {

struct TensorView {
  std::string dtype;                 // F32, F16, BF16, I64, U8, ...
  std::vector<std::int64_t> shape;   // empty: a scalar
  std::span<const std::byte> bytes;  // owned by whoever made the view
};

using TensorViews = std::map<std::string, TensorView>;

// Returns the bytes of a tensor. Throws UsageError, led by `where`, for an unknown dtype, too many
// dimensions and a size that overflows.
std::uint64_t tensor_bytes(const std::string& dtype, std::span<const std::int64_t> shape,
                           const std::string& where);

// Returns the size of an element; 0 if the dtype is unknown.
std::uint64_t element_bytes(const std::string& dtype);

// Holds a file in memory, read and checked as a whole.
struct SafetensorsFile {
  std::filesystem::path path;
  TensorViews tensors;  // of `data`
  Metadata metadata;
  std::unique_ptr<std::byte[]> data;
  std::uint64_t hash = 0;  // fnv1a() of the whole file, header included; 0: not asked for
};

// Says whether a file is hashed as it is read, which takes longer than all else.
enum class FileHash : std::uint8_t { none, fnv1a };

// Reads a file. Throws UsageError that names the file, and the tensor and field where there is one,
// for all that the format forbids: a truncated file, a header that is too long or no such JSON, a
// name or field given twice, missing or unknown, an unknown dtype, a size that overflows or is not
// that of shape and dtype, bytes that belong to two tensors or to none. Dtypes of less than a byte
// are unknown here. Takes memory for the file's bytes and at most 32 times the header's for what it
// says; checks the header against the file's size before it allocates anything for the bytes.
SafetensorsFile read_safetensors(const std::filesystem::path& path, FileHash hash = FileHash::none);

// Writes a temporary file beside `path`, flushes it and renames it: whoever looks sees the old file
// or the new one, and a failure leaves nothing behind. Tensors lie in the order of their elements'
// sizes, largest first, then of their names; spaces at the header's end align them to 8 bytes.
// Throws UsageError for what cannot be written and for what the reader would refuse.
void write_safetensors(const std::filesystem::path& path, const TensorViews& tensors,
                       const Metadata& metadata);

// Returns the format's name of an element type.
const char* safetensors_dtype(Dtype dtype);

// Holds the user's own inputs of a run.
struct QkvTensors {
  SafetensorsFile file;             // owns the bytes
  Problem problem;                  // sizes, dtype, layout and lengths as in the file; the rest is
                                    // as by default
  std::span<const std::byte> q;     // (batch, num_heads_q, seqlen_q, head_dim), in problem.layout
  std::span<const std::byte> k, v;  // (batch, num_heads_kv, seqlen_k, head_dim)
  std::span<const std::byte> dout;  // like q; empty if the file has none
};

// Reads q, k, v and, if it is there, do: all F32, F16 or BF16, of finite values, with shapes
//   bshd    [batch, seqlen, heads, head_dim]
//   bhsd    [batch, heads, seqlen, head_dim]
//   packed  [total, heads, head_dim], with cu_seqlens_q and cu_seqlens_k, or cu_seqlens for both:
//           I32 or I64 [batch + 1], 0 first, the total last; the longest entries are seqlen_q and
//           seqlen_k, and problem.lengths is given.
// The other tensors that a run saves may be there too and are not looked at; any other name is
// refused, so that nothing is left out in silence. Throws UsageError naming file and tensor.
QkvTensors load_qkv(const std::filesystem::path& path, Layout layout);

// Views all tensors that are set, on the host, as a run saves them:
//   q, k, v, do, o, dq, dk, dv  in the problem's dtype (of e4m3: F32, and o F16), shaped like the
//                               inputs above
//   lse                         F32 [batch, num_heads_q, seqlen_q]; packed: rows past an entry's
//                               end hold nothing
//   cu_seqlens_q, cu_seqlens_k  I32 [batch + 1], packed
//   block_pattern               U8 [blocks of queries, blocks of keys], 1: visible, with a block
//                               mask
// A caller may add dropout_keep, U8 [batch, num_heads_q, seqlen_q, seqlen_k], 1: kept.
TensorViews view_tensors(const Problem& problem, const Tensors& tensors);

// Holds what a run says beside its tensors, and the keys under which it says so:
struct SavedMetadata {
  Problem problem;     // schema: "attnlab.tensors/1"
                       // pass: fwd, bwd, fwdbwd
                       // layout: bshd, bhsd, packed
                       // mask: as parse_mask() takes it, like "causal+blocks:local:1:64x64"
                       // lengths: keys of each entry under padding ("5+7"), queries x keys of
                       // each packed entry, shortened where equal ("5x6+7"); else ""
                       // softmax_scale, dropout, seed: numbers; the scale is never 0
  std::string kernel;  // kernel: its name
  std::string config;  // config: like "block_m=64,block_n=64"
};
Metadata to_metadata(const SavedMetadata& saved);

}  // namespace attnlab
