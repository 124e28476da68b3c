#include "harness/report/field_list.h"

#include <utility>

#include "harness/base/decimal.h"

namespace attnlab {

void FieldList::add_axis(const char* name, const char* summary, FieldReader read) {
  fields_.push_back(
      {name, name, "", FieldKind::axis, NumberFormat::plain, summary, std::move(read)});
}

void FieldList::add_identity(const char* name, const char* summary, FieldReader read) {
  fields_.push_back(
      {name, name, "", FieldKind::identity, NumberFormat::plain, summary, std::move(read)});
}

void FieldList::add_measure(const char* name, const char* title, const char* unit,
                            NumberFormat format, const char* summary, FieldReader read,
                            FieldReader interval) {
  fields_.push_back({name, title, unit, FieldKind::measure, format, summary, std::move(read),
                     std::move(interval)});
}

FieldReader value_at(Path path) {
  return [path = std::move(path)](const RecordJson& record) { return at(record, path); };
}

FieldReader scaled(Path path, double factor) {
  return [path = std::move(path), factor](const RecordJson& record) -> RecordJson {
    const RecordJson value = at(record, path);
    if (!value.is_number()) return nullptr;
    return value.get<double>() * factor;
  };
}

FieldReader moved(Path path, int exponent) {
  return [path = std::move(path), exponent](const RecordJson& record) -> RecordJson {
    const RecordJson value = at(record, path);
    if (!value.is_number()) return nullptr;
    return times_power_of_ten(value.get<double>(), exponent);
  };
}

RecordJson quotient(const RecordJson& numerator, const RecordJson& denominator) {
  if (!numerator.is_number() || !denominator.is_number()) return nullptr;
  if (denominator.get<double>() == 0.0) return nullptr;
  return numerator.get<double>() / denominator.get<double>();
}

}  // namespace attnlab
