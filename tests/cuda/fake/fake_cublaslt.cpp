#include "tests/cuda/fake/fake_cublaslt.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "tests/cuda/fake/fake_product.h"
#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

using cuda::BlasStatus;
using cuda::BlasType;

namespace {

struct Desc {
  cuda::BlasCompute compute = cuda::BlasCompute::f32;
  BlasType scale = BlasType::f32;
  cuda::BlasOperation a = cuda::BlasOperation::none;
  cuda::BlasOperation b = cuda::BlasOperation::none;
};

struct Layout {
  BlasType type = BlasType::f32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
};

constexpr std::uint64_t kAlgoMark = 0xFA4EA160;  // stands first in an algorithm of this library's

}  // namespace

struct FakeBlasState {
  explicit FakeBlasState(FakeBlasConfig given) : config(std::make_shared<const FakeBlasConfig>(std::move(given))) {}
  const std::shared_ptr<const FakeBlasConfig> config;  // kept by work that is still to be done
  // Under the driver's mutex, as every call holds it:
  std::map<std::uint64_t, std::shared_ptr<FakeContext>> handles;
  std::map<std::uint64_t, Desc> descs;
  std::map<std::uint64_t, Layout> layouts;
  std::map<std::uint64_t, FakeAsked> preferences;
  std::vector<FakeAsked> asked;
  std::set<std::tuple<const FakeContext*, const FakeAlgorithm*, std::size_t, std::size_t, std::size_t>> loaded;  // by context and shape
};

namespace {

std::atomic<FakeBlasState*> library{nullptr};

BlasStatus status_of(Code code) {
  switch (code) {
    case Code::success:
      return BlasStatus::success;
    case Code::out_of_memory:
      return BlasStatus::alloc_failed;
    case Code::invalid_value:
      return BlasStatus::invalid_value;
    case Code::not_supported:
      return BlasStatus::not_supported;
    case Code::not_initialized:
    case Code::deinitialized:
    case Code::invalid_context:
      return BlasStatus::not_initialized;
    default:
      return BlasStatus::execution_failed;
  }
}

// The frame of every function.
BlasStatus blas_call(const char* name, FakeNeeds needs, const std::function<BlasStatus(FakeBlasState&, FakeCall&)>& body) {
  FakeBlasState* blas = library.load();
  if (blas == nullptr) {
    return BlasStatus::not_initialized;
  }
  BlasStatus status = BlasStatus::success;
  const Code code = fake_call(name, needs, [&](FakeCall& call) {
    status = body(*blas, call);
    return Code::success;
  });
  return code == Code::success ? status : status_of(code);
}

// Destroys one of the library's objects.
template <class Handle, class Objects>
BlasStatus destroy(const char* name, Handle object, Objects FakeBlasState::*all) {
  return blas_call(name, FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall& call) {
    if ((blas.*all).erase(number(object)) != 1) {
      call.state.violation(std::string(name) + " of what is not there");
      return BlasStatus::invalid_value;
    }
    return BlasStatus::success;
  });
}

template <class Value>
bool take(Value& to, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(to)) {
    return false;
  }
  std::memcpy(&to, from, bytes);
  return true;
}

std::shared_ptr<const FakeAlgorithm> algorithm_of(const FakeBlasState& blas, const cuda::BlasAlgo& algo) {
  const auto& all = blas.config->algorithms;
  const bool known = algo.data[0] == kAlgoMark && algo.data[1] < all.size();
  return known ? std::shared_ptr<const FakeAlgorithm>(blas.config, &all[algo.data[1]]) : nullptr;
}

// The product that descriptors mean; false where they mean none.
struct Descriptors {
  cuda::BlasDescHandle desc;
  cuda::BlasLayoutHandle w;
  cuda::BlasLayoutHandle a;
  cuda::BlasLayoutHandle c;
  cuda::BlasLayoutHandle d;
};
bool product_of(const FakeBlasState& blas, const Descriptors& given, FakeProduct& product) {
  const auto desc = blas.descs.find(number(given.desc));
  const auto find = [&](cuda::BlasLayoutHandle layout) { return blas.layouts.find(number(layout)); };
  const auto none = blas.layouts.end();
  if (desc == blas.descs.end() || find(given.w) == none || find(given.a) == none || find(given.c) == none || given.c != given.d) {
    return false;
  }
  const Layout& w = find(given.w)->second;
  const Layout& a = find(given.a)->second;
  const Layout& c = find(given.c)->second;
  product.type = w.type;
  product.out = c.type;
  product.n = w.columns;
  product.k = w.rows;
  product.m = a.columns;
  product.ld_w = static_cast<std::size_t>(w.leading);
  product.ld_a = static_cast<std::size_t>(a.leading);
  product.ld_c = static_cast<std::size_t>(c.leading);
  return desc->second.compute == cuda::BlasCompute::f32 && desc->second.scale == BlasType::f32 &&
         desc->second.a == cuda::BlasOperation::transpose && desc->second.b == cuda::BlasOperation::none && w.type != BlasType::f32 &&
         a.type == w.type && (c.type == a.type || c.type == BlasType::f32) && a.rows == w.rows && c.rows == w.columns &&
         c.columns == a.columns;
}

void add_descriptors(cuda::BlasApi& api) {
  api.desc_create = [](cuda::BlasDescHandle* desc, cuda::BlasCompute compute, BlasType scale) {
    return blas_call("cublasLtMatmulDescCreate", FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall& call) {
      const std::uint64_t id = call.state.new_handle();
      blas.descs[id] = {.compute = compute, .scale = scale};
      *desc = handle<cuda::BlasDescHandle>(id);
      return BlasStatus::success;
    });
  };
  api.desc_destroy = [](cuda::BlasDescHandle desc) { return destroy("cublasLtMatmulDescDestroy", desc, &FakeBlasState::descs); };
  api.desc_set = [](cuda::BlasDescHandle desc, cuda::BlasDescAttribute attribute, const void* value, std::size_t bytes) {
    return blas_call("cublasLtMatmulDescSetAttribute", FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall&) {
      const auto found = blas.descs.find(number(desc));
      if (found == blas.descs.end()) {
        return BlasStatus::invalid_value;
      }
      auto& operation = attribute == cuda::BlasDescAttribute::transpose_a ? found->second.a : found->second.b;
      return take(operation, value, bytes) ? BlasStatus::success : BlasStatus::invalid_value;
    });
  };
  api.layout_create = [](cuda::BlasLayoutHandle* layout, BlasType type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    return blas_call("cublasLtMatrixLayoutCreate", FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall& call) {
      if (rows == 0 || columns == 0 || leading < static_cast<std::int64_t>(rows)) {
        return BlasStatus::invalid_value;
      }
      const std::uint64_t id = call.state.new_handle();
      blas.layouts[id] = {type, rows, columns, leading};
      *layout = handle<cuda::BlasLayoutHandle>(id);
      return BlasStatus::success;
    });
  };
  api.layout_destroy = [](cuda::BlasLayoutHandle layout) {
    return destroy("cublasLtMatrixLayoutDestroy", layout, &FakeBlasState::layouts);
  };
}

void add_preferences(cuda::BlasApi& api) {
  api.preference_create = [](cuda::BlasPreferenceHandle* preference) {
    return blas_call("cublasLtMatmulPreferenceCreate", FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall& call) {
      const std::uint64_t id = call.state.new_handle();
      blas.preferences[id] = {};
      *preference = handle<cuda::BlasPreferenceHandle>(id);
      return BlasStatus::success;
    });
  };
  api.preference_destroy = [](cuda::BlasPreferenceHandle preference) {
    return destroy("cublasLtMatmulPreferenceDestroy", preference, &FakeBlasState::preferences);
  };
  api.preference_set = [](cuda::BlasPreferenceHandle preference, cuda::BlasPreferenceAttribute attribute, const void* value,
                          std::size_t bytes) {
    return blas_call("cublasLtMatmulPreferenceSetAttribute", FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall&) {
      using enum cuda::BlasPreferenceAttribute;
      const auto found = blas.preferences.find(number(preference));
      if (found == blas.preferences.end()) {
        return BlasStatus::invalid_value;
      }
      FakeAsked& asked = found->second;
      const bool taken = attribute == max_workspace_bytes     ? take(asked.workspace_bytes, value, bytes)
                         : attribute == reduction_scheme_mask ? take(asked.reduction_mask, value, bytes)
                                                              : take(asked.alignments.emplace_back(), value, bytes);
      return taken ? BlasStatus::success : BlasStatus::invalid_value;
    });
  };
}

void add_algorithms(cuda::BlasApi& api) {
  api.algo_get_heuristic = [](cuda::BlasHandle blas_handle, cuda::BlasDescHandle desc, cuda::BlasLayoutHandle a, cuda::BlasLayoutHandle b,
                              cuda::BlasLayoutHandle c, cuda::BlasLayoutHandle d, cuda::BlasPreferenceHandle preference, int wanted,
                              cuda::BlasHeuristic* found, int* count) {
    return blas_call("cublasLtMatmulAlgoGetHeuristic", FakeNeeds::context, [&](FakeBlasState& blas, FakeCall&) {
      FakeProduct product;
      const auto preferred = blas.preferences.find(number(preference));
      if (!blas.handles.contains(number(blas_handle)) || preferred == blas.preferences.end() ||
          !product_of(blas, {desc, a, b, c, d}, product)) {
        return BlasStatus::invalid_value;
      }
      blas.asked.push_back(preferred->second);
      blas.asked.back().rows = product.m;
      const auto& all = blas.config->algorithms;
      *count = std::min(wanted, static_cast<int>(all.size()));
      for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
        found[i] = {.algo = {{kAlgoMark, i}}, .workspace_bytes = all[i].workspace_bytes, .state = all[i].state};
      }
      return *count > 0 ? BlasStatus::success : BlasStatus::not_supported;
    });
  };
  api.algo_config_get = [](const cuda::BlasAlgo* algo, cuda::BlasAlgoAttribute attribute, void* value, std::size_t bytes,
                           std::size_t* written) {
    return blas_call("cublasLtMatmulAlgoConfigGetAttribute", FakeNeeds::nothing, [&](FakeBlasState& blas, FakeCall&) {
      const auto known = algorithm_of(blas, *algo);
      if (known == nullptr || bytes != 4) {
        return BlasStatus::invalid_value;
      }
      const void* from = attribute == cuda::BlasAlgoAttribute::split_k ? static_cast<const void*>(&known->split_k) : &known->reduction;
      std::memcpy(value, from, bytes);
      *written = bytes;
      return BlasStatus::success;
    });
  };
  api.algo_check = [](cuda::BlasHandle blas_handle, cuda::BlasDescHandle desc, cuda::BlasLayoutHandle a, cuda::BlasLayoutHandle b,
                      cuda::BlasLayoutHandle c, cuda::BlasLayoutHandle d, const cuda::BlasAlgo* algo, cuda::BlasHeuristic* result) {
    return blas_call("cublasLtMatmulAlgoCheck", FakeNeeds::context, [&](FakeBlasState& blas, FakeCall&) {
      FakeProduct product;
      const auto known = algorithm_of(blas, *algo);
      if (!blas.handles.contains(number(blas_handle)) || known == nullptr || !product_of(blas, {desc, a, b, c, d}, product)) {
        return BlasStatus::invalid_value;
      }
      *result = {.algo = *algo, .workspace_bytes = known->workspace_bytes};
      return known->takes && !known->takes(product.m) ? BlasStatus::not_supported : BlasStatus::success;
    });
  };
}

// What a product reads and writes, and its workspace.
struct Places {
  DeviceAddress a;
  DeviceAddress w;
  DeviceAddress c;
  DeviceAddress workspace;
  std::size_t workspace_bytes;
};

FakeWork multiplying(FakeCall& call, const FakeProduct& product, const Places& places) {
  return [&state = call.state, context = call.context, product, places] {
    const auto extent = [](std::size_t rows, std::size_t leading, std::size_t columns, std::size_t bytes) {
      return ((rows - 1) * leading + columns) * bytes;
    };
    std::shared_ptr<FakeMemory> keep[4];
    const auto* a = state.reach(*context, places.a, extent(product.m, product.ld_a, product.k, 2), keep[0]);
    const auto* w = state.reach(*context, places.w, extent(product.n, product.ld_w, product.k, 2), keep[1]);
    auto* c = state.reach(*context, places.c, extent(product.m, product.ld_c, product.n, product.out_bytes()), keep[2]);
    const auto* workspace = state.reach(*context, places.workspace, places.workspace_bytes, keep[3]);
    if (a == nullptr || w == nullptr || c == nullptr || workspace == nullptr) {
      return Code::illegal_address;
    }
    product.compute(a, w, c);
    return Code::success;
  };
}

void add_matmul(cuda::BlasApi& api) {
  api.matmul = [](cuda::BlasHandle blas_handle, cuda::BlasDescHandle desc, const void* alpha, const void* a,
                  cuda::BlasLayoutHandle a_layout, const void* b, cuda::BlasLayoutHandle b_layout, const void* beta, const void* c,
                  cuda::BlasLayoutHandle c_layout, void* d, cuda::BlasLayoutHandle d_layout, const cuda::BlasAlgo* algo, void* workspace,
                  std::size_t workspace_bytes, cuda::StreamHandle stream) {
    return blas_call("cublasLtMatmul", FakeNeeds::context, [&](FakeBlasState& blas, FakeCall& call) {
      FakeProduct product;
      product.algorithm = algorithm_of(blas, *algo);
      const auto found = blas.handles.find(number(blas_handle));
      if (found == blas.handles.end() || product.algorithm == nullptr || c != d ||
          !product_of(blas, {desc, a_layout, b_layout, c_layout, d_layout}, product)) {
        return BlasStatus::invalid_value;
      }
      if (found->second != call.context) {
        call.state.violation("a cuBLASLt handle in a context that is not its own");
        return BlasStatus::invalid_value;
      }
      float scale[2] = {};
      std::memcpy(&scale[0], alpha, sizeof(float));
      std::memcpy(&scale[1], beta, sizeof(float));
      product.added = scale[1] == 1;
      if (scale[0] != 1 || product.added != (product.out == BlasType::f32) || (!product.added && scale[1] != 0) ||
          (number(a) | number(b) | number(d)) % 16 != 0 || workspace_bytes < product.algorithm->workspace_bytes) {
        return BlasStatus::invalid_value;
      }
      if (product.algorithm->computes && !product.algorithm->computes(product.m)) {
        return BlasStatus::not_supported;
      }
      // The first time a kernel is loaded.
      if (blas.loaded.emplace(call.context.get(), product.algorithm.get(), product.m, product.n, product.k).second &&
          call.refused_in_capture()) {
        return BlasStatus::execution_failed;
      }
      const Places places{number(b), number(a), number(d), number(workspace), workspace_bytes};
      return status_of(call.enqueue(stream, multiplying(call, product, places)));
    });
  };
}

const char* name_of(BlasStatus status) {
  switch (status) {
    case BlasStatus::success:
      return "CUBLAS_STATUS_SUCCESS";
    case BlasStatus::not_initialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case BlasStatus::alloc_failed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case BlasStatus::invalid_value:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case BlasStatus::arch_mismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case BlasStatus::execution_failed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case BlasStatus::internal_error:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case BlasStatus::not_supported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return nullptr;
}

void add_start(cuda::BlasApi& api) {
  api.get_version = [] {
    const FakeBlasState* blas = library.load();
    return blas == nullptr ? FakeBlasConfig().version : blas->config->version;
  };
  api.get_status_name = name_of;
  api.create = [](cuda::BlasHandle* made) {
    return blas_call("cublasLtCreate", FakeNeeds::context, [&](FakeBlasState& blas, FakeCall& call) {
      if (call.refused_in_capture()) {
        return BlasStatus::alloc_failed;
      }
      const std::uint64_t id = call.state.new_handle();
      blas.handles[id] = call.context;
      *made = handle<cuda::BlasHandle>(id);
      return BlasStatus::success;
    });
  };
  api.destroy = [](cuda::BlasHandle blas_handle) { return destroy("cublasLtDestroy", blas_handle, &FakeBlasState::handles); };
}

}  // namespace

FakeBlas::FakeBlas(FakeBlasConfig config) : state_(std::make_unique<FakeBlasState>(std::move(config))) {
  FakeBlasState* none = nullptr;
  if (!library.compare_exchange_strong(none, state_.get())) {
    std::abort();  // two at once
  }
}

FakeBlas::~FakeBlas() {
  library = nullptr;
}

const cuda::BlasApi& FakeBlas::api() {
  static const cuda::BlasApi table = [] {
    cuda::BlasApi api;
    add_start(api);
    add_descriptors(api);
    add_preferences(api);
    add_algorithms(api);
    add_matmul(api);
    return api;
  }();
  return table;
}

std::size_t FakeBlas::objects() const {
  return state_->handles.size() + state_->descs.size() + state_->layouts.size() + state_->preferences.size();
}

const std::vector<FakeAsked>& FakeBlas::asked() const {
  return state_->asked;
}

}  // namespace kime::test
