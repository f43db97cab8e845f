#include "kime/backend/cuda/blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>
#include <vector>

namespace kime::cuda {

Result<BlasLibrary> resolve_blas(const Symbols& symbols, const std::string& name) {
  BlasLibrary library;
  std::vector<std::string_view> lacking;
  for_each_blas_function(library.api, [&](const char* function, auto& member) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(symbols(function));
    if (member == nullptr) {
      lacking.emplace_back(function);
    }
  });
  if (!lacking.empty()) {
    return Error(ErrorKind::device,
                 fmt::format("{} lacks the function{} {}", name, lacking.size() == 1 ? "" : "s", fmt::join(lacking, ", ")));
  }
  library.version = cublaslt_version(library.api.get_version());
  return library;
}

Result<BlasLibrary> open_blas(const CublasLt& found) {
  void* handle = dlopen(found.name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Error(ErrorKind::device, fmt::format("cuBLASLt cannot be loaded: {}", why == nullptr ? "no reason is given" : why));
  }
  return resolve_blas([handle](const char* name) { return dlsym(handle, name); }, found.name);
}

BlasLibrary start_blas(const BlasApi& api) {
  return {api, cublaslt_version(api.get_version())};
}

Error blas_error(const BlasApi& api, std::string_view function, BlasStatus status) {
  const char* name = api.get_status_name(status);
  return {ErrorKind::device,
          name == nullptr ? fmt::format("{}: status {}", function, static_cast<unsigned>(status)) : fmt::format("{}: {}", function, name)};
}

Status blas_check(const BlasApi& api, std::string_view function, BlasStatus status) {
  if (status == BlasStatus::success) {
    return {};
  }
  return blas_error(api, function, status);
}

}  // namespace kime::cuda
