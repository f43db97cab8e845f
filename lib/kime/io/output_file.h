// A finished file, or none: an output that is written beside its name and takes it at the end, and can be gone on with in between.
//
// FILE.partial holds what was written so far, FILE.journal what job it is and how far it has come. What is left behind:
//
//   killed at any moment    the partial output as far as it was written, and a whole journal, since that is only ever replaced by another
//                           whole one; what the partial output holds past the journal's place is cut off when the job goes on
//   power lost              the same as of the last save(): it writes the output to the disk before the journal that speaks of it, and the
//                           journal before it takes the other's name, and then the folder; on a disk that does what it is told
//   after finish()          FILE, on the disk under its name; between its steps the journal says that the job is complete, so that going
//                           on takes the rest of the steps
//   no space left           the journal that was there before
//
// The process that writes holds a lock on the partial output, of the kind that tells others its process id (fcntl).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kime/base/descriptor.h"
#include "kime/base/error.h"
#include "kime/io/journal.h"

namespace kime {

struct OutputFileOptions {
  std::string path;  ///< A symbolic link is followed.
  bool resume = false;
  bool force = false;  ///< Without `resume`: begins anew over what is there. A finished FILE is then replaced, at the end.
  std::string kime{};  ///< The version, for the journal.
};

/// Owns its descriptors and the lock. start() and finish() by one thread, save() by one at a time.
class OutputFile {
 public:
  /// Sees to it that the output can be written, and takes the lock. Changes nothing that is there; an empty FILE.partial is made and goes
  /// away again with this object if start() does not follow. `inputs` are the descriptors of the job's inputs.
  /// Errors: `input`: the output, or a file beside it, is one of the inputs, under whatever name; FILE is there, or a job that did not end
  /// (unless `force` or `resume` speaks to that); another process writes it, whose id is named; the journal cannot be read, or the partial
  /// output is not what it speaks of.
  static Result<OutputFile> open(OutputFileOptions options, std::span<const int> inputs);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// What there is to go on with, if anything.
  [[nodiscard]] const std::optional<Journal>& found() const { return found_; }

  /// Says what job it is. Errors: `input`: another one than was found, with the fields that differ.
  Status set_job(JobFields job);
  /// Begins the job, or goes on with the one that was found: writes the journal, and cuts off what the partial output holds past its place.
  /// Errors: `input`: the files cannot be written.
  Status start();
  /// For writing, from start() on; it stands at the output's end.
  [[nodiscard]] int fd() const { return partial_.get(); }

  /// Makes sure that what was written up to `state.output` survives all that is named above, and writes the journal.
  /// Errors: `input`, naming the file. What the journal said before then still holds.
  Status save(const JobState& state);
  /// Gives the complete output its name and removes the journal. Errors: as save(), and for a FILE that has come to be there meanwhile.
  Status finish(const JobState& state);

  /// Whether FILE has its name already: its process ended before the journal was removed. Only finish() is left to be done.
  [[nodiscard]] bool finished() const { return finished_; }

  /// The name of the output, and of what is beside it until it is finished.
  [[nodiscard]] const std::string& path() const { return options_.path; }
  [[nodiscard]] std::string partial_path() const { return options_.path + ".partial"; }
  [[nodiscard]] std::string journal_path() const { return options_.path + ".journal"; }

 private:
  explicit OutputFile(OutputFileOptions options) : options_(std::move(options)) {}

  Status check_not_input(std::span<const int> inputs) const;
  Status check_target() const;
  [[nodiscard]] Error there_already(std::string_view why) const;
  Status lock_partial();
  Status find_job();
  Status check_partial(const Journal& journal, std::uint64_t bytes) const;
  Status write_journal();
  Status sync_folder() const;
  Status give_name() const;
  [[nodiscard]] std::string journal_draft() const { return journal_path() + ".new"; }

  OutputFileOptions options_;
  Descriptor partial_;
  bool finished_ = false;
  bool made_partial_ = false;  ///< By this object, and nothing is in it yet.
  std::optional<Journal> found_;
  Journal journal_;
};

}  // namespace kime
