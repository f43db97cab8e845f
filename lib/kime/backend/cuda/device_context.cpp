#include "kime/backend/cuda/device_context.h"

#include "kime/backend/cuda/errors.h"

namespace kime::cuda {

DeviceContext::~DeviceContext() {
  if (made()) {
    static_cast<void>(api_->primary_ctx_release(facts_.number));
  }
}

Status DeviceContext::bind() {
  if (!made()) {
    ContextHandle retained = nullptr;
    const std::lock_guard lock(making_);
    if (handle_ == nullptr) {
      if (const Code code = api_->primary_ctx_retain(&retained, facts_.number); code != Code::success) {
        return error_of(*api_, "cuDevicePrimaryCtxRetain", code);
      }
      handle_ = retained;
    }
  }
  return check("cuCtxSetCurrent", api_->ctx_set_current(handle_));
}

Status DeviceContext::check(std::string_view function, Code code) {
  if (code == Code::success) {
    return {};
  }
  Error error = error_of(*api_, function, code);
  if (is_sticky(code)) {
    const std::lock_guard lock(making_);
    if (!dead_) {
      died_of_ = error.message();
      dead_ = true;
    }
  }
  return error;
}

std::string DeviceContext::died_of() {
  const std::lock_guard lock(making_);
  return died_of_;
}

}  // namespace kime::cuda
