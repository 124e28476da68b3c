#include "harness/tensors/safetensors.h"
#include "tests/fuzz/fuzz.h"

void attnlab::fuzz::read_input(const std::filesystem::path& file) {
  const SafetensorsFile read = read_safetensors(file);
  std::uint64_t sum = 0, bytes = 0;  // every byte is read, so that a view past the data is seen
  for (const auto& [name, tensor] : read.tensors) {
    require(tensor_bytes(tensor.dtype, tensor.shape, name) == tensor.bytes.size(),
            "a tensor's bytes are not those of its shape");
    for (const std::byte value : tensor.bytes) sum += static_cast<std::uint64_t>(value);
    bytes += tensor.bytes.size();
  }
  require(bytes <= std::filesystem::file_size(file), "the tensors are larger than their file");
  require(sum <= 255 * bytes, "a byte is above 255");
}
