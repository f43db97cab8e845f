#include "tests/support/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace kime::test {

namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

double product(const Row& x, const float* weights) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * static_cast<double>(weights[i]);
  }
  return sum;
}

class Model {
 public:
  Model(const ModelConfig& config, const RandomWeights& weights) : config_(config), weights_(weights) {}

  // The hidden states after the head.
  [[nodiscard]] Rows hidden(std::span<const std::uint32_t> ids, std::uint8_t type) const {
    Rows h;
    for (const std::uint32_t id : ids) {
      h.push_back(norm(table_row("encoder.embeddings.tok_embeddings.weight", id), "encoder.embeddings.norm", false));
    }
    for (std::size_t i = 0; i < config_.layers.size(); ++i) {
      encoder_layer(h, i);
    }
    for (Row& row : h) {
      row = norm(row, "encoder.final_norm", false);
      add(row, table_row("type_emb.weight", type));
    }
    for (std::size_t i = 0; i < config_.head_layers; ++i) {
      head_layer(h, i);
    }
    return h;
  }

  [[nodiscard]] double score(const Row& marked) const {
    return linear(map(linear(norm(marked, "scorer.0", true), "scorer.1"), gelu), "scorer.3")[0];
  }

  [[nodiscard]] std::array<double, 2> act(const Row& first, const Row& logits) const {
    Row x = first;
    const Row features = act_features(logits);
    x.insert(x.end(), features.begin(), features.end());
    const Row out = linear(map(linear(x, "act_head.0"), gelu), "act_head.2");
    return {out[0], out[1]};
  }

 private:
  static Row act_features(const Row& logits) {
    if (logits.empty()) {
      return {0, 0, 0, 0};
    }
    double largest = logits[0];
    for (const double x : logits) {
      largest = std::max(largest, x);
    }
    Row p = map(logits, [&](double x) { return std::exp(x - largest); });
    double sum = 0;
    for (const double x : p) {
      sum += x;
    }
    double entropy = 0;
    for (double& x : p) {
      x /= sum;
      entropy -= x * std::log(std::max(x, 1e-9));
    }
    std::sort(p.rbegin(), p.rend());
    const double options = std::max(2.0, static_cast<double>(logits.size()));
    return {p[0], p[0] - (p.size() > 1 ? p[1] : 0), entropy / std::log(options), options / 255};
  }

  static void add(Row& row, const Row& other) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] += other[i];
    }
  }
  template <class F>
  static Row map(Row row, F f) {
    for (double& x : row) {
      x = f(x);
    }
    return row;
  }

  [[nodiscard]] Row table_row(const std::string& name, std::size_t row) const {
    const auto& values = weights_[name];
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(row * config_.hidden);
    return {at, at + static_cast<std::ptrdiff_t>(config_.hidden)};
  }

  [[nodiscard]] Row norm(const Row& row, const std::string& name, bool biased) const {
    double mean = 0;
    for (const double x : row) {
      mean += x / static_cast<double>(row.size());
    }
    double variance = 0;
    for (const double x : row) {
      variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
    }
    const double eps = biased ? ModelConfig::head_eps : config_.norm_eps;  // the head's norms are those with a bias
    const auto& weight = weights_[name + ".weight"];
    Row out;
    for (std::size_t i = 0; i < row.size(); ++i) {
      out.push_back((row[i] - mean) / std::sqrt(variance + eps) * weight[i] + (biased ? weights_[name + ".bias"][i] : 0.0F));
    }
    return out;
  }

  // W x, W being all rows of a weight.
  [[nodiscard]] Row matrix(const Row& x, const std::string& name) const {
    const auto& weight = weights_[name];
    Row out;
    for (std::size_t i = 0; i < weight.size(); i += x.size()) {
      out.push_back(product(x, weight.data() + i));
    }
    return out;
  }
  [[nodiscard]] Row biased(Row x, const std::string& name) const {
    const auto& bias = weights_[name];
    add(x, Row(bias.begin(), bias.end()));
    return x;
  }
  [[nodiscard]] Row linear(const Row& x, const std::string& name) const { return biased(matrix(x, name + ".weight"), name + ".bias"); }

  // Elements i and i + half of each head turn by the angle of the position.
  static void rope(Row& row, std::size_t column, std::size_t width, std::size_t position, float theta) {
    const std::size_t half = width / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
      const auto power = static_cast<float>(std::pow(static_cast<double>(theta), static_cast<double>(exponent)));
      const double angle = static_cast<float>(position) * (1.0F / power);  // in float32, as the model was trained
      const double lo = row[column + i];
      const double hi = row[column + half + i];
      row[column + i] = lo * std::cos(angle) - hi * std::sin(angle);
      row[column + half + i] = hi * std::cos(angle) + lo * std::sin(angle);
    }
  }

  // Rows of [q k v] become rows of attention's output.
  [[nodiscard]] Rows attention(const Rows& qkv, std::size_t heads, std::size_t reach) const {
    const std::size_t d = config_.hidden;
    const std::size_t width = d / heads;
    Rows out(qkv.size(), Row(d, 0.0));
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t q = head * width;
      const std::size_t k = d + q;
      const std::size_t v = 2 * d + q;
      for (std::size_t i = 0; i < qkv.size(); ++i) {
        Row p(qkv.size(), 0.0);
        double largest = -HUGE_VAL;
        const auto visible = [&](std::size_t j) { return (i > j ? i - j : j - i) <= reach; };
        for (std::size_t j = 0; j < qkv.size(); ++j) {
          for (std::size_t c = 0; c < width; ++c) {
            p[j] += qkv[i][q + c] * qkv[j][k + c] / std::sqrt(static_cast<double>(width));
          }
          largest = visible(j) ? std::max(largest, p[j]) : largest;
        }
        double sum = 0;
        for (std::size_t j = 0; j < qkv.size(); ++j) {
          p[j] = visible(j) ? std::exp(p[j] - largest) : 0;
          sum += p[j];
        }
        for (std::size_t j = 0; j < qkv.size(); ++j) {
          for (std::size_t c = 0; c < width; ++c) {
            out[i][q + c] += p[j] / sum * qkv[j][v + c];
          }
        }
      }
    }
    return out;
  }

  void encoder_layer(Rows& h, std::size_t index) const {
    const std::string name = "encoder.layers." + std::to_string(index);
    const bool full = config_.layers[index].full;
    Rows qkv;
    for (std::size_t i = 0; i < h.size(); ++i) {
      qkv.push_back(matrix(index == 0 ? h[i] : norm(h[i], name + ".attn_norm", false), name + ".attn.Wqkv.weight"));
      for (std::size_t column = 0; column < 2 * config_.hidden; column += config_.head_width()) {
        rope(qkv[i], column, config_.head_width(), i, full ? config_.theta_full : config_.theta_local);
      }
    }
    const Rows attended = attention(qkv, config_.heads, full ? SIZE_MAX : config_.window / 2);
    for (std::size_t i = 0; i < h.size(); ++i) {
      add(h[i], matrix(attended[i], name + ".attn.Wo.weight"));
      const Row ag = matrix(norm(h[i], name + ".mlp_norm", false), name + ".mlp.Wi.weight");
      Row wide;
      for (std::size_t c = 0; c < config_.intermediate; ++c) {
        wide.push_back(gelu(ag[c]) * ag[config_.intermediate + c]);
      }
      add(h[i], matrix(wide, name + ".mlp.Wo.weight"));
    }
  }

  void head_layer(Rows& h, std::size_t index) const {
    const std::string name = "head.layers." + std::to_string(index);
    Rows qkv;
    for (const Row& row : h) {
      qkv.push_back(biased(matrix(norm(row, name + ".norm1", true), name + ".self_attn.in_proj_weight"), name + ".self_attn.in_proj_bias"));
    }
    const Rows attended = attention(qkv, config_.decision_heads(), SIZE_MAX);
    for (std::size_t i = 0; i < h.size(); ++i) {
      add(h[i], linear(attended[i], name + ".self_attn.out_proj"));
      const Row wide = map(linear(norm(h[i], name + ".norm2", true), name + ".linear1"), [](double x) { return std::max(x, 0.0); });
      add(h[i], linear(wide, name + ".linear2"));
    }
  }

  const ModelConfig& config_;
  const RandomWeights& weights_;
};

}  // namespace

ReferenceOutputs reference_model(const ModelConfig& config, const RandomWeights& weights, const Batch& batch) {
  const Model model(config, weights);
  ReferenceOutputs outputs;
  for (std::size_t s = 0; s < batch.seqs(); ++s) {
    const Rows h = model.hidden(batch.ids.subspan(batch.cu[s], batch.cu[s + 1] - batch.cu[s]), batch.qtype[s]);
    Row logits;
    for (std::size_t m = batch.mcu[s]; m < batch.mcu[s + 1]; ++m) {
      logits.push_back(model.score(h[batch.markers[m]]));
    }
    outputs.logits.insert(outputs.logits.end(), logits.begin(), logits.end());
    outputs.act.push_back(model.act(h.empty() ? Row(config.hidden, 0.0) : h[0], logits));
  }
  return outputs;
}

double distance(const Outputs& got, const ReferenceOutputs& want) {
  if (got.logits.size() != want.logits.size() || got.act.size() != want.act.size()) {
    return HUGE_VAL;
  }
  double difference = 0;
  double largest = 1;
  const auto compare = [&](float a, double b) {
    difference = std::isnan(a) ? HUGE_VAL : std::max(difference, std::abs(static_cast<double>(a) - b));
    largest = std::max(largest, std::abs(b));
  };
  for (std::size_t i = 0; i < want.logits.size(); ++i) {
    compare(got.logits[i], want.logits[i]);
  }
  for (std::size_t i = 0; i < want.act.size(); ++i) {
    compare(got.act[i][0], want.act[i][0]);
    compare(got.act[i][1], want.act[i][1]);
  }
  return difference / largest;
}

}  // namespace kime::test
