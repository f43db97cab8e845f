// kime bench
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "fleet_options.h"
#include "kime/backend/cpu/peak.h"
#include "kime/graph/builder.h"
#include "kime/job/bench.h"
#include "kime/job/intake.h"
#include "kime/job/random_model.h"
#include "kime/model/checkpoint.h"

namespace kime::app {

namespace {

struct Options {
  ModelOption model;
  BucketOptions buckets;
  PrecisionOption precision;
  std::string records;
  DeviceOptions devices;
  double seconds = 10;
  bool json = false;
};

Result<std::vector<Record>> read_records(const std::string& file, const ModelConfig& config, const StageBuckets& stage) {
  auto intake = Intake::open(
      {.files = {file}, .records = {.vocab = config.vocab, .types = ModelConfig::types}, .stage = stage.stage, .buckets = stage.buckets});
  if (!intake) {
    return std::move(intake).error();
  }
  std::vector<Record> records;
  Record record;
  Where where;
  std::optional<RecordError> error;
  for (;;) {
    const auto next = intake->next(record, where, error);
    if (next == Intake::Next::broken) {
      return intake->failure();
    }
    if (next != Intake::Next::record) {
      break;
    }
    if (!error) {
      records.push_back(record);
    }
  }
  if (records.empty()) {
    return Error(ErrorKind::input, fmt::format("{}: no record that can be scored; `kime check` says why", file));
  }
  return records;
}

Result<BenchReport> measure(const ModelConfig& config, const TensorSource& tensors, const Options& options, std::size_t threads) {
  const auto precision = options.precision.cpu();
  if (!precision) {
    return precision.error();
  }
  auto stage = choose_stage(options.buckets.file, options.buckets.stage);
  if (!stage) {
    return std::move(stage).error();
  }
  Result<std::vector<Record>> records =
      options.records.empty() ? ticket_records(400, config.vocab) : read_records(options.records, config, *stage);
  if (!records) {
    return std::move(records).error();
  }
  const auto graph = std::make_shared<const Graph>(build_graph(config, *precision));
  const ModelToLoad model{&tensors, graph, config.vocab, ModelConfig::types};
  auto fleet = make_fleet(options.devices, {&model, 1}, *stage, {});
  if (!fleet) {
    return std::move(fleet).error();
  }
  return bench(**fleet, *graph, *stage, *records, {.threads = threads, .seconds = options.seconds});
}

void print(const BenchReport& report, const std::string& model, std::size_t threads, Precision precision) {
  constexpr double kGiga = 1e9;
  fmt::print("{}, {}, {}, {}\n", model, cpu::target_in_use(), counted(threads, "thread"), name_of(precision));
  fmt::print("  FMA peak      {:9.1f} GFLOP/s   best of {} samples between the rounds\n", report.peak_flops / kGiga, report.rounds + 1);
  fmt::print("  model         {:9.1f} GFLOP/s   useful ones; {:.1f} in the best round\n", report.model_flops / kGiga,
             report.best_model_flops / kGiga);
  fmt::print("  share of peak {:9.1f} %\n", 100 * report.share());
  fmt::print("  tokens        {:>9} /s        {} in {}\n", grouped(static_cast<std::uint64_t>(report.tokens_per_second)),
             grouped(report.tokens), counted(report.rounds, "round"));
  fmt::print("  records       {:9.1f} /s        {}\n", report.records_per_second, grouped(report.records));
}

nlohmann::json as_json(const BenchReport& report, const std::string& model, std::size_t threads, Precision precision) {
  constexpr double kGiga = 1e9;
  return {{"model", model},
          {"precision", name_of(precision)},
          {"target", cpu::target_in_use()},
          {"threads", threads},
          {"rounds", report.rounds},
          {"peak_gflops", report.peak_flops / kGiga},
          {"model_gflops", report.model_flops / kGiga},
          {"best_model_gflops", report.best_model_flops / kGiga},
          {"share_of_peak", report.share()},
          {"tokens_per_second", report.tokens_per_second},
          {"records_per_second", report.records_per_second},
          {"tokens", report.tokens},
          {"records", report.records}};
}

int run(const Options& options) {
  const std::size_t threads = options.devices.threads.count();
  std::string model = "base size, random weights";
  Result<BenchReport> report = Error(ErrorKind::input, "");
  if (options.model.folder.empty()) {
    const ModelConfig config = base_config();
    report = measure(config, RandomTensors(config), options, threads);
  } else {
    const auto checkpoint = Checkpoint::open(options.model.folder);
    if (!checkpoint) {
      return fail(checkpoint.error().text());
    }
    model = options.model.folder;
    report = measure(checkpoint->config(), *checkpoint, options, threads);
  }
  if (!report) {
    return fail(report.error().text());
  }
  if (options.json) {
    fmt::print("{}\n", as_json(*report, model, threads, *options.precision.cpu()).dump(2));
  } else {
    print(*report, model, threads, *options.precision.cpu());
  }
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("bench", "Measure this machine's scoring speed against its own FMA peak, in turn in one run");
  auto options = std::make_shared<Options>();
  options->model.add(*command);
  options->buckets.add(*command);
  command->add_option("--records", options->records, "Records to score (default: made-up support tickets)")->type_name("FILE");
  options->precision.add(*command);
  options->devices.add(*command);
  command->add_option("--seconds", options->seconds, "How long to measure (default 10)")->check(CLI::Range(0.1, 86400.0))->type_name("S");
  command->add_flag("--json", options->json, "One JSON document");
  command->footer(
      examples("  kime bench                        the base size with random weights\n"
               "  kime bench -m checkpoint/ --records records.jsonl --threads 1"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
