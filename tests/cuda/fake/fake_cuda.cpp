#include "tests/cuda/fake/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kime/backend/cuda/errors.h"
#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

namespace {

std::atomic<FakeCudaState*> installed{nullptr};

// A thread's current context, of the fake that it was set with.
struct Current {
  FakeCudaState* state = nullptr;
  std::uint64_t context = 0;
};
thread_local Current current;

// The fault that strikes now, if one does.
std::optional<FakeFault> strike(FakeCudaState& state, const char* name) {
  std::optional<FakeFault> struck;
  const auto [begin, end] = state.faults.equal_range(name);
  for (auto fault = begin; fault != end;) {
    if (--fault->second.left == 0) {
      struck = fault->second;
      fault = state.faults.erase(fault);
    } else {
      ++fault;
    }
  }
  return struck;
}

std::shared_ptr<FakeContext> current_context(FakeCudaState& state) {
  if (current.state != &state) {
    return nullptr;
  }
  const auto found = state.contexts.find(current.context);
  return found == state.contexts.end() ? nullptr : found->second;
}

Code get_proc_address(const char* symbol, void** found, int version, unsigned long long /*flags*/, cuda::SymbolStatus* status) {
  const auto* state = installed.load();
  *found = nullptr;
  if (state != nullptr && version <= state->config.version &&
      std::ranges::find(state->config.without, symbol) == state->config.without.end()) {
    cuda::for_each_function(FakeCuda::api(), [&](std::string_view name, auto member) {
      if (name == symbol) {
        *found = reinterpret_cast<void*>(member);
      }
    });
  }
  if (status != nullptr) {
    *status = *found == nullptr ? cuda::SymbolStatus::not_found : cuda::SymbolStatus::found;
  }
  return *found == nullptr ? Code::not_found : Code::success;
}

Code old_get_proc_address(const char* symbol, void** found, int version, unsigned long long flags) {
  return get_proc_address(symbol, found, version, flags, nullptr);
}

}  // namespace

FakeCuda::FakeCuda(FakeCudaConfig config) : state_(std::make_unique<FakeCudaState>()) {
  state_->config = std::move(config);
  for (std::size_t gpu = 0; gpu < state_->config.gpus.size(); ++gpu) {
    state_->primaries.push_back(nullptr);
    state_->next_address.push_back(kDeviceBase + gpu * kDeviceRoom);
    state_->used.push_back(0);
  }
  FakeCudaState* none = nullptr;
  if (!installed.compare_exchange_strong(none, state_.get())) {
    std::abort();  // two at once
  }
}

FakeCuda::~FakeCuda() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    state_->held = false;
    for (auto& [id, stream] : state_->streams) {
      stream->closing = true;
      threads.push_back(std::move(stream->thread));
    }
    std::ranges::move(state_->ending, std::back_inserter(threads));
    state_->moved.notify_all();
  }
  for (auto& thread : threads) {
    thread.join();
  }
  installed = nullptr;
}

const cuda::DriverApi& FakeCuda::api() {
  static const cuda::DriverApi table = [] {
    cuda::DriverApi api;
    add_fake_devices(api);
    add_fake_memory(api);
    add_fake_streams(api);
    add_fake_kernels(api);
    add_fake_graphs(api);
    return api;
  }();
  return table;
}

void* FakeCuda::symbol(std::string_view name) {
  if (name == "cuDriverGetVersion") {
    return reinterpret_cast<void*>(api().driver_get_version);
  }
  if (name == "cuGetProcAddress_v2") {
    return reinterpret_cast<void*>(&get_proc_address);
  }
  return name == "cuGetProcAddress" ? reinterpret_cast<void*>(&old_get_proc_address) : nullptr;
}

void FakeCuda::add_kernel(const std::string& name, FakeKernel kernel) {
  const std::lock_guard lock(state_->mutex);
  state_->kernels[name] = std::move(kernel);
}

void FakeCuda::fail(const std::string& function, std::size_t nth, cuda::Code code) {
  const std::lock_guard lock(state_->mutex);
  state_->faults.emplace(function, FakeFault{nth, code, false});
}

void FakeCuda::fail_late(const std::string& function, std::size_t nth, cuda::Code code) {
  const std::lock_guard lock(state_->mutex);
  state_->faults.emplace(function, FakeFault{nth, code, true});
}

void FakeCuda::forget_faults() {
  const std::lock_guard lock(state_->mutex);
  state_->faults.clear();
}

std::size_t FakeCuda::calls(const std::string& function) {
  const std::lock_guard lock(state_->mutex);
  return state_->counts[function];
}

void FakeCuda::hold() {
  const std::lock_guard lock(state_->mutex);
  state_->held = true;
}

void FakeCuda::release() {
  const std::lock_guard lock(state_->mutex);
  state_->held = false;
  state_->moved.notify_all();
}

void FakeCuda::await_waiter() {
  std::unique_lock lock(state_->mutex);
  state_->moved.wait(lock, [&] { return state_->waiters > 0; });
}

std::vector<std::string> FakeCuda::violations() {
  const std::lock_guard lock(state_->mutex);
  return state_->broken;
}

std::size_t FakeCuda::used_bytes(std::size_t gpu) {
  const std::lock_guard lock(state_->mutex);
  return state_->used[gpu];
}

std::size_t FakeCuda::host_bytes() {
  const std::lock_guard lock(state_->mutex);
  return state_->host_used;
}

std::size_t FakeCuda::handles() {
  const std::lock_guard lock(state_->mutex);
  std::size_t contexts = 0;
  for (const auto& context : state_->primaries) {
    contexts += context ? context->references : 0;
  }
  return contexts + state_->streams.size() + state_->events.size() + state_->modules.size() + state_->graphs.size() + state_->execs.size();
}

std::byte* FakeCudaState::reach(const FakeContext& context, DeviceAddress address, std::size_t bytes, std::shared_ptr<FakeMemory>& keep) {
  const std::lock_guard lock(mutex);
  auto found = memory.upper_bound(address);
  if (found == memory.begin()) {
    violation("an address that was never given out");
    return nullptr;
  }
  --found;
  const DeviceAddress offset = address - found->first;
  FakeMemory& block = *found->second;
  if (offset > block.bytes || bytes > block.bytes - offset) {
    violation("memory used past its end, or after it was freed");
    return nullptr;
  }
  if (block.gpu >= 0 && block.gpu != context.gpu && !context.peers.contains(block.gpu)) {
    violation("memory of another device, to which there is no access");
    return nullptr;
  }
  keep = found->second;
  return block.data() + offset;
}

void FakeCudaState::poison(std::unique_lock<std::mutex>& lock, const std::shared_ptr<FakeContext>& context, Code code) {
  if (context->dying == Code::success) {
    context->dying = code;
  }
  moved.notify_all();
  moved.wait(lock, [&] {
    return std::ranges::none_of(streams, [&](const auto& each) { return each.second->context == context && each.second->busy; });
  });
  context->sticky = context->dying;
  moved.notify_all();
}

bool FakeCudaState::idle(const FakeContext& context) const {
  return std::ranges::all_of(streams, [&](const auto& each) {
    return each.second->context.get() != &context || (each.second->work.empty() && !each.second->busy);
  });
}

Code fake_call(const char* name, FakeNeeds needs, const std::function<Code(FakeCall&)>& body) {
  FakeCudaState* state = installed.load();
  if (state == nullptr) {
    return Code::deinitialized;
  }
  std::unique_lock lock(state->mutex);
  ++state->counts[name];
  FakeCall call{*state, lock, name, current_context(*state), {}};
  if (const auto fault = strike(*state, name)) {
    if (!fault->late) {
      if (cuda::is_sticky(fault->code) && call.context) {
        state->poison(lock, call.context, fault->code);
      }
      return fault->code;
    }
    call.late = fault->code;
  }
  if (needs != FakeNeeds::nothing && !state->initialized) {
    return Code::not_initialized;
  }
  if (needs == FakeNeeds::context) {
    if (!call.context) {
      state->violation(std::string(name) + " without a current context");
      return Code::invalid_context;
    }
    if (call.context->references == 0) {
      return Code::context_is_destroyed;
    }
    if (call.context->sticky != Code::success) {
      return call.context->sticky;
    }
  }
  return body(call);
}

void fake_set_current(FakeCudaState& state, std::uint64_t context) {
  current = {&state, context};
}

}  // namespace kime::test
