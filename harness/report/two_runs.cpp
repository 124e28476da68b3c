#include "harness/report/two_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kClose[] = {0.02, 0.05};  // shares that figures are apart, which are counted

bool has_verdict(const Judgement& judgement) { return is_verdict(letter_of(judgement.finding)); }

// Returns whether the runs agree; they do, too, where neither has a verdict, for whatever reason.
bool has_same_verdict(const ClaimOfTwoRuns& claim) {
  const bool has_none = !has_verdict(claim.here) && !has_verdict(claim.there);
  return has_none || claim.here.finding == claim.there.finding;
}

std::string figure(const Judgement& judgement) {
  return judgement.measured ? short_number(*judgement.measured) : "";
}

// Returns how many figures differ by at most this share of either.
std::size_t count_within(const std::vector<double>& ratios, double share) {
  return static_cast<std::size_t>(std::ranges::count_if(
      ratios, [&](double ratio) { return std::max(ratio, 1.0 / ratio) <= 1.0 + share; }));
}

std::vector<double> ratios_of(const TwoRuns& runs) {
  std::vector<double> ratios;
  for (const ClaimOfTwoRuns& claim : runs.claims) {
    if (const auto ratio = ratio_of(claim)) ratios.push_back(*ratio);
  }
  return ratios;
}

std::size_t count_same(const TwoRuns& runs) {
  return static_cast<std::size_t>(std::ranges::count_if(runs.claims, has_same_verdict));
}

// Returns how many claims have a verdict in both runs, but not the same.
std::size_t count_other(const TwoRuns& runs) {
  return static_cast<std::size_t>(std::ranges::count_if(runs.claims, [](const auto& claim) {
    return !has_same_verdict(claim) && has_verdict(claim.here) && has_verdict(claim.there);
  }));
}

// Says how many verdicts and figures agree.
std::string summary(const TwoRuns& runs) {
  const std::size_t same = count_same(runs), other = count_other(runs);
  std::string text = fmt::format("Of {} {} have the same verdict in both runs, {} have another",
                                 count_of(runs.claims.size(), "claim"), same, other);
  if (const std::size_t alone = runs.claims.size() - same - other; alone > 0) {
    text += fmt::format(", {} have one (R, S or N) in one run alone", alone);
  }
  text += ".";
  const std::vector<double> ratios = ratios_of(runs);
  if (ratios.empty()) return text;
  text += fmt::format(" Of {} that both have", count_of(ratios.size(), "figure"));
  for (const double share : kClose) {
    text += fmt::format(", {} are within {:.0f} %", count_within(ratios, share), 100.0 * share);
  }
  return text + " of one another.";
}

TextTable table_of(const TwoRuns& runs, bool is_exact) {
  TextTable table{.columns = {{.title = "claim", .left = true, .key = true},
                              {.group = "here", .title = "verdict", .left = true},
                              {.group = "here", .title = "measured"},
                              {.group = "there", .title = "verdict", .left = true},
                              {.group = "there", .title = "measured"},
                              {.title = "here/there"}}};
  const auto number = [&](const std::optional<double>& value, const char* form) {
    if (!value) return std::string();
    return is_exact ? fmt::format("{}", *value) : fmt::format(fmt::runtime(form), *value);
  };
  for (const ClaimOfTwoRuns& claim : runs.claims) {
    table.rows.push_back({{claim.claim->id},
                          {letter_of(claim.here.finding)},
                          {is_exact ? number(claim.here.measured, "") : figure(claim.here)},
                          {letter_of(claim.there.finding)},
                          {is_exact ? number(claim.there.measured, "") : figure(claim.there)},
                          {number(ratio_of(claim), "{:.3f}")}});
  }
  return table;
}

// Says of each verdict that differs what it rests on in both runs.
std::string differences(const TwoRuns& runs) {
  std::string text;
  for (const ClaimOfTwoRuns& claim : runs.claims) {
    if (has_same_verdict(claim)) continue;
    text += wrap(
        fmt::format("{}: here {}: {}; there {}: {}", claim.claim->id, letter_of(claim.here.finding),
                    claim.here.reason, letter_of(claim.there.finding), claim.there.reason),
        2);
  }
  return text;
}

std::string names_of_missing(const TwoRuns& runs) {
  if (runs.missing.empty()) return "";
  return wrap(
      fmt::format("Only one of the runs has records of {}.", fmt::join(runs.missing, ", ")));
}

Json json_of(const Judgement& judgement) {
  return {{"finding", letter_of(judgement.finding)},
          {"measured", judgement.measured ? Json(*judgement.measured) : Json()},
          {"reason", judgement.reason}};
}

std::string json_of(const TwoRuns& runs) {
  Json claims = Json::array();
  for (const ClaimOfTwoRuns& claim : runs.claims) {
    const auto ratio = ratio_of(claim);
    claims.push_back({{"experiment", claim.experiment},
                      {"claim", claim.claim->id},
                      {"here", json_of(claim.here)},
                      {"there", json_of(claim.there)},
                      {"ratio", ratio ? Json(*ratio) : Json()}});
  }
  return Json{{"schema", "attnlab.two_runs/1"},
              {"here", runs.here},
              {"there", runs.there},
              {"same_verdicts", count_same(runs)},
              {"other_verdicts", count_other(runs)},
              {"missing", runs.missing},
              {"claims", std::move(claims)}}
             .dump(1) +
         "\n";
}

// Returns a line a claim, with all digits, and why a verdict differs.
std::string csv_of(const TwoRuns& runs) {
  TextTable table = table_of(runs, true);
  table.columns.insert(table.columns.begin(), {.title = "experiment", .left = true, .key = true});
  table.columns.push_back({.title = "why they differ", .left = true});
  for (std::size_t i = 0; i < runs.claims.size(); ++i) {
    const ClaimOfTwoRuns& claim = runs.claims[i];
    table.rows[i].insert(table.rows[i].begin(), {claim.experiment});
    table.rows[i].push_back({has_same_verdict(claim)
                                 ? ""
                                 : "here " + claim.here.reason + "; there " + claim.there.reason});
  }
  return render_csv(table);
}

}  // namespace

std::string describe_run(const std::string& folder, const std::vector<Reproduction>& experiments) {
  std::set<std::string> devices, commits, days;
  const auto note = [](std::set<std::string>& all, const Json& environment, const char* key) {
    if (environment.contains(key)) all.insert(environment[key].get<std::string>());
  };
  for (const Reproduction& experiment : experiments) {
    if (!experiment.device.empty()) devices.insert(experiment.device);
    note(commits, experiment.environment, "commit");
    std::set<std::string> spans;  // "2026-11-30T22:16:28Z to ...", or one moment
    note(spans, experiment.environment, "measured");
    for (const std::string& span : spans) {
      days.insert(span.substr(0, 10));
      days.insert(span.substr(span.find_last_of(' ') + 1, 10));  // npos + 1 is the begin
    }
  }
  std::string text =
      fmt::format("{}: {}, commit {}", folder, fmt::join(devices, ", "), fmt::join(commits, ", "));
  if (!days.empty()) {
    text += ", " + *days.begin();
    if (days.size() > 1) text += " to " + *days.rbegin();
  }
  return text;
}

std::vector<ClaimOfTwoRuns> pair_claims(const Reproduction& here, const Reproduction& there) {
  std::vector<ClaimOfTwoRuns> pairs;
  for (const JudgedClaim& own : here.claims) {
    const auto other = std::ranges::find(there.claims, own.claim, &JudgedClaim::claim);
    if (other == there.claims.end()) continue;
    pairs.push_back({here.paper->name, own.claim, own.judgement, other->judgement});
  }
  return pairs;
}

std::optional<double> ratio_of(const ClaimOfTwoRuns& claim) {
  const auto is_ratio_of = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) && *value > 0.0;
  };
  if (!is_ratio_of(claim.here.measured) || !is_ratio_of(claim.there.measured)) return std::nullopt;
  return *claim.here.measured / *claim.there.measured;
}

std::string render_two_runs(const TwoRuns& runs, TableFormat format) {
  if (format == TableFormat::json) return json_of(runs);
  if (format == TableFormat::csv) return csv_of(runs);
  const TextTable table = table_of(runs, false);
  const std::string head = wrap("here:  " + runs.here) + wrap("there: " + runs.there) + "\n";
  const std::string rows =
      format == TableFormat::markdown ? render_markdown(table) : render_plain(table);
  const std::string changes = differences(runs);
  return head + rows + "\n" + wrap(summary(runs)) + names_of_missing(runs) +
         (changes.empty() ? "" : "\n" + changes);
}

}  // namespace attnlab
