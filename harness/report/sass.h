// Reads what nvdisasm prints of a cubin, with line info.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

// Names a line of the kernels' text.
struct SourcePlace {
  std::string file;  // path in the tree; of a unit's own text its name, "v3-forward-....cu"
  int line = 0;
};

struct SassInstruction {
  std::string address;              // in the kernel, hexadecimal
  std::string text;                 // "@P0 BRA `(.L_x_1)"
  std::vector<SourcePlace> places;  // where it comes from, the innermost of inlined calls first
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> instructions;
  std::map<std::string, std::size_t, std::less<>> labels;  // ".L_x_1": the instruction behind it
};

// Reads the text of `nvdisasm --print-code --print-line-info-inline`: a kernel for each section of
// code, with the functions in it that were not inlined. Lines that it does not know are left out.
std::vector<SassKernel> parse_sass(std::string_view text);

// Returns "HGMMA.64x128x16.F32": what stands behind the predicate.
std::string_view opcode_of(const SassInstruction& instruction);
// Returns "HGMMA": the opcode up to its first dot.
std::string_view operation_of(const SassInstruction& instruction);
// Returns the operands, "R24, R152, gdesc[UR8].tnspB, R24"; empty where there are none.
std::string_view operands_of(const SassInstruction& instruction);

}  // namespace attnlab
