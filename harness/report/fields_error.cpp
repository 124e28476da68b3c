// Defines fields of the errors against the oracle.
#include <optional>

#include "harness/report/field_list.h"
#include "harness/report/sampling.h"

namespace attnlab {
namespace {

// Returns the verdict in which a number is largest, before and after timing, over all tensors of
// the pass but lse, which is judged by a rule of its own. Records spell infinities and NaN as text:
// those are the largest.
RecordJson find_worst(const RecordJson& record, const char* key) {
  RecordJson worst;
  for (const char* when : {"verify", "verify_timed"}) {
    const RecordJson verdicts = at(record, {when});
    if (!verdicts.is_array()) continue;
    for (const RecordJson& verdict : verdicts) {
      const RecordJson value = at(verdict, {key});
      if (at(verdict, {"tensor"}) == "lse") continue;
      if (value.is_string()) return verdict;
      if (!value.is_number()) continue;
      if (worst.is_null() || worst[key].get<double>() < value.get<double>()) worst = verdict;
    }
  }
  return worst;
}

FieldReader worst_verdict(const char* key) {
  return [key](const RecordJson& record) { return at(find_worst(record, key), {key}); };
}

RecordJson read_worst_tensor(const RecordJson& record) {
  return at(find_worst(record, "ratio_to_twin"), {"tensor"});
}

RecordJson read_sampled(const RecordJson& record) {
  const std::optional<Sampled> sampled = sampled_of(record);
  return sampled ? RecordJson(sampled->text) : RecordJson();
}

}  // namespace

void add_error_fields(FieldList& list) {
  list.add_measure("ratio_to_twin", "err/twin", "", NumberFormat::ratio,
                   "largest error / that of a materialized computation in the same precision",
                   worst_verdict("ratio_to_twin"));
  list.add_measure("rms_to_twin", "rms/twin", "", NumberFormat::ratio,
                   "root mean square of errors / that of a materialized computation",
                   worst_verdict("rms_to_twin"));
  list.add_measure("rmse_unquantised", "rmse unquantised", "", NumberFormat::scientific,
                   "of e4m3: root mean square of o - o of the inputs before they were quantised",
                   worst_verdict("rmse_unquantised"));
  list.add_measure("worst_tensor", "worst", "", NumberFormat::plain,
                   "the tensor with the largest err/twin", read_worst_tensor);
  list.add_measure("max_abs", "max abs err", "", NumberFormat::scientific, "largest absolute error",
                   worst_verdict("max_abs"));
  list.add_measure("rel_fro", "rel fro err", "", NumberFormat::scientific,
                   "relative error in the Frobenius norm", worst_verdict("rel_fro"));
  list.add_measure("sampled", "sampled", "", NumberFormat::plain,
                   "how much was compared of the tensor of which least was; none: everything",
                   read_sampled);
}

}  // namespace attnlab
