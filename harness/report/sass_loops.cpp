#include "harness/report/sass_loops.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

namespace attnlab {
namespace {

// A place that is branched to, or follows a branch, begins a block; the last instruction says where
// it goes on.
struct Block {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<std::size_t> next;      // blocks
  std::vector<std::size_t> previous;  // blocks
};

bool is_product(const SassInstruction& instruction) {
  const SassKind kind = kind_of(operation_of(instruction));
  return kind == SassKind::wgmma || kind == SassKind::mma;
}

// Returns the number of the instruction that a branch goes to; there may be none.
std::size_t target_of(const SassKernel& kernel, std::size_t i) {
  const SassInstruction& branch = kernel.instructions[i];
  const std::string_view operands = operands_of(branch);
  const std::size_t begin = operands.find("`(");
  const std::size_t end = operands.rfind(')');
  const bool has_label = begin != std::string_view::npos && end != std::string_view::npos;
  if (operation_of(branch) != "BRA" || !has_label) return kernel.instructions.size();
  const auto label = kernel.labels.find(operands.substr(begin + 2, end - begin - 2));
  return label == kernel.labels.end() ? kernel.instructions.size() : label->second;
}

bool ends_block(const SassInstruction& instruction) {
  const std::string_view operation = operation_of(instruction);
  return operation == "BRA" || operation == "EXIT" || operation == "RET";
}

// Returns whether the next instruction may follow: a predicate stands before the operation, or, as
// in "BRA.DIV UR4, `(.L_x_1)", a condition before the label.
bool may_fall_through(const SassInstruction& instruction) {
  if (!ends_block(instruction) || instruction.text.starts_with('@')) return true;
  return operation_of(instruction) == "BRA" && !operands_of(instruction).starts_with('`');
}

std::vector<Block> blocks_of(const SassKernel& kernel) {
  const std::size_t count = kernel.instructions.size();
  std::set<std::size_t> begins = {0};
  for (const auto& label : kernel.labels) begins.insert(label.second);
  for (std::size_t i = 0; i < count; ++i) {
    if (ends_block(kernel.instructions[i])) begins.insert(i + 1);
  }
  begins.erase(begins.lower_bound(count), begins.end());
  std::vector<Block> blocks;
  std::map<std::size_t, std::size_t> block_at;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    block_at[*begin] = blocks.size();
    blocks.push_back(
        {.begin = *begin, .end = std::next(begin) == begins.end() ? count : *std::next(begin)});
  }
  const auto connect = [&](std::size_t from, std::size_t instruction) {
    const auto to = block_at.find(instruction);
    if (to == block_at.end()) return;
    blocks[from].next.push_back(to->second);
    blocks[to->second].previous.push_back(from);
  };
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const std::size_t last = blocks[block].end - 1;
    connect(block, target_of(kernel, last));
    if (may_fall_through(kernel.instructions[last])) connect(block, last + 1);
  }
  return blocks;
}

// Returns for each block those that every way from the first block to it goes through, itself among
// them; for a block that no way leads to: none.
std::vector<std::set<std::size_t>> dominators_of(const std::vector<Block>& blocks) {
  std::vector<std::set<std::size_t>> dominators(blocks.size());
  if (blocks.empty()) return dominators;
  dominators[0] = {0};
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t block = 1; block < blocks.size(); ++block) {
      std::set<std::size_t> common;
      bool is_first = true;
      for (const std::size_t previous : blocks[block].previous) {
        const std::set<std::size_t>& others = dominators[previous];
        if (others.empty()) continue;  // not reached yet
        if (is_first) {
          common = others;
        } else {
          std::erase_if(common, [&](std::size_t one) { return !others.contains(one); });
        }
        is_first = false;
      }
      if (is_first) continue;
      common.insert(block);
      changed |= common != dominators[block];
      dominators[block] = std::move(common);
    }
  }
  return dominators;
}

// Returns the blocks of each loop by its first block: those from which a branch back to it can be
// reached without passing through it.
std::map<std::size_t, std::set<std::size_t>> loops_of(const std::vector<Block>& blocks) {
  const std::vector<std::set<std::size_t>> dominators = dominators_of(blocks);
  std::map<std::size_t, std::set<std::size_t>> loops;
  for (std::size_t from = 0; from < blocks.size(); ++from) {
    for (const std::size_t head : blocks[from].next) {
      if (!dominators[from].contains(head)) continue;
      std::set<std::size_t>& loop = loops[head];
      loop.insert(head);
      std::vector<std::size_t> open = {from};
      while (!open.empty()) {
        const std::size_t block = open.back();
        open.pop_back();
        if (!loop.insert(block).second) continue;
        open.insert(open.end(), blocks[block].previous.begin(), blocks[block].previous.end());
      }
    }
  }
  return loops;
}

// Returns the end of the last block that branches back to `head`.
std::size_t end_of(const std::vector<Block>& blocks, std::size_t head,
                   const std::set<std::size_t>& loop) {
  std::size_t end = 0;
  for (const std::size_t block : loop) {
    const std::vector<std::size_t>& next = blocks[block].next;
    if (std::ranges::find(next, head) != next.end()) end = std::max(end, blocks[block].end);
  }
  return end;
}

// Takes the blocks of a loop, of which `head` comes first. Behind its end are blocks that are
// seldom run, like the repeated trial of a wait: they are no part of a step.
SassLoop describe_loop(const SassKernel& kernel, const std::vector<Block>& blocks, std::size_t head,
                       const std::set<std::size_t>& loop) {
  SassLoop described{.begin = blocks[head].begin, .end = end_of(blocks, head, loop)};
  SassCounts before_first, behind_last;
  for (const std::size_t block : loop) {
    for (std::size_t i = blocks[block].begin; i < std::min(blocks[block].end, described.end); ++i) {
      const SassInstruction& instruction = kernel.instructions[i];
      ++described.all;
      if (is_product(instruction)) {
        ++described.tensor_instructions;
        behind_last = {};
      } else {
        count(instruction, described.tensor_instructions == 0 ? before_first : behind_last);
      }
    }
  }
  described.between_steps = before_first;
  add(behind_last, described.between_steps);
  return described;
}

}  // namespace

std::vector<SassLoop> product_loops(const SassKernel& kernel) {
  const std::vector<Block> blocks = blocks_of(kernel);
  const std::map<std::size_t, std::set<std::size_t>> loops = loops_of(blocks);
  std::map<std::size_t, SassLoop> with_products;
  for (const auto& [head, loop] : loops) {
    const SassLoop described = describe_loop(kernel, blocks, head, loop);
    if (described.tensor_instructions > 0) with_products.emplace(head, described);
  }
  std::vector<SassLoop> innermost;
  for (const auto& [head, described] : with_products) {
    const auto is_inside = [&, outer = head](const auto& other) {
      return other.first != outer && loops.at(outer).contains(other.first);
    };
    if (std::ranges::none_of(with_products, is_inside)) innermost.push_back(described);
  }
  return innermost;
}

}  // namespace attnlab
