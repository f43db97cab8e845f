#include "kime/job/pack_report.h"

#include <optional>

#include "kime/job/window.h"

namespace kime {

namespace {

// Records of a window by number: their sizes.
void count_batch(PackReport& report, std::span<const Bucket> buckets, std::span<const RecordSize> sizes,
                 std::span<const std::uint64_t> batch) {
  std::size_t tokens = 0;
  std::size_t markers = 0;
  for (const auto number : batch) {
    tokens += sizes[number].tokens;
    markers += sizes[number].markers;
  }
  const Bucket* bucket = find_bucket(buckets, tokens, batch.size(), markers);
  auto& use = report.buckets[static_cast<std::size_t>(bucket - buckets.data())];
  ++use.batches;
  use.records += batch.size();
  use.tokens += tokens;
  ++report.batches;
  report.bucket_tokens += bucket->tokens;
}

}  // namespace

std::uint32_t PackReport::median() const {
  std::uint64_t seen = 0;
  for (const auto& [length, count] : lengths) {
    seen += count;
    if (2 * seen >= records) {
      return length;
    }
  }
  return 0;
}

Result<PackReport> report_packing(Intake& intake, std::span<const Bucket> buckets, std::size_t streams) {
  PackReport report;
  report.buckets.resize(buckets.size());
  Window window(streams);
  std::vector<RecordSize> sizes;
  const auto pack_window = [&] {
    window.pack_all(buckets, [&](const std::vector<std::uint64_t>& batch) {
      count_batch(report, buckets, sizes, batch);
      return true;
    });
    sizes.clear();
  };
  Record record;
  Where where;
  std::optional<RecordError> error;
  for (;;) {
    const auto next = intake.next(record, where, error);
    if (next == Intake::Next::broken) {
      return intake.failure();
    }
    if (next != Intake::Next::record) {
      break;
    }
    if (error) {
      ++report.failed;
      continue;
    }
    const RecordSize size{static_cast<std::uint32_t>(record.ids.size()), static_cast<std::uint32_t>(record.markers.size())};
    ++report.records;
    report.tokens += size.tokens;
    ++report.lengths[size.tokens];
    window.add(sizes.size(), size);
    sizes.push_back(size);
    if (window.full()) {
      pack_window();
    }
  }
  pack_window();
  return report;
}

}  // namespace kime
