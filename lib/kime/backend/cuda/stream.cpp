#include "kime/backend/cuda/stream.h"

#include <utility>

namespace kime::cuda {

Result<std::unique_ptr<Stream>> Stream::make(std::size_t ordinal, std::shared_ptr<DeviceContext> context) {
  if (auto bound = context->bind(); !bound) {
    return std::move(bound).error();
  }
  StreamHandle handle = nullptr;
  if (auto made = context->check("cuStreamCreate", context->api().stream_create(&handle, kStreamNonBlocking)); !made) {
    return std::move(made).error();
  }
  return std::make_unique<Stream>(ordinal, std::move(context), handle);
}

Stream::~Stream() {
  if (!relays_.empty() && context_->bind()) {
    static_cast<void>(context_->api().stream_synchronize(handle_));  // it may still empty their pinned memory
  }
  relays_.clear();
  if (context_->bind()) {
    static_cast<void>(context_->api().stream_destroy(handle_));
  }
}

Status Stream::record(Ticket ticket) {
  if (auto bound = context_->bind(); !bound) {
    return bound;
  }
  return marks_.record(handle_, ticket, std::exchange(source_, nullptr));
}

Status Stream::copy_staged(const std::shared_ptr<DeviceContext>& source, DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  auto& relay = relays_[source.get()];
  if (!relay) {
    auto made = Relay::make(source, context_);
    if (!made) {
      return std::move(made).error();
    }
    relay = *std::move(made);
  }
  auto copied = relay->copy(handle_, to, from, bytes);
  source_ = relay->left();
  return copied;
}

}  // namespace kime::cuda
