// The charts of a report.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kime/results/run_devices.h"
#include "kime/results/run_report.h"
#include "kime/results/run_timeline.h"

namespace kime {

/// Each gives a whole SVG element.
[[nodiscard]] std::string histogram_chart(const GrowingHistogram& histogram, std::string_view title);
/// One bar for each index; the last one stands for all from there on.
[[nodiscard]] std::string index_chart(std::span<const std::uint64_t> counts, std::string_view title);
[[nodiscard]] std::string length_chart(const RunReport& report);
/// Accuracy against confidence, a dot for each bin that has any.
[[nodiscard]] std::string reliability_chart(const LabelReport& labels, std::string_view title);
/// A bar for each device: its share of `total`.
[[nodiscard]] std::string share_chart(const RunDevices& run);
[[nodiscard]] std::string timeline_chart(const RunTimeline& timeline);

}  // namespace kime
