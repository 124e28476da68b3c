// Takes a compiled unit apart: its instructions, where they come from, and what its schedule says
// of its products.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harness/report/sass.h"
#include "harness/report/sass_kinds.h"
#include "kernels/api/compiler.h"

namespace attnlab {

struct SassUnit {
  KernelUnit unit;
  Compilation compilation;
  std::string sources;                       // the tree of the kernels' text; empty: built in
  std::map<std::string, std::string> texts;  // of that tree, by path
  std::vector<SassKernel> kernels;           // in the order of the unit's entries
};

// Says "v3-forward-f16-... for sm_90a", with the tree where it is not built in.
std::string title_of(const SassUnit& unit);

// Counts the instructions of one line of the kernel's own text (own_place()).
struct SassLine {
  SourcePlace place;
  std::string text;           // without its blanks; empty where it is not known
  std::size_t same_text = 0;  // so many lines above it in the file read the same
  KindCounts kinds = {};
  std::size_t all = 0;
};

// Knows the lines of a unit's text.
class SassText {
 public:
  explicit SassText(const SassUnit& unit);

  // Returns the innermost place in the folder of the unit's kernel, like kernels/v3/: of a call of
  // another folder's function the line that calls. Where there is none it is the outermost place,
  // and where nothing is known it has no file.
  SourcePlace own_place(const SassInstruction& instruction) const;
  // Returns a line without its blanks, "" where it is not known.
  std::string line(const SourcePlace& place) const;
  // Counts the instructions of each line, sorted by file and line.
  std::vector<SassLine> count_lines(const SassKernel& kernel) const;

 private:
  std::size_t lines_above_like(const SourcePlace& place) const;

  std::string folder_;
  std::map<std::string, std::vector<std::string>> lines_;  // by file
};

// Compares a product of the schedule with the wgmmas of a kernel that have its form: 64 x columns x
// 16 with A in registers or not. Products of one form share its wgmmas: the last of them lacks what
// is missing.
struct ProductCheck {
  WarpgroupProduct product;
  std::size_t found = 0;

  std::size_t scheduled() const;
  bool is_scheduled() const { return found == scheduled(); }
  // Returns whether the wgmmas found make whole products.
  bool is_whole() const;
  // Returns whether they make at least the schedule's products: a compiler may copy a loop.
  bool is_complete() const { return is_whole() && found >= scheduled(); }
};
struct ProductChecks {
  std::vector<ProductCheck> products;  // none where the unit says nothing of them
  std::size_t strangers = 0;           // wgmmas that have the form of none

  // Returns whether all products are complete, and nothing else is multiplied.
  bool are_complete() const;
};
ProductChecks check_products(const SassKernel& kernel,
                             const std::vector<WarpgroupProduct>& products);

// Returns the products of the entry of a kernel's name.
std::vector<WarpgroupProduct> products_of(const SassUnit& unit, const std::string& kernel);
// Returns whether the wgmmas of all kernels are those of their schedules, or copies of them.
bool has_complete_products(const SassUnit& unit);

}  // namespace attnlab
