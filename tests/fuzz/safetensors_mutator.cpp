// Mutates and keeps the frame of a safetensors file: a wrong header length would end nearly every
// input at its first check.
#include <algorithm>
#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  constexpr std::size_t kLengthBytes = 8;
  constexpr unsigned kUntouched = 8;  // one of so many inputs stays as mutated
  const std::size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (seed % kUntouched == 0 || mutated < kLengthBytes) return mutated;
  std::uint8_t* begin = data + kLengthBytes;
  std::uint8_t* end = data + mutated;
  while (end > begin && end[-1] != '}') --end;  // the header ends with its last brace
  const auto length = static_cast<std::uint64_t>(end - begin);
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    data[i] = static_cast<std::uint8_t>(length >> (8 * i));
  }
  return mutated;
}
// NOLINTEND(readability-identifier-naming)
