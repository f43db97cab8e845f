// Which algorithms have been verified, for the process and in files.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kime/backend/cuda/blas_api.h"
#include "kime/base/error.h"

namespace kime::cuda {

/// The algorithm that passed; none where none did.
struct ProductVerdict {
  std::optional<BlasAlgo> algo;
  bool operator==(const ProductVerdict&) const = default;
};

/// Verdicts by their keys: texts of all that they depend on, one or several lines. With a folder each is a file too, named by a hash of the
/// key, of lines:
///   kime products, format 1
///   the key
///   algorithm none, or algorithm and 128 hexadecimal digits
///   checksum and 16 hexadecimal digits, XXH3 of all before it
/// A file is believed only when all of it is as it should be, and its algorithm is still taken; what is wrong with one costs a notice and
/// the time to verify and to write it anew, never the run. Thread-safe; one object serves all devices.
class ProductVerdicts {
 public:
  struct Counts {
    std::size_t made = 0;    ///< Verdicts that were found by trial.
    std::size_t read = 0;    ///< Those that came from a file.
    std::size_t stored = 0;  ///< Those for which a file was written.
  };
  using Make = std::function<Result<ProductVerdict>()>;
  using Usable = std::function<Result<bool>(const ProductVerdict&)>;

  /// Without a folder there are no files. The folder is made when a file is to be written. `notice`, if any, hears of files that are no
  /// good or cannot be written.
  explicit ProductVerdicts(std::string folder = "", std::function<void(const std::string&)> notice = {});

  /// The verdict that is known and usable, else a new one. Those who ask for the same key meanwhile wait, and get that; the functions run
  /// one at a time for a key. Errors: those of the functions; then the next who asks makes it.
  Result<ProductVerdict> get(const std::string& key, const Usable& usable, const Make& make);
  [[nodiscard]] Counts counts() const;

 private:
  struct Entry {
    std::mutex mutex;
    std::optional<ProductVerdict> verdict;  ///< Under it.
  };
  Result<std::optional<ProductVerdict>> from_file(const std::string& path, const std::string& key, const Usable& usable);
  void to_file(const std::string& path, const std::string& key, const ProductVerdict& verdict);
  void say(const std::string& path, const std::string& what);

  std::string folder_;
  std::function<void(const std::string&)> notice_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  Counts counts_;
};

}  // namespace kime::cuda
