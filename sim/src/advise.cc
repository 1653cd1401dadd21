// See daxcache/sim/advise.h.
#include "daxcache/sim/advise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/text.h"
#include "nlohmann/json.hpp"

namespace daxcache {
inline namespace v0 {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallest = 64 * kMiB;
constexpr std::uint64_t kReserved = 128 * kMiB;  // kernel and programs
constexpr std::uint64_t kSteps = 16;             // sizes are found to a 16th of their power of two
constexpr double kNoticed = 0.01;                // a difference that is worth a word
constexpr const char* kLeftOut[] = {"32K", "256K", "2M"};

// The jobs' time for the work that `reference` did: jobs may end by the clock, with more or less done.
double SameWork(const TimedResult& result, const TimedResult& reference) {
  double seconds = 0;
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const ProcessResult& done = reference.jobs[i].total;
    const double ios = static_cast<double>(done.reads + done.writes);
    seconds += result.jobs[i].Iops() > 0 ? ios / result.jobs[i].Iops() : result.jobs[i].Seconds();
  }
  return seconds;
}

class Adviser {
 public:
  Adviser(const Workload& workload, const AdviseOptions& options, const std::function<void(double)>& progress)
      : workload_(workload), options_(options), progress_(progress) {}

  absl::StatusOr<Advice> Run();

 private:
  struct Way {
    bool dax = true;
    std::uint64_t window_bytes = 0;
    std::string policy;
    auto operator<=>(const Way&) const = default;
  };

  // Runs those that have not been run yet. The first ever is the reference.
  absl::Status Try(const std::vector<Way>& ways);
  AdviceRow RowOf(const Way& way) const;
  double Seconds(const Way& way) const { return rows_.at(way).seconds; }
  // The smallest window under which the policy takes at most `most` seconds: the last of `windows`, which does, or
  // less.
  absl::StatusOr<std::uint64_t> Smallest(const std::string& policy, const std::vector<std::uint64_t>& windows,
                                         double most);
  void Explain(Advice& advice, std::uint64_t knee, std::uint64_t below) const;
  std::string Name(std::uint64_t window_bytes) const { return ByteSize(window_bytes).ToString(); }

  const Workload& workload_;
  const AdviseOptions& options_;
  const std::function<void(double)>& progress_;
  std::map<Way, AdviceRow> rows_;
  std::optional<TimedResult> reference_;
  double done_ = 0;
  double planned_ = 1;
};

absl::Status Adviser::Try(const std::vector<Way>& ways) {
  std::vector<Way> fresh;
  std::vector<TimedSpec> specs;
  for (const Way& way : ways) {
    if (rows_.contains(way) || std::find(fresh.begin(), fresh.end(), way) != fresh.end()) continue;
    fresh.push_back(way);
    TimedSpec spec = options_.spec;
    spec.window = ByteSize(way.dax ? way.window_bytes : kSmallest);
    spec.engine.dax = way.dax;
    auto policy = ParsePolicySpec(way.policy);
    if (!policy.ok()) return policy.status();
    spec.policy = *std::move(policy);
    if (options_.guest_ram > 0) {
      spec.engine.page_cache_pages =
          PageCacheBytes(options_.guest_ram, way.dax ? way.window_bytes : 0) / PageCache::kPageBytes;
    }
    specs.push_back(std::move(spec));
  }
  const auto results = RunTimedSweep(workload_.run, specs, options_.threads, [&](double share) {
    if (progress_) progress_(std::min(1.0, (done_ + share * static_cast<double>(specs.size())) / planned_));
  });
  if (!results.ok()) return results.status();
  done_ += static_cast<double>(specs.size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const TimedResult& result = (*results)[i];
    if (!reference_) reference_ = result;
    AdviceRow row{.dax = fresh[i].dax,
                  .window = ByteSize(fresh[i].window_bytes),
                  .policy = specs[i].policy,
                  .seconds = SameWork(result, *reference_),
                  .page_cache_bytes = result.page_cache_bytes};
    if (row.dax) row.guest_bytes = options_.footprint.GuestBytes(row.window, options_.spec.range_size);
    for (const TimedJob& job : result.jobs) row.misses += job.total.misses;
    rows_.emplace(fresh[i], std::move(row));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> Adviser::Smallest(const std::string& policy, const std::vector<std::uint64_t>& windows,
                                                double most) {
  const auto does = [&](std::uint64_t window) { return Seconds({true, window, policy}) <= most; };
  // From the largest down, as long as it does.
  std::size_t at = windows.size() - 1;
  while (at > 0 && does(windows[at - 1])) --at;
  if (at == 0) return windows[0];
  std::uint64_t low = windows[at - 1];
  std::uint64_t high = windows[at];
  while (true) {
    const std::uint64_t step = std::max(options_.spec.range_size.bytes(), std::bit_floor(low) / kSteps);
    const std::uint64_t middle = low + (high - low) / 2 / step * step;
    if (middle == low) return high;
    if (absl::Status status = Try({{true, middle, policy}}); !status.ok()) return status;
    (does(middle) ? high : low) = middle;
  }
}

std::string Times(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, ratio < 10 ? "%.2f" : "%.0f", ratio);
  return text;
}

absl::StatusOr<Advice> Adviser::Run() {
  Advice advice;
  std::uint64_t bytes = 0;
  std::uint64_t small = 0;  // files under 2 MiB
  for (const std::uint64_t size : workload_.file_bytes) {
    bytes += size;
    const std::uint64_t range = options_.spec.range_size.bytes();
    advice.ranges += (size + range - 1) / range;
    if (size > 0 && size < 2 * kMiB) ++small;
  }
  if (bytes == 0) return absl::InvalidArgumentError("expected files with something in them, to advise on");
  const std::string policy = options_.spec.policy.text();
  const std::uint64_t data = advice.ranges * options_.spec.range_size.bytes();
  std::vector<std::uint64_t> windows;
  for (std::uint64_t window = kSmallest; window <= std::max(kSmallest, 2 * data); window *= 2) {
    if (window >> options_.spec.range_size.shift() > kMaxSlots) break;
    windows.push_back(window);
  }
  if (windows.back() < 2 * data && windows.back() << 1 >> options_.spec.range_size.shift() <= kMaxSlots) {
    windows.push_back(windows.back() * 2);
  }
  const bool tries_rules = small > 0 && !policy.starts_with("per-file");
  planned_ = static_cast<double>(windows.size() + 6 + (tries_rules ? std::size(kLeftOut) * windows.size() : 0));

  // The largest first: the others are measured by the work that it does.
  std::vector<Way> ways;
  for (auto window = windows.rbegin(); window != windows.rend(); ++window) ways.push_back({true, *window, policy});
  ways.push_back({false, 0, policy});
  if (absl::Status status = Try(ways); !status.ok()) return status;

  const auto fastest = std::min_element(windows.begin(), windows.end(), [&](std::uint64_t a, std::uint64_t b) {
    return Seconds({true, a, policy}) < Seconds({true, b, policy});
  });
  const double best = Seconds({true, *fastest, policy});
  const std::vector<std::uint64_t> up_to(windows.begin(), fastest + 1);
  const auto knee = Smallest(policy, up_to, best * (1 + options_.accept));
  if (!knee.ok()) return knee.status();
  for (std::size_t i = static_cast<std::size_t>(fastest - windows.begin()) + 1; i < windows.size(); ++i) {
    const bool rest = std::all_of(windows.begin() + static_cast<std::ptrdiff_t>(i), windows.end(), [&](auto window) {
      return Seconds({true, window, policy}) > best * (1 + kNoticed);
    });
    if (!rest) continue;
    advice.slower_from = ByteSize(windows[i]);
    break;
  }
  if (tries_rules) {
    for (const char* least : kLeftOut) {
      const std::string rule = absl::StrCat("per-file:base=", policy, ",min=", least);
      if (!ParsePolicySpec(rule).ok()) continue;  // options that do not nest
      std::vector<std::uint64_t> sizes;
      std::vector<Way> rules;
      for (const std::uint64_t window : windows) {
        if (window > *fastest) break;
        sizes.push_back(window);
        rules.push_back({true, window, rule});
      }
      if (absl::Status status = Try(rules); !status.ok()) return status;
      double most = best * (1 + options_.accept);
      most = std::max(most, Seconds({true, sizes.back(), rule}));
      const auto window = Smallest(rule, sizes, most);
      if (!window.ok()) return window.status();
      advice.left_out.push_back(rows_.at({true, *window, rule}));
    }
  }

  advice.rows.push_back(rows_.at({false, 0, policy}));
  std::uint64_t below = 0;
  for (const auto& [way, row] : rows_) {
    if (!way.dax || way.policy != policy) continue;
    advice.rows.push_back(row);
    if (way.window_bytes < *knee) below = way.window_bytes;
  }
  advice.best = rows_.at({true, *fastest, policy});
  const AdviceRow& without = advice.rows.front();
  // If nothing is mapped at all, the policy lets no file use the window.
  const bool useless = advice.best.misses == 0;
  advice.recommended = useless || without.seconds * (1 + options_.accept) < advice.best.seconds
                           ? without
                           : rows_.at({true, *knee, policy});
  Explain(advice, *knee, below);
  return advice;
}

void Adviser::Explain(Advice& advice, std::uint64_t knee, std::uint64_t below) const {
  const std::string policy = options_.spec.policy.text();
  const AdviceRow& at_knee = rows_.at({true, knee, policy});
  const AdviceRow& without = advice.rows.front();
  const auto say = [&](auto... parts) { advice.reasons.push_back(absl::StrCat(parts...)); };
  const auto time = [](double seconds) { return HumanTime(std::llround(seconds * 1e9)); };

  if (advice.best.misses == 0) {
    say("No file uses the window under the policy ", policy, ", so any window only takes memory.");
  } else if (!advice.recommended.dax) {
    say("Without DAX it takes ", time(without.seconds), ", with the fastest window, ", advice.best.window.ToString(),
        ", ", Times(advice.best.seconds / without.seconds), " times as long. Leave DAX off for this workload.");
  }
  std::string smaller;
  if (below > 0) {
    smaller = absl::StrCat("; ", Name(below), " takes ",
                           Times(rows_.at({true, below, policy}).seconds / advice.best.seconds), " times as long");
  }
  say(Name(knee), " is the smallest window that takes at most ", Percent(options_.accept), " longer than the best (",
      time(advice.best.seconds), " at ", advice.best.window.ToString(), ")", smaller, ".");
  const std::uint32_t kept_free = options_.spec.mechanics.threshold_percent;
  const auto usable = static_cast<double>(knee >> options_.spec.range_size.shift()) * (100 - kept_free) / 100;
  if (advice.best.misses == 0) {
    // There is nothing to hold.
  } else if (usable >= static_cast<double>(advice.ranges)) {
    if (kept_free > 0) {
      say("All files fit: ", Grouped(advice.ranges), " ranges, and as the guest keeps ", kept_free,
          " % of a window free, it has to be ", Percent(100.0 / (100 - kept_free) - 1), " larger than they are.");
    } else {
      say("All files fit: ", Grouped(advice.ranges), " ranges.");
    }
  } else {
    say("It does not hold all files (", Grouped(advice.ranges), " ranges)",
        kept_free > 0 ? absl::StrCat(", and the guest keeps ", kept_free, " % of it free") : "", ": ",
        Grouped(at_knee.misses), " set-ups go on beside the work.");
  }
  say("A window costs the guest 1 of ",
      Times(static_cast<double>(knee) / static_cast<double>(std::max<std::uint64_t>(1, at_knee.guest_bytes))),
      " bytes, used or not: here ", HumanBytes(at_knee.guest_bytes), ".");
  if (advice.recommended.dax) {
    say("Without DAX it takes ", Times(without.seconds / at_knee.seconds), " times as long and fills ",
        HumanBytes(without.page_cache_bytes), " of the guest's page cache.");
  }
  if (advice.slower_from) {
    say("From ", advice.slower_from->ToString(), " on larger is slower: ",
        options_.guest_ram > 0 ? "the window's struct pages take memory from the page cache."
                               : "reclaim and set-ups get into each other's way.");
  }
  for (const AdviceRow& row : advice.left_out) {
    const std::string min = row.policy.text().substr(row.policy.text().rfind('=') + 1);
    const std::uint64_t with = at_knee.guest_bytes + at_knee.page_cache_bytes;
    const std::uint64_t left = row.guest_bytes + row.page_cache_bytes;
    say("Files under ", min, " left out of DAX: ", row.window.ToString(), " do then, and it takes ",
        Times(row.seconds / at_knee.seconds), " times as long; ", HumanBytes(row.guest_bytes), " for the window and ",
        HumanBytes(row.page_cache_bytes), " of page cache, together ", HumanBytes(left),
        " where all files in DAX take ", HumanBytes(with), ". ",
        left < with && row.seconds <= at_knee.seconds * (1 + kNoticed) ? "Leave them out: --policy "
        : row.seconds < at_knee.seconds * (1 - kNoticed)               ? "Faster, but more memory: --policy "
                                                                       : "Not worth it: --policy ",
        row.policy.text(), ".");
  }
}

}  // namespace

std::uint64_t PageCacheBytes(std::uint64_t guest_ram, std::uint64_t window_bytes) {
  const std::uint64_t taken = kReserved + Footprint{}.GuestBytes(ByteSize(window_bytes), RangeSize());
  return guest_ram > taken + kMiB ? guest_ram - taken : kMiB;
}

absl::StatusOr<Advice> Advise(const Workload& workload, const AdviseOptions& options,
                              const std::function<void(double)>& progress) {
  return Adviser(workload, options, progress).Run();
}

std::string AdviceText(const Advice& advice, const std::string& title) {
  TextTable table({"window", "policy", "time", "÷ best", "set-ups", "guest memory", "page cache"},
                  {true, true, false, false, false, false, false});
  const auto add = [&](const AdviceRow& row) {
    table.Add({row.dax ? row.window.ToString() : "no DAX", row.dax ? row.policy.text() : "",
               HumanTime(std::llround(row.seconds * 1e9)), Times(row.seconds / advice.best.seconds),
               Grouped(row.misses), HumanBytes(row.guest_bytes), HumanBytes(row.page_cache_bytes)});
  };
  for (const AdviceRow& row : advice.rows) add(row);
  for (const AdviceRow& row : advice.left_out) add(row);
  std::string out = title + "\n\n" + table.ToString("  ") + "\n";
  absl::StrAppend(
      &out, "Advice: ",
      advice.recommended.dax ? absl::StrCat("a window of ", advice.recommended.window.ToString()) : "no DAX", "\n");
  for (const std::string& reason : advice.reasons) absl::StrAppend(&out, "- ", reason, "\n");
  return out;
}

std::string AdviceJson(const Advice& advice, const std::string& profile) {
  const auto row_json = [](const AdviceRow& row) {
    return Json{{"dax", row.dax},
                {"window_bytes", row.window.bytes()},
                {"policy", row.policy.text()},
                {"seconds", row.seconds},
                {"misses", row.misses},
                {"guest_bytes", row.guest_bytes},
                {"page_cache_bytes", row.page_cache_bytes}};
  };
  Json json;
  json["advice"]["profile"] = profile;
  json["advice"]["ranges"] = advice.ranges;
  json["advice"]["recommended"] = row_json(advice.recommended);
  json["advice"]["best"] = row_json(advice.best);
  json["advice"]["slower_from_bytes"] = advice.slower_from ? Json(advice.slower_from->bytes()) : Json();
  json["advice"]["reasons"] = advice.reasons;
  json["advice"]["runs"] = Json::array();
  for (const AdviceRow& row : advice.rows) json["advice"]["runs"].push_back(row_json(row));
  json["advice"]["left_out"] = Json::array();
  for (const AdviceRow& row : advice.left_out) json["advice"]["left_out"].push_back(row_json(row));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace v0
}  // namespace daxcache
