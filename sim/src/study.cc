// See daxcache/sim/study.h.
#include "daxcache/sim/study.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daxcache/glob.h"
#include "daxcache/sim/size_classes.h"
#include "daxcache/sim/text.h"
#include "daxcache/sim/touched.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::uint64_t kSamples = 64;
constexpr std::size_t kCostliest = 10;

int StreamKey(RangeSize range_size, bool first, bool second = false) {
  return range_size.shift() * 4 + (first ? 2 : 0) + (second ? 1 : 0);
}

// By word: where its range is touched next.
std::vector<std::uint32_t> NextUses(const RangeStream& stream, bool map_extending_writes) {
  std::vector<std::uint32_t> next(stream.size(), ReplayView::kNoNextUse);
  std::vector<std::uint32_t> seen(stream.ranges(), ReplayView::kNoNextUse);
  for (std::uint64_t at = stream.size(); at-- > 0;) {
    const std::uint32_t word = stream.words()[at];
    const RangeStream::Kind kind = RangeStream::KindOf(word);
    if (kind > RangeStream::kExtendingWrite) continue;
    if (kind == RangeStream::kExtendingWrite && !map_extending_writes) continue;
    next[at] = std::exchange(seen[RangeStream::NumberOf(word)], static_cast<std::uint32_t>(at));
  }
  return next;
}

void AddTouched(const Study& study, const RangeStream& stream, const std::vector<std::uint32_t>& pages,
                const std::vector<bool>& mapped, RunResult& result) {
  const std::uint64_t range_bytes = result.spec.range_size.bytes();
  for (const std::uint64_t limit : kSizeClasses) result.touched_classes.push_back({.up_to = limit});
  std::uint32_t last_file = ToIndex(kNoFile);
  for (std::uint32_t number = 0; number < stream.ranges(); ++number) {
    if (!mapped[number]) continue;
    const FileRange range = stream.range(number);
    const std::uint64_t size = study.trace().files()[ToIndex(range.file)].size;
    TouchedClass& of = result.touched_classes[SizeClassOf(size)];
    const std::uint64_t bytes = std::uint64_t{pages[number]} << 12;
    ++result.mapped_ranges_ever;
    result.touched_bytes += bytes;
    ++of.ranges;
    of.share += static_cast<double>(bytes) / static_cast<double>(range_bytes);
    if (std::exchange(last_file, ToIndex(range.file)) != ToIndex(range.file)) ++of.files;
  }
  for (TouchedClass& of : result.touched_classes) {
    if (of.ranges > 0) of.share /= static_cast<double>(of.ranges);
  }
  if (result.mapped_ranges_ever > 0) {
    result.touched_share =
        static_cast<double>(result.touched_bytes) / static_cast<double>(result.mapped_ranges_ever * range_bytes);
  }
}

void AddCostliest(const StatsSink& sink, RunResult& result) {
  const std::vector<std::uint64_t>& setups = sink.setups_by_file();
  std::vector<std::uint32_t> files;
  for (std::uint32_t file = 0; file < setups.size(); ++file) {
    if (setups[file] > 0) files.push_back(file);
  }
  const auto costlier = [&](std::uint32_t a, std::uint32_t b) {
    return setups[a] != setups[b] ? setups[a] > setups[b] : a < b;
  };
  const std::size_t count = std::min(files.size(), kCostliest);
  std::partial_sort(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(count), files.end(), costlier);
  for (std::size_t i = 0; i < count; ++i) result.costliest.push_back({FileId{files[i]}, setups[files[i]]});
}

// Runs the replay of one policy, known at compile time.
struct Runner {
  Study& study;
  const RunSpec& spec;
  RunResult& result;
  const std::function<void()>& sampled;

  template <Policy P>
  absl::Status operator()(typename P::Options policy) const {
    if constexpr (SeesFiles<P>) policy.files = study.files();
    constexpr bool kFolded = P::kRepeats != Repeats::kEach;
    const bool extending = spec.options.map_extending_writes;
    const auto stream = study.Stream(spec.range_size, kFolded);
    if (!stream.ok()) return stream.status();
    ReplayView view{study.trace(), **stream};
    if constexpr (NeedsNextUse<P>) {
      const auto next_use = study.NextUse(spec.range_size, kFolded, extending);
      if (!next_use.ok()) return next_use.status();
      view.next_use = *next_use;
    }
    const std::uint64_t size = (*stream)->size();
    StatsSink sink(study.trace().files().size(), (*stream)->ranges(), result.ranges);
    Replay<P, StatsSink> replay(view, {.slots = static_cast<std::uint32_t>(result.ranges)}, policy, spec.options, sink);
    std::uint64_t done = 0;
    for (std::uint64_t i = 1; i <= kSamples && done < size; ++i) {
      const std::uint64_t end = size * i / kSamples;
      if (end == done) continue;
      replay.Run(done, end);
      done = end;
      result.occupancy.push_back(
          {.time_ns = static_cast<std::int64_t>(study.trace().columns().time_ns[(*stream)->records()[end - 1]]),
           .ranges = sink.ranges(),
           .files = sink.files()});
      if (sampled) sampled();
    }
    result.counts = sink.counts();
    result.accesses = (*stream)->accesses() - (extending ? 0 : (*stream)->extending_accesses());
    result.extending_write_touches = extending ? 0 : (*stream)->extending_touches();
    result.touches = (*stream)->touches() - result.extending_write_touches;
    result.non_dax_touches = replay.non_dax_touches();
    result.hits = result.touches - result.counts.misses - result.non_dax_touches;
    result.peak_ranges = sink.peak_ranges();
    result.peak_files = sink.peak_files();
    AddCostliest(sink, result);
    const auto pages = study.Touched(spec.range_size, extending);
    if (!pages.ok()) return pages.status();
    AddTouched(study, **stream, **pages, sink.ever_mapped(), result);
    return absl::OkStatus();
  }
};

}  // namespace

Study::Study(Trace trace) : trace_(std::move(trace)) {
  files_.reserve(trace_.files().size());
  for (const FileInfo& file : trace_.files()) files_.push_back({.path = file.path, .size = file.size});
}

template <class T>
Study::Lazy<T>& Study::Entry(std::map<int, Lazy<T>>& entries, int key) {
  const std::lock_guard lock(mutex_);
  return entries[key];
}

absl::StatusOr<std::shared_ptr<const RangeStream>> Study::Stream(RangeSize range_size, bool folded) {
  auto& entry = Entry(streams_, StreamKey(range_size, folded));
  std::call_once(entry.once, [&] {
    auto built = RangeStream::Build(trace_, {.range_size = range_size, .fold = folded});
    entry.status = built.status();
    if (built.ok()) entry.value = *std::move(built);
  });
  if (!entry.status.ok()) return entry.status;
  return entry.value;
}

absl::StatusOr<const std::vector<std::uint32_t>*> Study::NextUse(RangeSize range_size, bool folded,
                                                                 bool map_extending_writes) {
  const auto stream = Stream(range_size, folded);
  if (!stream.ok()) return stream.status();
  auto& entry = Entry(next_uses_, StreamKey(range_size, folded, map_extending_writes));
  if ((*stream)->size() >= ReplayView::kNoNextUse) {
    return absl::ResourceExhaustedError("expected fewer than 2^32 - 1 touches for a policy that looks ahead");
  }
  std::call_once(entry.once, [&] { entry.value = NextUses(**stream, map_extending_writes); });
  return &entry.value;
}

absl::StatusOr<const std::vector<std::uint32_t>*> Study::Touched(RangeSize range_size, bool map_extending_writes) {
  const auto stream = Stream(range_size, true);
  if (!stream.ok()) return stream.status();
  auto& entry = Entry(touched_, StreamKey(range_size, map_extending_writes));
  std::call_once(entry.once, [&] {
    auto touched = TouchedPages(trace_, **stream, map_extending_writes);
    entry.status = touched.status();
    if (touched.ok()) entry.value = *std::move(touched);
  });
  if (!entry.status.ok()) return entry.status;
  return &entry.value;
}

namespace {

bool FollowsOpens(const Trace& trace) {
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Op op = static_cast<Op>(trace.columns().op[i]);
    if (op == Op::kOpen || op == Op::kClose) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> Remarks(const Trace& trace, const PolicySpec& policy) {
  std::vector<std::string> remarks;
  const auto remark = [&](std::string_view what) {
    remarks.push_back(absl::StrCat("policy ", Printable(policy.text()), ": ", AbslView(what)));
  };
  const auto see_glob = [&](std::string_view option, const std::string& glob) {
    const auto matches = [&](const FileInfo& file) { return GlobMatch(glob, file.path); };
    if (std::any_of(trace.files().begin(), trace.files().end(), matches)) return;
    remark(absl::StrCat(AbslView(option), ": no file of the trace matches ", Printable(glob)));
  };
  const absl::Status ignored = Dispatch<DenseIndex>(policy, [&]<class P>(const typename P::Options& options) {
    if constexpr (std::is_base_of_v<FileRuleOptions, typename P::Options>) {
      for (const std::string& glob : options.include) see_glob("include", glob);
      for (const std::string& glob : options.exclude) see_glob("exclude", glob);
      for (const GroupQuota& quota : options.group_quotas) see_glob("quota", quota.glob);
      if (options.hot.accesses > 0 && !FollowsOpens(trace)) {
        remark(
            "hot: a file that has become hot is admitted at its next open or after its last close, and the trace has "
            "neither: no file will use the window");
      }
    }
    return absl::OkStatus();
  });
  return remarks;
}

absl::Status Validate(const RunSpec& spec) {
  const std::string range = ByteSize(spec.range_size.bytes()).ToString();
  const std::uint64_t ranges = spec.window.bytes() >> spec.range_size.shift();
  if (ranges == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a window of at least one range of ", range, ", got ", spec.window.ToString()));
  }
  if (ranges > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat("expected a window of at most ", kMaxSlots, " ranges of ", range,
                                                   ", got ", spec.window.ToString(), " (", ranges, " ranges)"));
  }
  if (spec.footprint.page_bytes > spec.range_size.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("expected pages no larger than a range of ", range, ", got ",
                                                   ByteSize(spec.footprint.page_bytes).ToString()));
  }
  if (const absl::Status valid = spec.options.mechanics.Validate(); !valid.ok()) return valid;
  return spec.footprint.Validate();
}

absl::StatusOr<RunResult> RunReplay(Study& study, const RunSpec& spec, const std::function<void()>& sampled) {
  if (const absl::Status valid = Validate(spec); !valid.ok()) return valid;
  RunResult result;
  result.spec = spec;
  result.ranges = spec.window.bytes() >> spec.range_size.shift();
  result.guest_bytes = spec.footprint.GuestBytes(spec.window, spec.range_size);
  result.break_even_file_size = spec.footprint.BreakEvenFileSize(spec.range_size);
  const absl::Status ran = Dispatch<DenseIndex>(spec.policy, Runner{study, spec, result, sampled});
  if (!ran.ok()) return ran;
  result.host_bytes = spec.footprint.HostBytes(
      result.peak_ranges, std::min(result.touched_bytes, result.peak_ranges * spec.range_size.bytes()));
  return result;
}

absl::StatusOr<std::vector<RunResult>> Sweep(Study& study, const std::vector<RunSpec>& specs,
                                             const SweepOptions& options) {
  std::vector<absl::StatusOr<RunResult>> results(specs.size(), absl::UnknownError("not run"));
  std::atomic<std::size_t> next = 0;
  std::mutex progress_mutex;
  std::uint64_t samples = 0;
  const auto sampled = [&] {
    const std::lock_guard lock(progress_mutex);
    ++samples;
    if (options.progress) {
      options.progress(static_cast<double>(samples) / static_cast<double>(specs.size() * kSamples));
    }
  };
  const auto work = [&] {
    for (std::size_t at = next++; at < specs.size(); at = next++) {
      try {
        results[at] = RunReplay(study, specs[at], sampled);
      } catch (const std::bad_alloc&) {
        results[at] = absl::ResourceExhaustedError("not enough memory for this window and trace");
      }
    }
  };
  std::vector<std::thread> threads;
  const auto wanted = static_cast<std::size_t>(std::max(options.threads, 1));
  for (std::size_t i = 1; i < std::min(wanted, specs.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::vector<RunResult> all;
  for (absl::StatusOr<RunResult>& result : results) {
    if (!result.ok()) return result.status();
    all.push_back(*std::move(result));
  }
  return all;
}

}  // namespace v0
}  // namespace daxcache
