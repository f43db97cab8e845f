// kime score
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "fleet_options.h"
#include "inputs.h"
#include "job_output.h"
#include "kime/backend/cpu/peak.h"
#include "kime/base/counted.h"
#include "kime/job/job_fields.h"
#include "kime/job/score_job.h"
#include "progress_display.h"
#include "score_summary.h"
#include "signals.h"

namespace kime::app {

namespace {

struct ScoreCommand {
  InputOptions input;
  ScoreOptions score;
  bool emit_given = false;
  PrecisionOption precision;
  DeviceOptions devices;
  OutputOptions output;
  ShardOption shard;
  std::string stats;
  std::string trace;
  ProgressOption progress;
  bool quiet = false;
  bool verbose = false;
};

// Everything a run needs, made in the order in which it can fail.
struct Prepared {
  Prepared(Inputs opened, JobOutput target) : inputs(std::move(opened)), output(std::move(target)) {}

  Inputs inputs;
  JobOutput output;
  ScoreOptions score;
  std::shared_ptr<StatusLine> status = std::make_shared<StatusLine>();
  std::unique_ptr<JobProgress> progress = std::make_unique<JobProgress>();
  std::vector<Calibration> calibrations;
  std::unique_ptr<Trace> trace;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stats{nullptr, std::fclose};
  std::shared_ptr<cpu::WeightCache> cache;
  std::unique_ptr<Fleet> fleet;
};

// The rows of the trace that show what streams do; made when a stream is first seen.
class StreamRows {
 public:
  explicit StreamRows(Trace& trace) : trace_(trace) {}
  void operator()(const std::string& stream, const TaskSpan& span) {
    std::size_t row = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto [found, added] = rows_.try_emplace(stream, 0);
      if (added) {
        found->second = trace_.row(stream);
      }
      row = found->second;
    }
    trace_.span(row, span.label, span.begin, span.end);
  }

 private:
  Trace& trace_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> rows_;
};

Result<std::unique_ptr<Fleet>> load_fleet(const ScoreCommand& options, Prepared& prepared) {
  std::vector<ModelSource> models;
  for (const Checkpoint& checkpoint : prepared.inputs.checkpoints) {
    prepared.calibrations.push_back(checkpoint.calibration());
    models.push_back({&checkpoint, &checkpoint.config()});
  }
  FleetOptions fleet;
  if (!options.quiet) {
    fleet.notice = [status = prepared.status](const std::string& text) { status->say(text); };
  }
  if (prepared.trace) {
    fleet.observe = [rows = std::make_shared<StreamRows>(*prepared.trace)](const std::string& stream, const TaskSpan& span) {
      (*rows)(stream, span);
    };
  }
  prepared.cache = options.devices.weight_cache(fleet.notice);
  DeviceOptions devices = options.devices;
  devices.reproducible = devices.reproducible || prepared.output.one_class();
  return make_fleet(devices, options.precision, models, prepared.inputs.stage, std::move(fleet), prepared.cache);
}

// What came of --cache, for the line that says how long loading took.
std::string from_cache(const cpu::WeightCache* cache) {
  const auto counts = cache == nullptr ? cpu::WeightCache::Counts() : cache->counts();
  if (counts.read == 0) {
    return counts.stored == 0 ? "" : "; weights put into the cache";
  }
  return counts.read == counts.loads ? "; weights from the cache"
                                     : fmt::format("; {} of {} weights from the cache", counts.read, counts.loads);
}

Result<ScoreOptions> score_options(const ScoreCommand& options, const Prepared& prepared) {
  ScoreOptions score = options.score;
  if (prepared.inputs.checkpoints.size() > 1 && score.ensemble == Ensemble::mean) {
    if (options.emit_given && score.emit == Emit::logits) {
      return Error(ErrorKind::input, "--ensemble mean averages probabilities and has no logits: use --emit probs, or --ensemble logits");
    }
    score.emit = options.emit_given ? score.emit : Emit::probs;
  }
  if (!options.quiet) {
    score.notice = [status = prepared.status](const std::string& text) { status->say(text); };
  }
  return score;
}

// Loads the checkpoints, and meanwhile digests them where the output's journal names them.
Status load(const ScoreCommand& options, const std::optional<Shard>& shard, Prepared& prepared) {
  std::vector<std::future<Result<std::string>>> digests;
  for (const Checkpoint& checkpoint : prepared.inputs.checkpoints) {
    if (prepared.output.kept()) {
      digests.push_back(std::async(std::launch::async, [&checkpoint] { return checkpoint_digest(checkpoint); }));
    }
  }
  auto fleet = load_fleet(options, prepared);
  JobFields job = option_fields(prepared.score, prepared.inputs.intake.options(), prepared.inputs.checkpoints.size(), shard);
  for (std::size_t i = 0; i < digests.size(); ++i) {
    auto digest = digests[i].get();
    if (!digest) {
      return std::move(digest).error();
    }
    job.emplace_back(digests.size() == 1 ? "checkpoint's digest" : fmt::format("checkpoint {}'s digest", i + 1), *std::move(digest));
  }
  if (!fleet) {
    return std::move(fleet).error();
  }
  prepared.fleet = *std::move(fleet);
  std::ranges::move(fleet_fields(*prepared.fleet), std::back_inserter(job));
  return prepared.output.set_job(job);
}

// Takes the inputs, and an output file, to where this run begins.
Status take_places(const std::optional<Shard>& shard, Prepared& prepared) {
  if (shard || prepared.output.place()) {
    const auto begun = prepared.inputs.intake.begin(shard, prepared.output.place());
    if (!begun || !*begun) {
      return begun ? Error(ErrorKind::input, "stopped before the first record") : begun.error();
    }
  }
  return prepared.output.start();
}

Result<Prepared> prepare(const ScoreCommand& options, Stop& stop) {
  const auto begin = std::chrono::steady_clock::now();
  auto inputs = open_inputs(options.input, stop, options.devices.threads.count());
  if (!inputs) {
    return std::move(inputs).error();
  }
  const auto shard = options.shard.parse();
  if (!shard) {
    return shard.error();
  }
  auto output = JobOutput::open(options.output, *shard, inputs->intake);
  if (!output) {
    return std::move(output).error();
  }
  Prepared prepared(*std::move(inputs), *std::move(output));
  auto score = score_options(options, prepared);
  if (!score) {
    return std::move(score).error();
  }
  prepared.score = *std::move(score);
  if (!options.trace.empty()) {
    auto trace = Trace::create(options.trace);
    if (!trace) {
      return std::move(trace).error();
    }
    prepared.trace = *std::move(trace);
  }
  if (!options.stats.empty()) {  // now, so that a long run is not for nothing
    prepared.stats.reset(std::fopen(options.stats.c_str(), "wbe"));
    if (!prepared.stats) {
      return system_error(options.stats, errno);
    }
  }
  if (auto loaded = load(options, *shard, prepared); !loaded) {
    return std::move(loaded).error();
  }
  if (auto begun = take_places(*shard, prepared); !begun) {
    return std::move(begun).error();
  }
  if (options.verbose) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const Checkpoint& checkpoint : prepared.inputs.checkpoints) {
      fmt::print(stderr, "kime: {}: {} parameters\n", checkpoint.directory(), grouped(checkpoint.parameters()));
    }
    const bool on_cpu = std::ranges::any_of(prepared.fleet->devices(), [](const auto& device) { return device.name.starts_with("cpu:"); });
    fmt::print(stderr, "kime: loaded in {:.2f} s; {}{}, {}{}\n", seconds, on_cpu ? fmt::format("{} on ", cpu::target_in_use()) : "",
               counted(prepared.fleet->lanes().size(), "stream"), precisions(*prepared.fleet), from_cache(prepared.cache.get()));
    for (const FleetDevice& device : prepared.fleet->devices()) {
      fmt::print(stderr, "kime: {}: {}\n", device.name, counted(device.streams, "stream"));
    }
  }
  return prepared;
}

int finish(const ScoreSummary& summary, Prepared& prepared, const ScoreCommand& options) {
  if (summary.end != ScoreEnd::output_closed && summary.end != ScoreEnd::output_failed) {
    print_summary(summary, prepared.score, {options.quiet, options.verbose, options.input.labels});
  }
  int status = status_of(summary);
  if (auto ended = prepared.output.end(summary, options.quiet); !ended) {
    status = fail(ended.error().text(), kLost);
  }
  if (prepared.trace) {
    if (auto closed = prepared.trace->close(); !closed) {
      status = fail(closed.error().text(), kLost);
    }
  }
  if (prepared.stats) {
    fmt::print(prepared.stats.get(), "{}\n", stats_of(summary, prepared.score.from, *prepared.fleet, options.input.labels).dump(2));
    if (std::fflush(prepared.stats.get()) != 0) {
      status = fail(fmt::format("{}: {}", options.stats, std::strerror(errno)), kLost);
    }
  }
  return status;
}

ScoreSummary score_all(Prepared& prepared, ProgressForm form, Stop& stop) {
  const JobState& from = prepared.score.from;
  if (prepared.output.is_complete(prepared.score.on_error == OnError::stop)) {
    ScoreSummary summary;
    summary.scored = from.scored;
    summary.failed = from.failed;
    summary.tokens = from.tokens;
    summary.reached = from;
    return summary;
  }
  if (form != ProgressForm::none) {
    prepared.score.progress = prepared.progress.get();
  }
  const ProgressDisplay display(form, *prepared.progress, *prepared.status);
  return prepared.output.write([&](Output& output, const std::function<bool(const JobState&)>& reached) {
    prepared.score.reached = reached;
    return score(prepared.inputs.intake, *prepared.fleet, prepared.inputs.stage, prepared.calibrations, prepared.score, output, stop);
  });
}

int run(const ScoreCommand& options) {
  Stop& stop = stop_of_process();
  auto prepared = prepare(options, stop);
  if (!prepared) {
    return fail(prepared.error().text(), signal_received() == 0 ? kUnusable : 128 + signal_received());
  }
  prepared->score.trace = prepared->trace.get();
  prepared->score.from = prepared->output.from();
  if (!options.quiet) {
    prepared->output.tell_of_start(prepared->score.on_error == OnError::stop);
  }
  const ScoreSummary summary = score_all(*prepared, options.progress.form(options.quiet), stop);
  const int status = finish(summary, *prepared, options);
  if (prepared->fleet->hangs()) {
    std::fflush(nullptr);
    std::_Exit(status);  // a thread that hangs in a driver can be neither joined nor left to run beside the end
  }
  return status;
}

template <class T>
std::vector<std::string> names(const std::map<std::string, T>& map) {
  std::vector<std::string> keys;
  keys.reserve(map.size());
  for (const auto& entry : map) {
    keys.push_back(entry.first);
  }
  return keys;
}

}  // namespace

void add_score(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("score", "Score records: one line a record, in input order");
  auto options = std::make_shared<ScoreCommand>();
  options->input.add(*command, true);
  const std::map<std::string, Emit> emits{{"logits", Emit::logits}, {"probs", Emit::probs}, {"answer", Emit::answer}, {"all", Emit::all}};
  const std::map<std::string, OnError> on_errors{{"line", OnError::line}, {"skip", OnError::skip}, {"stop", OnError::stop}};
  command
      ->add_option_function<std::string>(
          "--emit",
          [options, emits](const std::string& name) {
            options->score.emit = emits.at(name);
            options->emit_given = true;
          },
          "What a line says: logits (default), probs, answer or all")
      ->check(CLI::IsMember(names(emits)))
      ->type_name("FORM");
  options->precision.add(*command);
  command
      ->add_option_function<std::string>(
          "--ensemble",
          [options](const std::string& name) { options->score.ensemble = name == "mean" ? Ensemble::mean : Ensemble::logits; },
          "Several -m: average calibrated probabilities (mean, default; no logits), or logits")
      ->check(CLI::IsMember({"mean", "logits"}))
      ->type_name("HOW");
  options->devices.add(*command);
  options->input.add_keep(*command);
  options->output.add(*command);
  options->shard.add(*command);
  command
      ->add_option_function<std::string>(
          "--on-error", [options, on_errors](const std::string& name) { options->score.on_error = on_errors.at(name); },
          "A bad record: its error line in its place (line, default), no line (skip), or the end (stop)")
      ->check(CLI::IsMember(names(on_errors)))
      ->type_name("WHAT");
  command->add_option("--stats", options->stats, "Write what each device did, as one JSON document")->type_name("FILE");
  command->add_option("--trace", options->trace, "Write a timeline in the Chrome trace format, for ui.perfetto.dev")->type_name("FILE");
  command->add_flag(
      "--labels", options->input.labels,
      "Say on standard error, and in --stats, how often the answers of records with a `label`, the right option's number, are right");
  options->progress.add(*command);
  auto* quiet =
      command->add_flag("-q,--quiet", options->quiet, "No notices, no summary and, unless asked for, no progress on standard error");
  command->add_flag("-v,--verbose", options->verbose, "Say more on standard error")->excludes(quiet);
  command->footer(
      examples("  kime score records.jsonl -m checkpoint/ > scores.jsonl\n"
               "  zcat part-*.gz | kime score -m checkpoint/ --emit answer | jq .choice\n"
               "  tail -f queue.jsonl | kime score -m checkpoint/ --emit probs --keep\n"
               "  KIME_MODEL=checkpoint/ kime score a.jsonl b.jsonl.zst --on-error stop\n"
               "  kime score records.jsonl -m one/ -m two/ --ensemble mean > scores.jsonl\n"
               "  kime score records.jsonl -m checkpoint/ --precision int8 --cache ~/.cache/kime > scores.jsonl\n"
               "  kime score records.jsonl -m checkpoint/ -o scores.jsonl --resume\n"
               "  kime score records.jsonl -m checkpoint/ -o scores-3.jsonl --shard 3/8\n"
               "  kime score records.jsonl -m checkpoint/ --stats stats.json --trace trace.json > scores.jsonl"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
