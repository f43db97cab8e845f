// kime buckets
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "inputs.h"
#include "kime/base/counted.h"
#include "kime/batch/packer.h"
#include "kime/job/pack_report.h"

namespace kime::app {

namespace {

struct BucketsCommand {
  InputOptions input;
  std::size_t threads = 1;
  bool json = false;
};

nlohmann::json as_json(const PackReport& report, const StageBuckets& stage) {
  nlohmann::json buckets = nlohmann::json::array();
  for (std::size_t i = 0; i < report.buckets.size(); ++i) {
    const auto& bucket = stage.buckets[i];
    const auto& use = report.buckets[i];
    buckets.push_back({{"tokens", bucket.tokens},
                       {"seqs", bucket.seqs},
                       {"markers", bucket.markers},
                       {"batches", use.batches},
                       {"records", use.records},
                       {"used_tokens", use.tokens}});
  }
  return {{"stage", stage.stage},        {"records", report.records},     {"failed", report.failed},
          {"tokens", report.tokens},     {"shortest", report.shortest()}, {"median", report.median()},
          {"longest", report.longest()}, {"batches", report.batches},     {"bucket_tokens", report.bucket_tokens},
          {"buckets", buckets}};
}

void print(const PackReport& report, const StageBuckets& stage) {
  fmt::print("{}, {}; lengths {} to {}, median {}\n", counted(report.records, "record"), counted(report.tokens, "token"),
             grouped(report.shortest()), grouped(report.longest()), grouped(report.median()));
  fmt::print("{} of stage {}\n\n", report.batches == 1 ? "1 batch" : grouped(report.batches) + " batches", stage.stage);
  fmt::print("{:>10}{:>10}{:>12}{:>14}{:>8}\n", "bucket", "batches", "records", "tokens", "full");
  for (std::size_t i = 0; i < report.buckets.size(); ++i) {
    const auto& use = report.buckets[i];
    if (use.batches > 0) {
      const auto room = static_cast<double>(use.batches * stage.buckets[i].tokens);
      fmt::print("{:>10}{:>10}{:>12}{:>14}{:>6.1f} %\n", grouped(stage.buckets[i].tokens), grouped(use.batches), grouped(use.records),
                 grouped(use.tokens), 100 * static_cast<double>(use.tokens) / room);
    }
  }
  if (report.batches > 0) {
    fmt::print("\nThe CPU computes no padding; a device that computes whole buckets would compute {} ({:.1f} % of its work).\n",
               counted(report.bucket_tokens - report.tokens, "padding token"),
               100 * static_cast<double>(report.bucket_tokens - report.tokens) / static_cast<double>(report.bucket_tokens));
  }
}

int run(const BucketsCommand& options) {
  auto inputs = open_inputs(options.input, stop_of_process(), ThreadsOption().count());
  if (!inputs) {
    return fail(inputs.error().text());
  }
  const auto report = report_packing(inputs->intake, inputs->stage.buckets, options.threads);
  if (!report) {
    return fail(report.error().text(), kLost);
  }
  if (options.json) {
    fmt::print("{}\n", as_json(*report, inputs->stage).dump(2));
  } else {
    print(*report, inputs->stage);
  }
  if (report->failed > 0) {
    fmt::print(stderr, "kime: {} failed; `kime check` says why\n", counted(report->failed, "record"));
  }
  return report->failed > 0 ? kSomeFailed : kDone;
}

}  // namespace

void add_buckets(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("buckets", "Show how records pack: lengths, buckets, padding");
  auto options = std::make_shared<BucketsCommand>();
  options->input.add(*command);
  command->add_option("--threads", options->threads, "Pack as for so many threads (default 1)")->check(CLI::Range(1, 4096))->type_name("N");
  command->add_flag("--json", options->json, "One JSON document");
  command->footer(
      examples("  kime buckets records.jsonl -m checkpoint/\n"
               "  kime buckets records.jsonl -m checkpoint/ --buckets mine.txt --stage night"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
