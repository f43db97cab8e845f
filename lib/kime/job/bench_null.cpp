#include "kime/job/bench_null.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <vector>

#include "kime/base/descriptor.h"
#include "kime/io/digest.h"
#include "kime/job/null_fleet.h"
#include "kime/job/score_job.h"
#include "kime/model/config.h"

namespace kime {

namespace {

/// A short file is read so often in one job that starting and ending the job does not count, up to a number of open files that every system
/// allows.
constexpr std::uint64_t kBytesOfJob = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostFiles = 128;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_seconds() {
  rusage usage{};
  static_cast<void>(::getrusage(RUSAGE_SELF, &usage));
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace

Result<NullReport> bench_null(const std::string& file, const StageBuckets& stage, std::size_t lanes, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Descriptor probe(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (probe.get() < 0) {
    return system_error(file, errno);
  }
  const auto bytes = regular_bytes(probe.get(), file);
  if (!bytes) {
    return bytes.error();
  }
  const std::uint64_t times = std::clamp<std::uint64_t>(kBytesOfJob / std::max<std::uint64_t>(*bytes, 1), 1, kMostFiles);
  const Descriptor sink(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const Calibration calibration;
  NullReport report;
  report.lanes = lanes;
  const auto begin = Clock::now();
  const double cpu_begin = cpu_seconds();
  do {
    auto intake = Intake::open({.files = std::vector(times, file),
                                .lines = {.records = {.vocab = std::numeric_limits<std::uint32_t>::max(), .types = ModelConfig::types},
                                          .stage = stage.stage,
                                          .buckets = stage.buckets},
                                .threads = lanes});
    if (!intake) {
      return std::move(intake).error();
    }
    NullFleet fleet(lanes);
    Output output(sink.get(), "/dev/null");
    Stop stop;
    const ScoreSummary summary = score(*intake, fleet, stage, {&calibration, 1}, {}, output, stop);
    if (summary.end != ScoreEnd::complete) {
      return Error(ErrorKind::input, summary.message);
    }
    report.records += summary.scored + summary.failed;
    report.failed += summary.failed;
    report.bytes += *bytes * times;
    report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (report.seconds < seconds);
  report.cpu_seconds = cpu_seconds() - cpu_begin;
  return report;
}

}  // namespace kime
