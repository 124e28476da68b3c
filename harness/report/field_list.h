// Declares how fields come to be: the list that grows, what most fields are read with, and the
// groups of fields. Only fields.cpp and fields_*.cpp use it; all others want fields.h.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

using Path = std::vector<const char*>;
using FieldReader = std::function<RecordJson(const RecordJson& record)>;

class FieldList {
 public:
  // Adds a field of the problem, or of who ran it where: its name is its title, values stay as is.
  void add_axis(const char* name, const char* summary, FieldReader read);
  void add_identity(const char* name, const char* summary, FieldReader read);
  // Adds a number that came out, or a word about it. `interval` is Field::interval.
  void add_measure(const char* name, const char* title, const char* unit, NumberFormat format,
                   const char* summary, FieldReader read, FieldReader interval = nullptr);

  std::vector<Field> take() { return std::move(fields_); }

 private:
  std::vector<Field> fields_;
};

// Reads the value at a path of keys.
FieldReader value_at(Path path);

// Reads a number of the record, times a power of two: bytes -> MiB.
FieldReader scaled(Path path, double factor);

// Reads a number of the record, times 10^exponent: seconds -> ms.
FieldReader moved(Path path, int exponent);

// Returns numerator / denominator, null where either is missing or the denominator is 0.
RecordJson quotient(const RecordJson& numerator, const RecordJson& denominator);

inline constexpr double kMibPerByte = 1.0 / (1 << 20);

// Returns half the 95 % interval of the median time, in percent of it; null where there is none, as
// of a single sample.
RecordJson read_interval(const RecordJson& record);

// Returns the modelled bytes that the schedule loads and stores; null where they are unknown.
RecordJson read_requested_bytes(const RecordJson& record);

// These add the groups, in the order in which fields() has them.
void add_problem_fields(FieldList& list);    // what was computed, of which inputs
void add_kernel_fields(FieldList& list);     // by which kernel, and how it ended
void add_time_fields(FieldList& list);       // the median time and its spread
void add_telemetry_fields(FieldList& list);  // clocks and energy
void add_compile_fields(FieldList& list);    // registers and shared memory
void add_rate_fields(FieldList& list);       // work over time
void add_error_fields(FieldList& list);      // against the oracle
void add_memory_fields(FieldList& list);     // allocated, and moved according to the schedule
void add_counter_fields(FieldList& list);    // what the hardware counted, and which kernels ran
void add_roof_fields(FieldList& list);       // against the device's measured peaks
void add_origin_fields(FieldList& list);     // where, by which build, when

}  // namespace attnlab
