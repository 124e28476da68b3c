// Makes the reference on the device of a case: every element of every output is compared, where the
// oracle could look at a few rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/reference_cache.h"
#include "kernels/api/calculator.h"
#include "kernels/api/device.h"
#include "reference/device_reference.h"

namespace attnlab {

class WholeReference {
 public:
  // `inputs` lie in memory of the device and outlive the object. Where references of all heads
  // would take more than `most_seconds` by the device's rates, heads are drawn from the seed.
  WholeReference(const Problem& problem, const Tensors& inputs, const Device& device,
                 std::uint64_t seed, double most_seconds);

  // Returns the device memory that references of one kind take.
  std::uint64_t bytes() const;

  // Returns why it cannot judge, so that the oracle looks at samples; "" if it can.
  const std::string& why_not() const { return why_not_; }

  // Makes the references, once. Returns false, with a reason in why_not(), where memory is short.
  bool make(reference::Products products, JudgedDropout dropout);

  // Judges outputs in memory of the device, after make() was true. `problem` is that of the
  // references but for its layout, which is that of the outputs.
  std::vector<reference::Verdict> judge(const Problem& problem, reference::Products products,
                                        JudgedDropout dropout, const Tensors& outputs);
  // Judges outputs in memory of this process.
  std::vector<reference::Verdict> judge_host(const Problem& problem, reference::Products products,
                                             JudgedDropout dropout, const Tensors& host);

 private:
  using Key = std::pair<reference::Products, bool>;  // whether with dropout
  Key key_of(reference::Products products, JudgedDropout dropout) const;

  Problem problem_;
  Tensors inputs_;
  Runtime* runtime_;
  std::vector<reference::Group> groups_;
  std::unique_ptr<Calculator> calculator_;
  std::map<Key, reference::DeviceReference> made_;
  std::string why_not_;
};

// Estimates the seconds that the references of one K/V head of an entry take on the device;
// infinite where it has no rate of doubles to speak of.
double seconds_of_group(const Problem& problem, std::int64_t batch, const Device& device);

// Chooses groups whose references take `most_seconds` together, at least one; all if they fit.
std::vector<reference::Group> choose_groups(const Problem& problem, const Device& device,
                                            std::uint64_t seed, double most_seconds);

}  // namespace attnlab
