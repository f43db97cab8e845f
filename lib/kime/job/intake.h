// The way in: the records of all inputs, one after another, parsed and checked one by one, so that what is packed is sound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"
#include "kime/batch/bucket.h"
#include "kime/io/journal.h"
#include "kime/io/line_reader.h"
#include "kime/io/record_parser.h"
#include "kime/io/shard.h"

namespace kime {

struct IntakeOptions {
  std::vector<std::string> files;  ///< "-" is standard input; none at all is standard input too.
  std::size_t max_line = std::size_t{64} << 20;
  RecordParserOptions records;
  std::string stage;            ///< For messages.
  std::vector<Bucket> buckets;  ///< A record that none of them holds is that record's error.
  int wake_fd = -1;             ///< Readable: stop waiting for input.
};

/// Where a record stands.
struct Where {
  std::uint64_t line = 0;  ///< From 1, in its file.
  std::string_view file;   ///< Its name where there are several files, else empty; lives as long as the Intake.
  InputPlace after;        ///< Where a job goes on that has this record behind it.
};

/// For one thread.
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

  /// The next record. `error` is set when it cannot be scored; `record` then holds what its error line carries.
  Next next(Record& record, Where& where, std::optional<RecordError>& error);
  /// Whether next() would return at once.
  bool ready();
  [[nodiscard]] const Error& failure() const { return *failure_; }
  [[nodiscard]] const IntakeOptions& options() const { return options_; }
  /// How much of the inputs' bytes has been read, 0 to 1; 1 for sure only once all has been. Nothing where a size is not known, since an
  /// input is no file.
  [[nodiscard]] std::optional<double> part_read() const;
  /// The inputs, in order.
  [[nodiscard]] std::span<const LineReader> inputs() const { return readers_; }

 private:
  [[nodiscard]] Result<std::vector<FilePart>> shard_parts(Shard shard) const;
  explicit Intake(IntakeOptions options) : options_(std::move(options)), parser_(options_.records) {}

  IntakeOptions options_;
  RecordParser parser_;
  std::vector<LineReader> readers_;
  std::vector<FilePart> parts_;  ///< Of each input, what belongs to this job; empty where there is one that is no file.
  std::size_t current_ = 0;
  std::size_t end_ = 0;  ///< Past the last input that is read.
  std::optional<Error> failure_;
};

}  // namespace kime
