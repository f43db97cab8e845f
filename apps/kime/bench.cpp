// kime bench
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "bench_report.h"
#include "command.h"
#include "fleet_options.h"
#include "kime/graph/builder.h"
#include "kime/job/bench.h"
#include "kime/job/bench_load.h"
#include "kime/job/bench_null.h"
#include "kime/job/bench_sweep.h"
#include "kime/job/intake.h"
#include "kime/job/random_model.h"
#include "kime/model/checkpoint.h"

namespace kime::app {

namespace {

struct BenchCommand {
  ModelOption model;
  BucketOptions buckets;
  PrecisionOption precision;
  std::string records;
  DeviceOptions devices;
  std::optional<double> seconds;
  bool sweep = false;
  bool null = false;
  bool json = false;
};

Result<std::vector<Record>> read_records(const std::string& file, const ModelConfig& config, const StageBuckets& stage) {
  auto intake = Intake::open(
      {.files = {file},
       .lines = {.records = {.vocab = config.vocab, .types = ModelConfig::types}, .stage = stage.stage, .buckets = stage.buckets}});
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

// Of the seconds of a sweep, those that the plain measurement gets.
constexpr double kPlainPart = 0.25;
constexpr double kSeconds = 10;
constexpr double kSweepSeconds = 40;

struct Measured {
  std::string devices;
  bool on_cpu = true;
};

// One kind of device at a time; `all` is the CPU, whose peak can be measured.
Result<Measured> what_to_measure(const BenchCommand& options) {
  const auto choice = choose_devices(options.devices.devices);
  if (!choice) {
    return choice.error();
  }
  if (choice->named && choice->cpu && choice->cuda) {
    return Error(ErrorKind::input, fmt::format("--devices {}: one kind of device is measured at a time", options.devices.devices));
  }
  if (!choice->named) {
    return Measured{"cpu"};
  }
  if (choice->cpu) {
    return Measured{options.devices.devices};
  }
  if (options.sweep) {
    return Error(ErrorKind::input, "--sweep: for CPUs only");
  }
  return Measured{options.devices.devices, false};
}

Result<BenchFindings> measure(const ModelConfig& config, const TensorSource& tensors, const BenchCommand& options, std::string model) {
  const auto measured = what_to_measure(options);
  if (!measured) {
    return measured.error();
  }
  const auto precision = measured->on_cpu ? options.precision.cpu() : options.precision.cuda();
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
  const Graph graph = build_graph(config, *precision);
  const auto profile = measured->on_cpu ? std::make_shared<cpu::Profile>() : nullptr;
  DeviceOptions devices = options.devices;
  devices.devices = measured->devices;
  const ModelSource model_source{&tensors, &config};
  FleetOptions fleet_options;
  fleet_options.notice = [](const std::string& text) { fmt::print(stderr, "kime: {}\n", text); };
  auto cache = options.devices.weight_cache(fleet_options.notice);
  auto fleet = make_fleet(devices, options.precision, {&model_source, 1}, *stage, std::move(fleet_options), std::move(cache), profile);
  if (!fleet) {
    return std::move(fleet).error();
  }
  const BenchRig rig{**fleet, graph, *stage, profile.get(), options.devices.threads.count(), *precision};
  const double seconds = options.seconds.value_or(options.sweep ? kSweepSeconds : kSeconds);
  auto report = bench(rig, *records, options.sweep ? kPlainPart * seconds : seconds);
  if (!report) {
    return std::move(report).error();
  }
  BenchFindings findings{std::move(model), rig.threads, {}, *precision, *std::move(report), std::nullopt};
  for (const FleetDevice& device : (*fleet)->devices()) {
    findings.devices.push_back(device.name);
  }
  if (options.sweep) {
    auto swept = sweep(rig, findings.report, config.vocab, (1 - kPlainPart) * seconds);
    if (!swept) {
      return std::move(swept).error();
    }
    findings.sweep = *std::move(swept);
  }
  return findings;
}

Result<BenchFindings> measure_model(const BenchCommand& options) {
  if (options.model.folder.empty()) {
    const ModelConfig config = base_config();
    return measure(config, RandomTensors(config), options, "base size, random weights");
  }
  const auto checkpoint = Checkpoint::open(options.model.folder);
  if (!checkpoint) {
    return checkpoint.error();
  }
  return measure(checkpoint->config(), *checkpoint, options, options.model.folder);
}

int run_null(const BenchCommand& options) {
  if (options.records.empty()) {
    return fail("--null: name a file of records with --records");
  }
  const auto stage = choose_stage(options.buckets.file, options.buckets.stage);
  if (!stage) {
    return fail(stage.error().text());
  }
  const auto report = bench_null(options.records, *stage, options.devices.threads.count(), options.seconds.value_or(kSeconds));
  if (!report) {
    return fail(report.error().text());
  }
  if (options.json) {
    fmt::print("{}\n", as_json(*report).dump(2));
  } else {
    print(*report);
  }
  return kDone;
}

int run(const BenchCommand& options) {
  if (options.null) {
    return run_null(options);
  }
  const auto findings = measure_model(options);
  if (!findings) {
    return fail(findings.error().text());
  }
  if (options.json) {
    fmt::print("{}\n", as_json(*findings).dump(2));
  } else {
    print(*findings);
  }
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand(
      "bench",
      "Measure this machine's scoring speed against its own peak, in turn in one run, and where the time goes, op by op; with "
      "--devices cuda, the speed of its GPUs");
  auto options = std::make_shared<BenchCommand>();
  options->model.add(*command);
  options->buckets.add(*command);
  command->add_option("--records", options->records, "Records to score (default: made-up support tickets)")->type_name("FILE");
  options->precision.add(*command);
  options->devices.add(*command);
  command->add_option("--seconds", options->seconds, "How long to measure in all, about; loading not counted (default 10, with --sweep 40)")
      ->check(CLI::Range(0.1, 86400.0))
      ->type_name("S");
  command->add_flag("--sweep", options->sweep,
                    "Also: single records of 16 to 256 tokens beside the bound of memory and arithmetic, records of 64 to 2048 tokens, "
                    "batches of 1 to 64 records; what does not fit into the seconds is left out");
  command
      ->add_flag("--null", options->null,
                 "Instead: how fast the records of --records are read, parsed, packed and written where scores cost nothing; --threads is "
                 "that of the threads that write lines, beside one that reads and one that writes")
      ->excludes("--sweep");
  command->add_flag("--json", options->json, "One JSON document of it all");
  command->footer(
      examples("  kime bench                        the base size with random weights\n"
               "  kime bench -m checkpoint/ --records records.jsonl --threads 1\n"
               "  kime bench -m checkpoint/ --sweep --json > bench.json\n"
               "  kime bench --null --records records.jsonl --threads 1"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
