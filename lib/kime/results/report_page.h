// A run and its scores as a page.
#pragma once

#include <optional>
#include <string>

#include "kime/results/run_devices.h"
#include "kime/results/run_report.h"
#include "kime/results/run_timeline.h"

namespace kime {

/// What a page is made from.
struct ReportSources {
  std::string scores;  ///< The file's name.
  const RunReport& report;
  const std::optional<RunDevices>& devices;
  const std::optional<RunTimeline>& timeline;
};

/// A summary; devices and timeline, where they are known; lengths, scores by type of question, calibration, errors by kind.
[[nodiscard]] std::string report_page(const ReportSources& sources);

}  // namespace kime
