// The driver's library and cuBLASLt, opened at run time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kime/backend/cuda/api.h"
#include "kime/base/error.h"

namespace kime::cuda {

/// Where an exported function is; null where there is none of this name.
using Symbols = std::function<void*(const char* name)>;

/// A driver that is ready: its version will do, every function is there, and cuInit has succeeded.
struct DriverLibrary {
  DriverApi api;
  int version = 0;  ///< As kNeededVersion counts.
};

/// Asks for the version, resolves each function for version 12.4 and initializes the driver. `name` is the library's, for messages.
/// Errors: `device`, one sentence: too old, a function that is missing, or cuInit's error by its own name and text.
Result<DriverLibrary> resolve_driver(const Symbols& symbols, const std::string& name);

/// A table that is resolved already: asks for its version and calls cuInit. Errors: as above.
Result<DriverLibrary> start_driver(const DriverApi& api);

/// Opens the library, for the rest of the process, and resolves it. Errors: `device`: there is none, or as above.
Result<DriverLibrary> open_driver(const std::string& name);

struct CublasLt {
  std::string name;     ///< Of the library.
  std::string version;  ///< "12.4.5".
};

/// "12.4.5" of 120405, as the library counts.
[[nodiscard]] std::string cublaslt_version(std::size_t version);

/// The first of the libraries that is there. Errors: `device`: none is, or it does not say its version.
Result<CublasLt> find_cublaslt(const std::vector<std::string>& names);

}  // namespace kime::cuda
