#include "harness/measure/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "harness/base/statistics.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostOff = 0.01;  // of the medians with and without a timeline
constexpr double kNano = 1e-9;

using Item = TimelineItem;

bool has_tiles(const Item& item) { return item.first_product.nanoseconds != 0; }

// Returns where work on an item begins; an item without tiles is only stored.
std::uint64_t begin_of(const Item& item) {
  return has_tiles(item) ? item.first_product.nanoseconds : item.published.nanoseconds;
}

// Returns the time between two moments. Moments of two clocks may be in the other order.
double nanoseconds_between(std::uint64_t from, std::uint64_t to) {
  return to >= from ? static_cast<double>(to - from) : -static_cast<double>(from - to);
}

std::uint64_t first_claim(std::span<const Item> items) {
  return std::ranges::min_element(items, {},
                                  [](const Item& item) { return item.claimed.nanoseconds; })
      ->claimed.nanoseconds;
}

std::string why_void(std::span<const Item> items, double median_s, double timed_median_s) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].times == items.front().times && items[i].times > 0) continue;
    return fmt::format("item {} was claimed {} times, item 0 {} times", i, items[i].times,
                       items.front().times);
  }
  const double off = median_s / timed_median_s - 1.0;
  if (std::abs(off) <= kMostOff) return "";  // a NaN goes on
  return fmt::format(
      "with a timeline a launch takes {:.3f} us, without {:.3f} us: {:+.1f} %, "
      "more than {:.0f} %",
      median_s * 1e6, timed_median_s * 1e6, 100.0 * off, 100.0 * kMostOff);
}

// Returns the share of the launch, from its first claim to its last store, in which a
// multiprocessor had done all its items: the mean over those that had some.
double idle_share_at_end(std::span<const Item> items) {
  std::map<std::uint32_t, std::uint64_t> last;
  for (const Item& item : items) {
    std::uint64_t& store = last[item.multiprocessor];
    store = std::max(store, item.last_store.nanoseconds);
  }
  const std::uint64_t end =
      std::ranges::max_element(last, {}, [](const auto& one) { return one.second; })->second;
  double idle = 0.0;
  for (const auto& one : last) idle += nanoseconds_between(one.second, end);
  const double whole = nanoseconds_between(first_claim(items), end);
  return idle / (whole * static_cast<double>(last.size()));
}

// Makes a span or a moment on the track of the item's block; `at` is in microseconds.
Json event(const Item& item, const std::string& name, const char* phase, double at) {
  return {
      {"name", name}, {"ph", phase}, {"ts", at}, {"pid", item.multiprocessor}, {"tid", item.block}};
}

Json moment(const Item& item, const std::string& name, double at) {
  Json json = event(item, name, "i", at);
  json["s"] = "t";  // it belongs to the thread alone
  return json;
}

Json name_of(const char* what, std::uint32_t process, std::uint32_t thread,
             const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

// Maps each block to its items, in the order in which it worked on them.
using Tracks = std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::size_t>>;
Tracks tracks_of(std::span<const Item> items) {
  Tracks tracks;
  for (std::size_t i = 0; i < items.size(); ++i) {
    tracks[{items[i].multiprocessor, items[i].block}].push_back(i);
  }
  for (auto& [place, own] : tracks) {
    std::ranges::sort(own, {}, [&](std::size_t i) { return begin_of(items[i]); });
  }
  return tracks;
}

}  // namespace

TimelineRecord summarize_timeline(std::span<const Item> items, double median_s,
                                  double timed_median_s) {
  TimelineRecord record = {.items = static_cast<std::int64_t>(items.size()),
                           .median_s = median_s,
                           .timed_median_s = timed_median_s};
  if (items.empty()) {
    record.reason = "the launch has no work items";
    return record;
  }
  record.reason = why_void(items, median_s, timed_median_s);
  if (!record.reason.empty()) return record;
  std::vector<double> waits, cycles;
  for (const Item& item : items) {
    cycles.push_back(item.describe_cycles);
    if (!has_tiles(item)) continue;
    waits.push_back(kNano *
                    nanoseconds_between(item.claimed.nanoseconds, item.first_product.nanoseconds));
  }
  record.idle_share_at_end = idle_share_at_end(items);
  record.describe_cycles = median(cycles);
  if (!waits.empty()) record.claim_to_begin_s = median(waits);
  return record;
}

std::string timeline_trace(std::span<const Item> items, const Record& record) {
  Json events = Json::array();
  const std::uint64_t start = items.empty() ? 0 : first_claim(items);
  const auto micros = [&](std::uint64_t at) { return 1e-3 * nanoseconds_between(start, at); };
  for (const auto& [place, own] : tracks_of(items)) {
    const auto [multiprocessor, block] = place;
    events.push_back(name_of("process_name", multiprocessor, block,
                             fmt::format("multiprocessor {}", multiprocessor)));
    events.push_back(name_of("thread_name", multiprocessor, block, fmt::format("block {}", block)));
    for (std::size_t n = 0; n < own.size(); ++n) {
      const Item& item = items[own[n]];
      const std::string name = fmt::format("item {}", own[n]);
      std::uint64_t end = item.last_store.nanoseconds;
      if (n + 1 < own.size()) end = std::min(end, begin_of(items[own[n + 1]]));
      Json work = event(item, name, "X", micros(begin_of(item)));
      work["dur"] = std::max(0.0, micros(end) - micros(begin_of(item)));
      work["args"] = {{"claimed_us", micros(item.claimed.nanoseconds)},
                      {"published_us", micros(item.published.nanoseconds)},
                      {"last_store_us", micros(item.last_store.nanoseconds)},
                      {"claimed_cycle", item.claimed.cycles},
                      {"published_cycle", item.published.cycles},
                      {"first_k_cycle", item.first_k.cycles},
                      {"first_product_cycle", item.first_product.cycles},
                      {"last_store_cycle", item.last_store.cycles},
                      {"describe_cycles", item.describe_cycles}};
      events.push_back(work);
      events.push_back(moment(item, name + " claimed", micros(item.claimed.nanoseconds)));
      events.push_back(moment(item, name + " published", micros(item.published.nanoseconds)));
      if (has_tiles(item)) {
        events.push_back(moment(item, name + " first K", micros(item.first_k.nanoseconds)));
      }
    }
  }
  const Json trace = {{"traceEvents", events},
                      {"displayTimeUnit", "ns"},
                      {"otherData",
                       {{"point", record.point.problem.id()},
                        {"kernel", record.point.competitors.at(0).kernel},
                        {"void", record.timeline ? record.timeline->reason : ""}}}};
  return trace.dump() + "\n";
}

}  // namespace attnlab
