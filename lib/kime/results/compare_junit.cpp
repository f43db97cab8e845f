#include "kime/results/compare_junit.h"

#include <fmt/format.h>

#include <iterator>

#include "kime/base/counted.h"
#include "kime/results/markup.h"

namespace kime {
namespace {

std::string place_of(const ShownRecord& record) {
  const std::string before = record.old_line == 0 ? "" : fmt::format("line {} of the old file", record.old_line);
  const std::string after = record.new_line == 0 ? "" : fmt::format("line {} of the new file", record.new_line);
  return before.empty() ? after : after.empty() ? before : before + ", " + after;
}

}  // namespace

std::string compare_junit(const ScoreDifferences& found, std::string_view text) {
  const std::size_t cases = found.failures.size();
  const std::size_t failures = cases + (found.passed() ? 0 : 1);
  const std::string counts = fmt::format(R"(tests="{}" failures="{}" errors="0")", cases + 1, failures);
  std::string out = fmt::format(R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="kime compare" {0}>
<testsuite name="kime compare" {0} skipped="0">
<properties><property name="old" value="{1}"/><property name="new" value="{2}"/></properties>
<testcase name="summary" classname="kime.compare">
)",
                                counts, markup_text(found.old_name), markup_text(found.new_name));
  if (!found.passed()) {
    out += fmt::format("<failure type=\"summary\" message=\"{} failed, {} of them shown\"/>\n", counted(found.failed_records(), "record"),
                       cases);
  }
  out += fmt::format("<system-out>{}</system-out>\n</testcase>\n", markup_text(text));
  for (const ShownFailure& failure : found.failures) {
    fmt::format_to(std::back_inserter(out),
                   "<testcase name=\"{}\" classname=\"kime.compare.{}\"><failure type=\"{}\" message=\"{}\">{}</failure></testcase>\n",
                   markup_text(failure.record.id), name_of(failure.failure), name_of(failure.failure), markup_text(failure.why),
                   place_of(failure.record));
  }
  return out + "</testsuite>\n</testsuites>\n";
}

}  // namespace kime
