// The way in: the records of all inputs, one after another, parsed and checked one by one, so that what is packed is sound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"
#include "kime/batch/bucket.h"
#include "kime/io/line_reader.h"
#include "kime/io/record_parser.h"
#include "kime/io/shard.h"
#include "kime/job/parse_pool.h"
#include "kime/job/where.h"

namespace kime {

struct IntakeOptions {
  std::vector<std::string> files;  ///< "-" is standard input; none at all is standard input too.
  LineRules lines;
  std::size_t threads = 1;  ///< That parse, the caller's among them; others start once they have work.
  int wake_fd = -1;         ///< Readable: stop waiting for input.
};

/// For one thread, whatever others it has parse. Reads some lines ahead of the records that it gives, never waiting for them while it has
/// any to give.
class Intake {
 public:
  enum class Next {
    record,
    end,
    stopped,  ///< The wake descriptor became readable while waiting for input.
    broken,   ///< An input failed in the middle; failure() says which and how. Nothing follows.
  };

  /// Opens all inputs. Errors: `input`, naming the file that cannot be opened.
  static Result<Intake> open(IntakeOptions options);

  /// Keeps to a part of the inputs, and goes on at a place that an earlier run over the same ones had from Where::after; before the first
  /// record. False where the wake descriptor became readable first, and the intake is then good for nothing more.
  /// Errors: `input`: for either, one that is no regular file; those of lines_of() and LineReader::keep_to().
  Result<bool> begin(const std::optional<Shard>& shard, const std::optional<InputPlace>& place);

  /// The next record, exchanged for what `record` was. `error` is set when it cannot be scored; `record` then holds what its error line
  /// carries.
  Next next(Record& record, Where& where, std::optional<RecordError>& error);
  /// Whether next() would return at once.
  bool ready();
  [[nodiscard]] const Error& failure() const { return *failure_; }
  [[nodiscard]] const IntakeOptions& options() const { return options_; }
  /// How much of the inputs' bytes the records so far were, 0 to 1; 1 for sure only once all have been given. Nothing where a size is not
  /// known, since an input is no file.
  [[nodiscard]] std::optional<double> part_read() const;
  /// The inputs, in order.
  [[nodiscard]] std::span<const LineReader> inputs() const { return readers_; }

 private:
  /// A line, and where it stands.
  struct Found {
    Line line;
    Where where;
    std::uint64_t position = 0;
  };

  explicit Intake(IntakeOptions options);
  [[nodiscard]] Result<std::vector<FilePart>> shard_parts(Shard shard) const;
  Next read_line(Found& found);
  void read_ahead();
  bool have_line();
  Next give(Record& record, Where& where, std::optional<RecordError>& error);

  IntakeOptions options_;
  std::unique_ptr<ParsePool> pool_;
  std::vector<LineReader> readers_;
  std::vector<std::string> names_;  ///< Of the inputs where there are several, as JSON strings: every line of scores carries one.
  std::vector<FilePart> parts_;     ///< Of each input, what belongs to this job; empty where there is one that is no file.
  std::size_t reading_ = 0;         ///< The input that is read.
  std::size_t end_ = 0;             ///< Past the last input that is read.
  std::optional<Error> failure_;

  std::unique_ptr<LineChunk> filling_ = std::make_unique<LineChunk>();
  std::unique_ptr<LineChunk> giving_ = std::make_unique<LineChunk>();
  std::size_t given_ = 0;       ///< Of what is in giving_.
  std::optional<Found> held_;   ///< In no chunk yet; one that is longer than a chunk is parsed where the reader has it, in its turn.
  std::optional<Next> after_;   ///< What comes after all that has been read: no record.
  std::size_t file_ = 0;        ///< Of the last record given.
  std::uint64_t position_ = 0;  ///< In that file, after it.
};

}  // namespace kime
