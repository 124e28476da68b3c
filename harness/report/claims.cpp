#include "harness/report/claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/report/sampling.h"

namespace attnlab {
namespace {

// Holds conditions with their fields found, since each is asked of many records.
class Filter {
 public:
  explicit Filter(const Conditions& conditions) {
    for (const auto& [field, values] : conditions) {
      parts_.emplace_back(&find_field(field, "claims"), &values);
    }
  }
  bool fits(const RecordJson& record) const {
    return std::ranges::all_of(parts_, [&](const auto& part) {
      const std::string value = exact(part.first->read(record));
      return std::ranges::find(*part.second, value) != part.second->end();
    });
  }

 private:
  std::vector<std::pair<const Field*, const std::vector<std::string>*>> parts_;
};

// Returns "kernel v1, seqlen 512".
std::string describe(const Conditions& conditions) {
  std::string text;
  for (const auto& [field, values] : conditions) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field, fmt::join(values, " or "));
  }
  return text;
}

// Says why a claim cannot be judged, which is then not_run.
struct NotRun {
  std::string reason;
};

// Says whether a value may be 0: then no ratio, logarithm or mean is formed of it. No time is 0.
enum class Zero : bool { is_wrong, is_a_value };

// Returns the value of the one record of a side at a point. Throws NotRun.
double value_at_point(const std::vector<RecordJson>& records, const Conditions& point,
                      const Conditions& side, const std::string& value,
                      Zero zero = Zero::is_wrong) {
  const Conditions conditions = merged(point, side);
  const Found found = find_record(records, conditions);
  if (found.record == nullptr) throw NotRun{found.trouble};
  const Field& field = find_field(value, "claims");
  if (const std::string why = unfit(*found.record, field); !why.empty()) {
    throw NotRun{fmt::format("{}: {}", describe(conditions), why)};
  }
  const RecordJson number = field.read(*found.record);
  if (!number.is_number()) {
    throw NotRun{fmt::format("{}: its record has no {}", describe(conditions), value)};
  }
  const double measured = number.get<double>();
  const bool is_time = field.interval != nullptr;
  const bool is_zero = zero == Zero::is_a_value && !is_time && measured == 0.0;
  if (!is_zero && !(measured > 0.0 && std::isfinite(measured))) {
    throw NotRun{fmt::format("{}: {} is {}", describe(conditions), value, measured)};
  }
  return measured;
}

bool is_within(const Bounds& bounds, double value, double tolerance) {
  if (!std::isfinite(value)) return false;
  if (bounds.at_least && !(value >= *bounds.at_least * (1.0 - tolerance))) return false;
  return !bounds.at_most || value <= *bounds.at_most * (1.0 + tolerance);
}

std::string describe(const Bounds& bounds) {
  std::string text;
  if (bounds.at_least) text += fmt::format("at least {:.4g}", *bounds.at_least);
  if (bounds.at_most) {
    text += fmt::format("{}at most {:.4g}", text.empty() ? "" : " and ", *bounds.at_most);
  }
  return text;
}

bool has_bounds(const Bounds& bounds) { return bounds.at_least || bounds.at_most; }

Judgement judge_bounds(const Claim& claim, double measured, const std::string& what) {
  const std::string width =
      claim.tolerance > 0.0 ? fmt::format(", tolerance {:.3g} %", 100.0 * claim.tolerance) : "";
  Judgement judgement{.measured = measured};
  judgement.reason =
      fmt::format("{} {:.4g}; wanted {}{}", what, measured, describe(claim.reproduced), width);
  if (is_within(claim.reproduced, measured, claim.tolerance)) {
    judgement.finding = Finding::reproduced;
  } else if (has_bounds(claim.shape) && is_within(claim.shape, measured, 0.0)) {
    judgement.finding = Finding::in_shape;
    judgement.reason += fmt::format("; in shape: {}", describe(claim.shape));
  } else {
    judgement.finding = Finding::not_reproduced;
  }
  return judgement;
}

double statistic_of(ClaimStatistic statistic, const std::vector<double>& values) {
  switch (statistic) {
    case ClaimStatistic::least: return *std::ranges::min_element(values);
    case ClaimStatistic::most: return *std::ranges::max_element(values);
    case ClaimStatistic::mean: break;
  }
  if (values.size() == 1) return values.front();  // a mean of one would round it
  double logarithms = 0.0;
  for (const double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

std::string describe(ClaimStatistic statistic, std::size_t points) {
  if (points == 1) return "is";
  const char* const word = statistic == ClaimStatistic::least  ? "least"
                           : statistic == ClaimStatistic::most ? "most"
                                                               : "geometric mean";
  return fmt::format("{} of {} points", word, points);
}

// Returns the values of a side over all points, or their ratios to another side's.
std::vector<double> values_over(const std::vector<RecordJson>& records,
                                const std::vector<Conditions>& points, const Conditions& of,
                                const Conditions* over, const std::string& value,
                                Zero zero = Zero::is_wrong) {
  std::vector<double> values;
  for (const Conditions& point : points) {
    double number = value_at_point(records, point, of, value, zero);
    if (over != nullptr) number /= value_at_point(records, point, *over, value);
    values.push_back(number);
  }
  return values;
}

Judgement judge_values(const Claim& claim, const std::vector<RecordJson>& records) {
  const Conditions* const over = claim.kind == ClaimKind::ratio ? &claim.over : nullptr;
  const bool takes_mean = claim.statistic == ClaimStatistic::mean;
  const Zero zero = over == nullptr && !takes_mean ? Zero::is_a_value : Zero::is_wrong;
  const std::vector<double> values =
      values_over(records, points_of(claim.where), claim.of.front(), over, claim.value, zero);
  return judge_bounds(claim, statistic_of(claim.statistic, values),
                      describe(claim.statistic, values.size()));
}

// Names what the bounds of a claim are about.
std::string quantity_of(const Claim& claim) {
  const std::string of = describe(claim.of.front());
  const std::string own = of.empty() ? claim.value : fmt::format("{} of {}", claim.value, of);
  const std::string ratio = fmt::format("{} over that of {}", own, describe(claim.over));
  const std::string statistic = describe(claim.statistic, points_of(claim.where).size());
  switch (claim.kind) {
    case ClaimKind::ratio: return fmt::format("{}, {}", ratio, statistic);
    case ClaimKind::value: return fmt::format("{}, {}", own, statistic);
    case ClaimKind::growth: return fmt::format("exponent of {} along {}", own, claim.along);
    case ClaimKind::crossover:
      return fmt::format("{} from which on {} is 1 at most", claim.along, ratio);
    default: return "";
  }
}

// Returns where the points lie along the claim's axis.
std::vector<double> places_of(const Claim& claim, const std::vector<Conditions>& points) {
  std::vector<double> places;
  for (const Conditions& point : points) {
    const auto own = std::ranges::find(point, claim.along, [](const auto& c) { return c.first; });
    places.push_back(std::stod(own->second.front()));
  }
  return places;
}

// Fits the exponent by least squares of the logarithms.
Judgement judge_growth(const Claim& claim, const std::vector<RecordJson>& records) {
  const std::vector<Conditions> points = points_of(claim.where);
  const std::vector<double> places = places_of(claim, points);
  const std::vector<double> values =
      values_over(records, points, claim.of.front(), nullptr, claim.value);
  const auto n = static_cast<double>(points.size());
  double x_mean = 0.0, y_mean = 0.0, xy = 0.0, xx = 0.0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    x_mean += std::log(places[i]) / n;
    y_mean += std::log(values[i]) / n;
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double x = std::log(places[i]) - x_mean;
    xy += x * (std::log(values[i]) - y_mean);
    xx += x * x;
  }
  return judge_bounds(claim, xy / xx,
                      fmt::format("exponent over {} values of {}", points.size(), claim.along));
}

Judgement judge_order(const Claim& claim, const std::vector<RecordJson>& records) {
  const std::vector<Conditions> points = points_of(claim.where);
  double least = std::numeric_limits<double>::infinity(), least_mean = least;
  for (std::size_t i = 0; i + 1 < claim.of.size(); ++i) {
    const std::vector<double> ratios =
        values_over(records, points, claim.of[i + 1], &claim.of[i], claim.value);
    least = std::min(least, statistic_of(ClaimStatistic::least, ratios));
    least_mean = std::min(least_mean, statistic_of(ClaimStatistic::mean, ratios));
  }
  const double bound = 1.0 - claim.tolerance;
  const Finding finding = least >= bound      ? Finding::reproduced
                          : least_mean >= 1.0 ? Finding::in_shape
                                              : Finding::not_reproduced;
  return {finding, least,
          fmt::format("least ratio of neighbours {:.4g} of {}, least of their means {:.4g}; wanted "
                      "at least {:.4g}",
                      least, count_of(points.size(), "point"), least_mean, bound)};
}

Judgement judge_crossover(const Claim& claim, const std::vector<RecordJson>& records) {
  const std::vector<Conditions> points = points_of(claim.where);
  const std::vector<double> places = places_of(claim, points);
  const std::vector<double> ratios =
      values_over(records, points, claim.of.front(), &claim.over, claim.value);
  std::vector<std::size_t> order(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return places[i]; });
  std::size_t smaller = 0;  // points at the end, where `of` has no larger value
  while (smaller < order.size() && ratios[order[order.size() - 1 - smaller]] <= 1.0) ++smaller;
  if (smaller == 0) {
    return {Finding::not_reproduced, std::nullopt,
            fmt::format("no crossover up to {} {:.0f}", claim.along, places[order.back()])};
  }
  return judge_bounds(claim, places[order[order.size() - smaller]],
                      fmt::format("from {}", claim.along));
}

// Returns whether nothing ran for lack of a device: that says nothing about the kernel.
bool had_no_device(const RecordJson& record) {
  const RecordJson device = at(record, {"device", "name"});
  return at(record, {"status"}) == "unsupported" && device.is_string() &&
         device.get<std::string>().empty();
}

Judgement judge_status(const Claim& claim, const std::vector<RecordJson>& records) {
  std::size_t right = 0;
  std::string other;
  const std::vector<Conditions> points = points_of(claim.where);
  for (const Conditions& point : points) {
    const Conditions conditions = merged(point, claim.of.front());
    const Found found = find_record(records, conditions);
    if (found.record == nullptr) throw NotRun{found.trouble};
    const std::string status = exact(at(*found.record, {"status"}));
    if (had_no_device(*found.record)) {
      throw NotRun{fmt::format("{}: is {}: {}", describe(conditions), status,
                               exact(at(*found.record, {"reason"})))};
    }
    if (status == claim.expected) {
      ++right;
    } else {
      other = fmt::format("; {} is {}", describe(conditions), status);
    }
  }
  return {
      right == points.size() ? Finding::reproduced : Finding::not_reproduced,
      static_cast<double>(right),
      fmt::format("{} of {} {}{}", right, count_of(points.size(), "point"), claim.expected, other)};
}

Judgement judge_by_kind(const Claim& claim, const std::vector<RecordJson>& records) {
  switch (claim.kind) {
    case ClaimKind::ratio:
    case ClaimKind::value: return judge_values(claim, records);
    case ClaimKind::growth: return judge_growth(claim, records);
    case ClaimKind::order: return judge_order(claim, records);
    case ClaimKind::crossover: return judge_crossover(claim, records);
    case ClaimKind::status: return judge_status(claim, records);
    case ClaimKind::not_here: break;
  }
  return {Finding::not_applicable, std::nullopt, claim.reason};
}

}  // namespace

const char* letter_of(Finding finding) {
  switch (finding) {
    case Finding::reproduced: return "R";
    case Finding::in_shape: return "S";
    case Finding::not_reproduced: return "N";
    case Finding::not_applicable: return "X";
    case Finding::not_run: return "U";
  }
  return "";
}

const char* to_string(Finding finding) {
  switch (finding) {
    case Finding::reproduced: return "reproduced";
    case Finding::in_shape: return "in shape";
    case Finding::not_reproduced: return "not reproduced";
    case Finding::not_applicable: return "not applicable";
    case Finding::not_run: return "not run";
  }
  return "";
}

Conditions merged(Conditions base, const Conditions& more) {
  for (const auto& condition : more) {
    std::erase_if(base, [&](const auto& other) { return other.first == condition.first; });
    base.push_back(condition);
  }
  return base;
}

Found find_record(const std::vector<RecordJson>& records, const Conditions& conditions) {
  Found found;
  const Filter filter(conditions);
  for (const RecordJson& record : records) {
    if (!filter.fits(record)) continue;
    if (found.record != nullptr && at(*found.record, {"key"}) != at(record, {"key"})) {
      return {nullptr, fmt::format("{}: fit several points: {} and {}", describe(conditions),
                                   exact(at(*found.record, {"key"})), exact(at(record, {"key"})))};
    }
    found.record = &record;
  }
  if (found.record == nullptr) found.trouble = describe(conditions) + ": no record";
  return found;
}

std::string unfit(const RecordJson& record, const Field& value) {
  const std::string status = exact(at(record, {"status"}));
  if (status != "ok") return fmt::format("is {}: {}", status, exact(at(record, {"reason"})));
  if (const auto sampled = sampled_of(record)) return "was sampled: " + sampled->text;
  const bool is_time = value.interval != nullptr;
  if (is_time && at(record, {"time", "telemetry", "settled"}) == false) return "did not settle";
  return "";
}

std::vector<Conditions> points_of(const Conditions& where) {
  std::vector<Conditions> points(1);
  for (const auto& [field, values] : where) {
    std::vector<Conditions> product;
    for (const Conditions& point : points) {
      for (const std::string& value : values) {
        product.push_back(point);
        product.back().emplace_back(field, std::vector<std::string>{value});
      }
    }
    points = std::move(product);
  }
  return points;
}

std::string expected_result(const Claim& claim) {
  if (claim.kind == ClaimKind::not_here) return "nothing here: " + claim.reason;
  const std::string place = claim.where.empty() ? "" : "; at " + describe(claim.where);
  if (claim.kind == ClaimKind::status) {
    return fmt::format("{}: ends {}{}", describe(claim.of.front()), claim.expected, place);
  }
  if (claim.kind == ClaimKind::order) {
    std::string sides;
    for (const Conditions& side : claim.of) {
      sides += fmt::format("{}{}", sides.empty() ? "" : "; then ", describe(side));
    }
    return fmt::format("{}, the least first: {}{}", claim.value, sides, place);
  }
  return fmt::format("{}: {}{}{}", quantity_of(claim), describe(claim.reproduced),
                     has_bounds(claim.shape) ? "; in shape: " + describe(claim.shape) : "", place);
}

Judgement judge(const Claim& claim, const std::vector<RecordJson>& records) {
  if (claim.kind == ClaimKind::not_here) return judge_by_kind(claim, records);
  const Filter filter(claim.applies);
  const bool applies = records.empty() || std::ranges::any_of(records, [&](const auto& record) {
                         return filter.fits(record);
                       });
  if (!applies) {
    return {Finding::not_applicable, std::nullopt,
            fmt::format("of {}, which these records are not", describe(claim.applies))};
  }
  try {
    return judge_by_kind(claim, records);
  } catch (const NotRun& not_run) {
    return {Finding::not_run, std::nullopt, not_run.reason};
  }
}

}  // namespace attnlab
