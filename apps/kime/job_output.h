// Where the lines of `kime score` go: to standard output, or to a file that a killed job leaves in a state to go on from.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "command.h"
#include "kime/io/output_file.h"
#include "kime/job/intake.h"
#include "kime/job/score_job.h"

namespace kime::app {

/// As given.
struct OutputOptions {
  std::optional<std::string> file;  ///< None: standard output.
  bool resume = false;
  bool force = false;
  double sync_every = 2;

  void add(CLI::App& command);
};

/// `--shard`, as given.
struct ShardOption {
  std::optional<std::string> given;
  void add(CLI::App& command);
  /// Errors: `input`: no shard.
  [[nodiscard]] Result<std::optional<Shard>> parse() const;
};

/// Goes through open(), set_job(), begin(), write() and end(), in this order.
class JobOutput {
 public:
  /// Looks at what is there, and takes the output's lock. Errors: those of OutputFile::open; options that make no sense together; inputs
  /// that cannot be read again where that is asked for.
  static Result<JobOutput> open(const OutputOptions& options, const std::optional<Shard>& shard, const Intake& intake);

  /// Whether it is a file.
  [[nodiscard]] bool kept() const { return file_.has_value(); }
  /// Whether all that is written must be of one class of devices: what it is to be put together with is.
  [[nodiscard]] bool one_class() const;

  /// `more`: the job's fields but for those of its inputs. Errors: those of OutputFile::set_job.
  Status set_job(const JobFields& more);
  /// Where the intake is to go on, if not at the start.
  [[nodiscard]] std::optional<InputPlace> place() const;
  /// Nothing is left to be scored, since an earlier run ended too late to tidy up, or `stops` at the error that it found.
  [[nodiscard]] bool is_complete(bool stops) const;
  /// What an earlier run did.
  [[nodiscard]] JobState from() const;
  /// Says on standard error where a job goes on.
  void tell_of_start(bool stops) const;
  /// Errors: those of OutputFile::start.
  Status start();

  /// Runs the job: `run` scores to the output that it is given, and tells its listener how far it is.
  ScoreSummary write(const std::function<ScoreSummary(Output&, const std::function<bool(const JobState&)>&)>& run);
  /// After write(): gives a complete output its name, or keeps what is there for another run, of which a notice tells unless `quiet`.
  /// Errors: the disk's.
  Status end(const ScoreSummary& summary, bool quiet);

 private:
  OutputOptions options_;
  bool sharded_ = false;
  bool repeatable_ = false;  ///< All inputs can be read again.
  JobFields inputs_;
  std::optional<OutputFile> file_;
  bool save_failed_ = false;
};

}  // namespace kime::app
