#include "job_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "kime/base/counted.h"
#include "kime/job/job_fields.h"
#include "kime/job/saver.h"

namespace kime::app {

void OutputOptions::add(CLI::App& command) {
  auto* output =
      command
          .add_option("-o,--output", file,
                      "Write to FILE: to FILE.partial first, with a FILE.journal from which --resume goes on, whatever ends the job")
          ->type_name("FILE");
  command.add_flag("--resume", resume,
                   "Go on with what -o FILE has left of the same job, or begin it; keeps to one class of devices, as --reproducible does");
  command.add_flag("--force", force, "Replace a FILE of -o that is there; without --resume also what is left of a job that did not end");
  command.add_option("--sync-every", sync_every, "Seconds between two moments from which a job goes on after a loss of power (default: 2)")
      ->check(CLI::Range(0.001, 3600.0))
      ->needs(output)
      ->type_name("S");
}

void ShardOption::add(CLI::App& command) {
  command
      .add_option("--shard", given,
                  "Only part I of N of the inputs, in whole lines: the N outputs, one after another, are what one run would write (which "
                  "keeps to one class of devices, as with --reproducible)")
      ->type_name("I/N");
}

Result<std::optional<Shard>> ShardOption::parse() const {
  if (!given) {
    return std::optional<Shard>();
  }
  auto shard = parse_shard(*given);
  return shard ? Result<std::optional<Shard>>(*shard) : Error(ErrorKind::input, "--shard " + shard.error().message());
}

Result<JobOutput> JobOutput::open(const OutputOptions& options, const std::optional<Shard>& shard, const Intake& intake) {
  JobOutput output;
  output.options_ = options;
  output.sharded_ = shard.has_value();
  if (!options.file && (options.resume || options.force)) {
    return Error(ErrorKind::input, fmt::format("{} is for an output file: name it with -o", options.resume ? "--resume" : "--force"));
  }
  if (options.file && options.file->empty()) {
    return Error(ErrorKind::input, "-o: the file's name is empty");
  }
  if (options.file == "-") {
    return Error(ErrorKind::input, "-o -: for standard output leave -o out; to a file of this name write -o ./-");
  }
  if (!options.file && !shard) {
    return output;
  }
  auto again = input_fields(intake.inputs(), true);
  if (!again && (options.resume || shard)) {
    return Error(ErrorKind::input, fmt::format("{}: {}", options.resume ? "--resume" : "--shard", again.error().message()));
  }
  output.repeatable_ = static_cast<bool>(again);
  if (!options.file) {
    return output;
  }
  auto fields = again ? std::move(again) : input_fields(intake.inputs(), false);
  if (!fields) {
    return std::move(fields).error();
  }
  output.inputs_ = *std::move(fields);
  std::vector<int> descriptors;
  for (const LineReader& reader : intake.inputs()) {
    descriptors.push_back(reader.source().fd());
  }
  auto file =
      OutputFile::open({.path = *options.file, .resume = options.resume, .force = options.force, .kime = KIME_VERSION}, descriptors);
  if (!file) {
    return std::move(file).error();
  }
  output.file_.emplace(*std::move(file));
  return output;
}

bool JobOutput::one_class() const {
  // A job that began on several classes has no class to keep to.
  const bool goes_on = file_ && file_->found();
  return sharded_ || (options_.resume && !(goes_on && of_several_classes(file_->found()->job)));
}

Status JobOutput::set_job(const JobFields& more) {
  if (!file_) {
    return {};
  }
  JobFields job = more;
  job.insert(job.end(), inputs_.begin(), inputs_.end());
  return file_->set_job(std::move(job));
}

std::optional<InputPlace> JobOutput::place() const {
  const InputPlace input = from().input;
  return input == InputPlace() ? std::nullopt : std::optional(input);  // killed before the first record: where the shard begins, if any
}

void JobOutput::tell_of_start(bool stops) const {
  if (!file_ || !file_->found()) {
    return;
  }
  const JobState state = from();
  const std::string records = counted(state.scored + state.failed, "record");
  fmt::print(stderr, "kime: {}: {}\n", file_->path(),
             is_complete(stops) ? fmt::format("all {} are there already", records) : fmt::format("goes on after {}", records));
}

bool JobOutput::is_complete(bool stops) const {
  const JobState state = from();
  return state.complete || (stops && state.failed > 0);
}

JobState JobOutput::from() const {
  return file_ && file_->found() ? file_->found()->state : JobState();
}

Status JobOutput::start() {
  return file_ ? file_->start() : Status();
}

ScoreSummary JobOutput::write(const std::function<ScoreSummary(Output&, const std::function<bool(const JobState&)>&)>& run) {
  if (!file_) {
    Output output(STDOUT_FILENO, "standard output");
    return run(output, {});
  }
  Output output(file_->fd(), file_->partial_path());
  Saver saver(*file_, std::chrono::duration<double>(options_.sync_every));
  ScoreSummary summary = run(output, [&saver](const JobState& state) { return saver.reached(state); });
  if (const auto failure = saver.failure()) {
    // Also where the job came to its end: what the disk could not take may not be there, though the system says so only once.
    summary.end = ScoreEnd::output_failed;
    summary.message = failure->message();
    save_failed_ = true;
  }
  return summary;
}

Status JobOutput::end(const ScoreSummary& summary, bool quiet) {
  if (!file_) {
    return {};
  }
  const bool complete = summary.end == ScoreEnd::complete;
  auto done = complete ? file_->finish(summary.reached) : save_failed_ ? Status() : file_->save(summary.reached);
  if (!quiet && !(complete && done)) {
    fmt::print(stderr, "kime: what is done is in {}; {}\n", file_->partial_path(),
               repeatable_ ? "the same command with --resume goes on" : "an input that is no file cannot be read again to go on");
  }
  // Of a full disk the summary tells already, and the journal before this one holds.
  return summary.end == ScoreEnd::output_failed ? Status() : std::move(done);
}

}  // namespace kime::app
