// The model and its training: gradients against differences of the loss, the same bits on any threads, and
// what is refused before anything changes.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <set>
#include <thread>

#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/inspect/verify.hpp"
#include "heed/models/generate.hpp"

namespace {

using namespace heed;
using namespace heed::test;

struct GradientCheck {
  double error = 0;
  Index checked = 0;
  Index kinks = 0;  // where a relu's input changes its sign: there is no gradient to be compared with
};

/// The largest error of gradients against differences of the loss, f(x + h) - f(x - h) for two steps h
/// (Richardson's extrapolation), relative to the gradient, or to a thousandth of the largest if it is
/// smaller than that. Looks at no more than `most` numbers of each matrix.
template <class Loss>
GradientCheck check_gradients(GptTrainer<double>& trainer, Index most, const Loss& loss) {
  const bool has_kinks = trainer.model().config().activation == Activation::relu;
  const double step = has_kinks ? 0x1p-15 : 0x1p-13;
  const Gpt<double> gradients = trainer.gradients();  // a copy: a loss may overwrite them
  const std::vector<Parameter<double>>& weights = trainer.parameters();
  double largest = 0;
  gradients.for_each_parameter([&](const std::string&, const auto& matrix) {
    largest = std::max(largest, matrix.cwiseAbs().maxCoeff());
  });
  GradientCheck result;
  std::size_t p = 0;
  gradients.for_each_parameter([&](const std::string&, const auto& gradient) {
    const MatrixView<double>& value = weights[p++].value;
    for (Index n = 0; n < std::min(most, gradient.size()); ++n) {
      const Index at = n * 7919 % gradient.size();
      double& x = value.data[at];
      const double old = x;
      const auto difference = [&](double h) {
        x = old + h;
        const double above = loss();
        x = old - h;
        const double below = loss();
        x = old;
        return (above - below) / (2 * h);
      };
      const double near = difference(step);
      const double far = difference(2 * step);
      const double expected = (4 * near - far) / 3;
      const double found = gradient.data()[at];
      const double size = std::max({std::abs(found), std::abs(expected), largest / 1000});
      ++result.checked;
      if (has_kinks && std::abs(near - far) > 1e-6 * size) {
        ++result.kinks;
      } else {
        result.error = std::max(result.error, std::abs(found - expected) / size);
      }
    }
  });
  return result;
}

/// A trainer and its model, for a batch with other sequences and lengths than the configuration suggests.
template <class Scalar>
struct Case {
  GptConfig config;
  Gpt<Scalar> model;
  GptTrainerOptions options;
  TokenBatch batch;

  explicit Case(std::uint64_t seed, double dropout = 0) : Case(seed, drawn_config(seed), dropout) {}

 private:
  Case(std::uint64_t seed, GptConfig given, double dropout)
      : config((given.dropout = dropout, given)), model(stirred_model<Scalar>(config, seed)) {
    Random random(seed + 1000);
    options.batch_size = 1 + draw(random, 3);
    options.seq_len = config.context - draw(random, 2);
    batch = drawn_batch(options.batch_size * *options.seq_len, config.vocab_size, seed);
  }
};

/// Sizes that give several threads work within one sequence, and columns enough for several tasks.
GptConfig wide_config() {
  GptConfig config;
  config.vocab_size = 290;
  config.context = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.d_model = 64;
  config.bias = true;
  config.dropout = 0.1;
  return config;
}

const GptConfig small_config{.vocab_size = 10, .context = 8, .num_layers = 2, .num_heads = 2, .d_model = 16};

}  // namespace

TEST_CASE("with any options, the gradients of a model are the differences of its loss", "[gpt]") {
  constexpr std::uint64_t models = kSlowRun ? 8 : 60;
  std::set<std::string> seen;
  Index checked = 0;
  Index kinks = 0;
  for (std::uint64_t seed = 0; seed < models; ++seed) {
    Case<double> c(seed);
    CAPTURE(seed, config_to_json(c.config));
    GptTrainer<double> trainer(c.model, c.options);
    const double loss = trainer.loss_and_gradients(c.batch.inputs, c.batch.targets);
    REQUIRE(loss == trainer.loss(c.batch.inputs, c.batch.targets));
    const GradientCheck check = check_gradients(
        trainer, kSlowRun ? 5 : 16, [&] { return trainer.loss(c.batch.inputs, c.batch.targets); });
    REQUIRE(check.error <= 1e-6);
    checked += check.checked;
    kinks += check.kinks;
    seen.insert("depth " + std::to_string(c.config.num_layers));
    seen.insert("positions " + std::to_string(static_cast<int>(c.config.positions)));
    seen.insert("activation " + std::to_string(static_cast<int>(c.config.activation)) +
                (c.config.gated ? " gated" : ""));
    for (const auto& [name, value] : {std::pair{"tied", c.config.tied}, std::pair{"bias", c.config.bias},
                                      std::pair{"rms_norm", c.config.rms_norm},
                                      std::pair{"grouped", c.config.kv_heads() < c.config.num_heads}}) {
      seen.insert(name + std::to_string(value));
    }
  }
  if (!kSlowRun) {
    CHECK(seen.size() == 3 + 3 + 8 + 8);
    CHECK(kinks <= checked / 100);
  }
}

TEST_CASE("with dropout, the gradients are those of the loss with the same elements dropped", "[gpt]") {
  Index checked = 0;
  Index kinks = 0;
  for (std::uint64_t seed = 100; seed < (kSlowRun ? 102 : 112); ++seed) {
    Case<double> c(seed, 0.3);
    CAPTURE(seed, config_to_json(c.config));
    GptTrainer<double> trainer(c.model, c.options);
    const auto loss = [&] { return trainer.loss_and_gradients(c.batch.inputs, c.batch.targets); };
    const double first = loss();
    REQUIRE(first == loss());
    const GradientCheck check = check_gradients(trainer, kSlowRun ? 4 : 10, loss);
    REQUIRE(check.error <= 1e-6);
    checked += check.checked;
    kinks += check.kinks;
    REQUIRE(loss() == first);
    REQUIRE(trainer.loss(c.batch.inputs, c.batch.targets) != first);
    // Another step, and another seed, drop other elements; a rate of 0 moves no weight.
    trainer.step(c.batch.inputs, c.batch.targets, 0);
    REQUIRE(loss() != first);
    GptTrainerOptions other = c.options;
    other.dropout_seed = 2;
    REQUIRE(GptTrainer<double>(c.model, other).loss_and_gradients(c.batch.inputs, c.batch.targets) != first);
  }
  if (!kSlowRun) CHECK(kinks <= checked / 100);
}

TEST_CASE("a batch without a target has loss 0 and gradients 0", "[gpt]") {
  Case<double> c(1);
  std::fill(c.batch.targets.begin(), c.batch.targets.end(), kIgnoredTarget);
  GptTrainer<double> trainer(c.model, c.options);
  const TrainingStep step = trainer.step(c.batch.inputs, c.batch.targets, 0);
  CHECK(step.loss == 0);
  CHECK(step.gradient_norm == 0);
  for (const double gradient : numbers_of(trainer.gradients())) REQUIRE(gradient == 0);
}

TEMPLATE_TEST_CASE("the trainer's loss is the cross-entropy of the model's forward pass, to the bit", "[gpt]",
                   float, double) {
  ThreadPool pool(3);
  for (std::uint64_t seed = 200; seed < (kSlowRun ? 205 : 240); ++seed) {
    Case<TestType> c(seed, seed % 2 == 0 ? 0.5 : 0);
    CAPTURE(seed, config_to_json(c.config));
    GptTrainer<TestType> trainer(c.model, c.options, seed % 3 == 0 ? &pool : nullptr);
    const double loss = trainer.loss(c.batch.inputs, c.batch.targets);
    const Matrix<TestType> logits = c.model.forward(c.batch.inputs, c.options.batch_size);
    REQUIRE(loss == cross_entropy(logits, c.batch.targets));
    REQUIRE(same_bits(logits, c.model.forward(c.batch.inputs, c.options.batch_size, &pool)));
  }
}

TEST_CASE("rows of the tables that no token asks for reach neither loss nor gradients", "[gpt]") {
  GptConfig config = small_config;
  config.tied = false;
  Gpt<double> model = stirred_model<double>(config, 23);
  GptTrainer<double> trainer(model, {.batch_size = 2, .seq_len = 5});
  TokenBatch batch = drawn_batch(10, 10, 24);
  std::replace(batch.inputs.begin(), batch.inputs.end(), TokenId{7}, TokenId{6});
  const double loss = trainer.loss_and_gradients(batch.inputs, batch.targets);
  const std::vector<double> gradients = numbers_of(trainer.gradients());
  model.tokens.table.row(7).setConstant(kNaN<double>);
  model.positions.bottomRows(3).setConstant(kNaN<double>);
  CHECK(trainer.loss_and_gradients(batch.inputs, batch.targets) == loss);
  CHECK(numbers_of(trainer.gradients()) == gradients);
  CHECK(trainer.gradients().tokens.table.row(7).isZero(0));
  CHECK(trainer.gradients().positions.bottomRows(3).isZero(0));
}

TEST_CASE("the loss of several batches counts each target once", "[gpt]") {
  Case<double> c(4);
  const Index rows = std::ssize(c.batch.inputs);
  GptTrainer<double> trainer(c.model, c.options);
  std::vector<TokenBatch> batches;
  double sum = 0;
  Index counted = 0;
  for (std::uint64_t b = 0; b < 4; ++b) {
    TokenBatch batch = drawn_batch(rows, c.config.vocab_size, b);
    if (b == 1) std::fill(batch.targets.begin() + 1, batch.targets.end(), kIgnoredTarget);
    if (b == 2) std::fill(batch.targets.begin(), batch.targets.end(), kIgnoredTarget);
    const Index own = rows - std::count(batch.targets.begin(), batch.targets.end(), kIgnoredTarget);
    sum += trainer.loss(batch.inputs, batch.targets) * static_cast<double>(own);
    counted += own;
    batches.push_back(std::move(batch));
  }
  CHECK(std::abs(trainer.loss(batches) - sum / static_cast<double>(counted)) <= 1e-14);
  CHECK(trainer.loss(std::span<const TokenBatch>{}) == 0);
}

TEST_CASE("a step is the gradients, clipped together, and a step of the optimizer", "[gpt]") {
  for (const double clip_norm : {0.0, 0.01, 1e6}) {
    Case<double> c(5);
    c.options.clip_norm = clip_norm;
    GptTrainer<double> trainer(c.model, c.options);
    trainer.loss_and_gradients(c.batch.inputs, c.batch.targets);
    Gpt<double> model = c.model;
    Gpt<double> gradients = trainer.gradients();
    const auto weights = parameters(model, gradients);
    const double norm = gradient_norm(weights);
    AdamW<double> optimizer(weights, c.options.optimizer);
    const TrainingStep step = trainer.step(c.batch.inputs, c.batch.targets, 0.01);
    optimizer.step(weights, 0.01, clip_norm > 0 ? clip_factor(step.gradient_norm, clip_norm) : 1);
    CHECK(std::abs(step.gradient_norm - norm) <= 1e-14 * norm);
    CHECK(numbers_of(c.model) == numbers_of(model));
    CHECK(numbers_of(trainer.gradients()) == numbers_of(gradients));
    CHECK(trainer.optimizer().steps() == 1);
  }
}

TEMPLATE_TEST_CASE("a training has the same bits on any threads", "[gpt][threads]", float, double) {
  ThreadPool pools[] = {ThreadPool(2), ThreadPool(3), ThreadPool(8)};
  // With fewer sequences than threads the work is shared inside a sequence.
  for (const Index batch_size : {1, 3, 12}) {
    if (kSlowRun && batch_size == 3) continue;
    GptConfig config = wide_config();
    config.gated = batch_size == 3;
    config.tied = batch_size != 3;
    config.positions = batch_size == 1 ? PositionKind::rotary : PositionKind::learned;
    GptTrainerOptions options;
    options.batch_size = batch_size;
    options.seq_len = batch_size == 12 ? (kSlowRun ? 6 : 24) : (kSlowRun ? 24 : 90);
    std::vector<double> losses;
    std::deque<TrainingState<TestType>> states;
    for (Executor* executor : std::initializer_list<Executor*>{nullptr, &pools[0], &pools[1], &pools[2]}) {
      CAPTURE(batch_size, executor == nullptr ? 0 : executor->concurrency());
      Gpt<TestType> model = stirred_model<TestType>(config, 3, 0.1);
      GptTrainer<TestType> trainer(model, options, executor);
      std::vector<double> own;
      for (std::uint64_t step = 0; step < (kSlowRun ? 2 : 5); ++step) {
        const TokenBatch batch = drawn_batch(batch_size * *options.seq_len, config.vocab_size, step);
        const TrainingStep result = trainer.step(batch.inputs, batch.targets, 0.01);
        own.insert(own.end(), {result.loss, result.gradient_norm, trainer.loss(batch.inputs, batch.targets)});
      }
      states.emplace_back(trainer);
      if (losses.empty()) losses = own;
      REQUIRE(own == losses);
      REQUIRE(states.back().is(states.front()));
    }
  }
}

TEST_CASE("a smaller product never needs more memory: who reserves for the largest has enough", "[gpt]") {
  for (const Index depth : {Index{1}, Index{96}, Index{300}}) {
    std::size_t before = 0;
    for (Index rows = 1; rows <= 1200; ++rows) {
      const std::size_t bytes = product_workspace_bytes<float>(rows, depth, 512);
      REQUIRE(bytes >= before);
      before = bytes;
    }
  }
}

TEST_CASE("a step of any sizes stays within the trainer's memory",
          "[gpt]") {  // as the address sanitizer sees it
  ThreadPool pool(2);
  for (const auto& [batch_size, seq_len, d_model, vocab_size] :
       {std::tuple<Index, Index, Index, Index>{8, 64, 96, 512},
        {25, 32, 64, 130},
        {7, 97, 64, 65},
        {20, 50, 32, 400}}) {
    Random random(5);
    Gpt<float> model(
        {.vocab_size = vocab_size, .context = seq_len, .num_layers = 1, .num_heads = 2, .d_model = d_model},
        random);
    for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      GptTrainer<float> trainer(model, {.batch_size = batch_size}, executor);
      const TokenBatch batch = drawn_batch(batch_size * seq_len, vocab_size, 6);
      CHECK(std::isfinite(trainer.step(batch, 1e-3).loss));
    }
  }
}

TEST_CASE("a trainer follows its model to other memory, and refuses other sizes", "[gpt][errors]") {
  Gpt<double> model = stirred_model<double>(small_config, 31);
  GptTrainer<double> trainer(model, {.batch_size = 2, .seq_len = 5});
  const TokenBatch batch = drawn_batch(10, 10, 32);
  trainer.step(batch, 0.01);
  model = stirred_model<double>(small_config, 33);
  Gpt<double> same = model;
  GptTrainer<double> fresh(same, {.batch_size = 2, .seq_len = 5});
  CHECK(trainer.loss_and_gradients(batch.inputs, batch.targets) ==
        fresh.loss_and_gradients(batch.inputs, batch.targets));
  CHECK(numbers_of(trainer.gradients()) == numbers_of(fresh.gradients()));
  const Matrix<double> table = model.tokens.table;
  trainer.step(batch, 0.01);
  CHECK(!same_bits(table, model.tokens.table));

  const std::vector<TokenId> ids = drawn_ids(5, 10, 34);
  const auto refused = [&](auto change, const std::string& name) {
    Gpt<double> other = stirred_model<double>(small_config, 35);
    GptTrainer<double> own(other, {.batch_size = 2, .seq_len = 5});
    GptDecoder<double> decoder(other);
    change(other);
    CHECK(contains(message_of<ShapeError>([&] { own.step(batch, 0.01); }), name));
    CHECK(contains(message_of<ShapeError>([&] { other.forward(ids); }), name));
    CHECK(contains(message_of<ShapeError>([&] { other.attention_weights(ids, 0); }), name));
    CHECK(contains(message_of<ShapeError>([&] { decoder.read(ids); }), name));
    CHECK(contains(message_of<ShapeError>([&] { GptDecoder<double>{other}; }), name));
    CHECK(contains(message_of<ShapeError>([&] { GptTrainer<double>{other}; }), name));
  };
  using Model = Gpt<double>;
  refused([](Model& m) { m.tokens.table.setZero(20, 16); }, "tokens.table is 20 x 16");
  refused([](Model& m) { m.tokens.table.setZero(9, 16); }, "tokens.table is 9 x 16");
  refused([](Model& m) { m.positions.setZero(1, 16); }, "positions is 1 x 16");
  refused([](Model& m) { m.positions.resize(0, 0); }, "positions is 0 x 0");
  refused([](Model& m) { m.output.setZero(16, 10); }, "output is 16 x 10");
  refused([](Model& m) { m.blocks.pop_back(); }, "1 blocks, its configuration says 2");
  refused([](Model& m) { m.blocks.push_back(m.blocks[0]); }, "3 blocks");
  refused([](Model& m) { m.blocks.clear(); }, "0 blocks");
  refused([](Model& m) { m.blocks[1].attention.w_o.setZero(16, 8); }, "attention.w_o is 16 x 8");
  refused([](Model& m) { m.blocks[1].feed_forward.up.w.setZero(16, 8); }, "feed_forward.up.w is 16 x 8");
}

TEST_CASE("a trainer's sequences are as long as the context, and windows of another length are refused",
          "[gpt][errors]") {
  Gpt<double> model = stirred_model<double>(small_config, 36);
  GptTrainer<double> trainer(model, {.batch_size = 2});
  CHECK(trainer.options().seq_len == 8);
  Random random(37);
  TokenBatch batch;
  TokenWindows(drawn_ids(40, 10, 38), 4).draw(random, 4, batch);
  CHECK(contains(message_of<ShapeError>([&] { trainer.step(batch, 0.01); }), "windows of 4 tokens"));
  CHECK(contains(message_of<ShapeError>([&] { trainer.loss(std::span(&batch, 1)); }), "windows of 4 tokens"));
  const std::vector<double> before = numbers_of(model);
  TokenWindows(drawn_ids(40, 10, 38), 8).draw(random, 2, batch);
  CHECK(contains(message_of<ArgumentError>([&] { trainer.step(batch, kNaN<double>); }), "rate is nan"));
  CHECK(numbers_of(model) == before);
  trainer.step(batch, 0.01);
  CHECK(numbers_of(model) != before);
}

TEST_CASE("several threads call one const model and get the same bits", "[gpt][threads]") {
  const Gpt<float> model = stirred_model<float>(wide_config(), 6, 0.1);
  const std::vector<TokenId> ids = drawn_ids(40, 290, 7);
  const Matrix<float> expected = model.forward(ids);
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < (kSlowRun ? 2 : 20); ++round)
        equal += same_bits(model.forward(ids), expected) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == 8 * (kSlowRun ? 2 : 20));
}

TEST_CASE("a sequence's scores do not depend on the rest of the batch, nor on the tokens behind", "[gpt]") {
  const Gpt<float> model = stirred_model<float>(small_config, 8);
  const std::vector<TokenId> ids = drawn_ids(3 * 7, 10, 9);
  const Matrix<float> together = model.forward(ids, 3);
  const std::span<const TokenId> all(ids);
  for (Index s = 0; s < 3; ++s) {
    const auto own = all.subspan(static_cast<std::size_t>(7 * s), 7);
    CHECK(same_bits(model.forward(own), together.middleRows(7 * s, 7)));
    CHECK(same_bits(model.forward(own.first(4)), together.middleRows(7 * s, 4)));
  }
  CHECK(model.forward(all.first(0)).rows() == 0);
}

TEST_CASE("a fresh model starts within 5 % of the loss of a guess", "[gpt]") {
  for (const PositionKind positions :
       {PositionKind::learned, PositionKind::sinusoidal, PositionKind::rotary}) {
    for (const Index vocab_size : {65, 1000}) {
      if (kSlowRun && vocab_size > 65) continue;
      for (const bool tied : {true, false}) {
        GptConfig config;
        config.vocab_size = vocab_size;
        config.positions = positions;
        config.tied = tied;
        CAPTURE(config_to_json(config));
        Random random(1337);
        Gpt<float> model(config, random);
        GptTrainer<float> trainer(model, {.batch_size = 2});
        const double loss = trainer.loss(drawn_ids(128, vocab_size, 1), drawn_ids(128, vocab_size, 2));
        const double guess = std::log(static_cast<double>(vocab_size));
        CHECK(std::abs(loss - guess) <= 0.05 * guess);
      }
    }
  }
}

TEST_CASE("fresh weights have the spread that the paper gives", "[gpt]") {
  GptConfig config;
  config.vocab_size = 200;
  config.num_layers = 8;
  config.gated = config.bias = true;
  config.tied = false;
  Random random(3);
  const Gpt<double> model(config, random);
  model.for_each_parameter([&](const std::string& name, const auto& matrix) {
    CAPTURE(name);
    if (matrix.rows() == 1) {
      CHECK((matrix.array() == (contains(name, "norm") && contains(name, "weight") ? 1 : 0)).all());
      return;
    }
    // Whatever is added to the stream is smaller the more layers add to it.
    const bool last = contains(name, "w_o") || contains(name, "down");
    const double spread = std::sqrt(matrix.array().square().mean());
    const double expected = last ? 0.02 / std::sqrt(2.0 * 8) : 0.02;
    CHECK(std::abs(spread - expected) <= 0.03 * expected);
    CHECK(std::abs(matrix.mean()) <= 0.05 * expected);
  });
}

TEST_CASE("one seed gives one model, whatever else draws random numbers", "[gpt]") {
  Random first(11);
  const Gpt<float> a(small_config, first);
  std::rand();
  Random second(11);
  const Gpt<float> b(small_config, second);
  CHECK(numbers_of(a) == numbers_of(b));
  CHECK(first.state() == second.state());
  Random other(12);
  CHECK(numbers_of(Gpt<float>(small_config, other)) != numbers_of(a));
  CHECK(num_parameters(a) == static_cast<Index>(numbers_of(a).size()));
}

TEMPLATE_TEST_CASE("a batch is learned by heart, and training goes on without NaN", "[gpt]", float, double) {
  Random random(12);
  Gpt<TestType> model(small_config, random);
  GptTrainer<TestType> trainer(model, {.batch_size = 4, .seq_len = 8});
  TokenBatch batch{drawn_ids(32, 10, 13), drawn_ids(32, 10, 14)};
  // Different beginnings: no two targets contradict each other.
  for (std::size_t s = 0; s < 4; ++s) batch.inputs[8 * s] = static_cast<TokenId>(s);
  const auto train = [&] { return trainer.step(batch.inputs, batch.targets, 0.01).loss; };
  int steps = 0;
  for (double loss = train(); loss >= 0.01; loss = train()) REQUIRE(++steps < 500);
  for (int more = 0; more < 200; ++more) train();
  CHECK(trainer.loss(batch.inputs, batch.targets) < 0.01);
  for (const TestType weight : numbers_of(model)) REQUIRE(std::isfinite(weight));

  // What it has learned looks at the past alone.
  const std::span<const TokenId> ids = std::span<const TokenId>(batch.inputs).first(8);
  const CausalReport report = verify_causal([&](const Matrix<TestType>& x) { return model.logits(x); },
                                            model.embed(ids), {.tolerance = 0});
  CHECK(report.passed);
  CHECK(report.cuts == 7);
  for (Index layer = 0; layer < 2; ++layer) {
    const AttentionWeights<TestType> weights = model.attention_weights(ids, layer);
    REQUIRE(weights.stacked.rows() == 2 * 8);
    const RowSumReport sums = rows_sum_to_one(weights.stacked);
    CHECK(sums.passed);
    CHECK(sums.empty_rows == 0);
    for (Index row = 0; row < 16; ++row) {
      for (Index key = row % 8 + 1; key < 8; ++key) REQUIRE(weights.stacked(row, key) == 0);
    }
  }
}

TEST_CASE("the weights of a layer are those of what the blocks before it have made", "[gpt]") {
  GptConfig config = small_config;
  config.num_layers = 3;
  const Gpt<double> model = stirred_model<double>(config, 21);
  const std::vector<TokenId> ids = drawn_ids(8, 10, 22);
  Matrix<double> stream = model.embed(ids);
  const LayerOptions options = model.attention_options(1, nullptr);
  for (Index layer = 0; layer < 3; ++layer) {
    const GptBlock<double>& block = model.blocks[static_cast<std::size_t>(layer)];
    const auto attention = block.attention.forward_with_weights(block.norm1.forward(stream), options);
    CHECK(same_bits(model.attention_weights(ids, layer).stacked, attention.weights.stacked));
    stream += attention.out;
    stream += block.feed_forward.forward(block.norm2.forward(stream));
  }
  CHECK(same_bits(model.project(stream), model.forward(ids)));
}

TEST_CASE("a step with NaN or infinity throws, names the step, and changes nothing", "[gpt][errors]") {
  for (const double poison : {kNaN<double>, kInf<double>}) {
    for (const std::size_t victim : {0U, 3U, 9U}) {
      Case<double> c(15);
      GptTrainer<double> trainer(c.model, c.options);
      for (int step = 0; step < 3; ++step) trainer.step(c.batch.inputs, c.batch.targets, 0.01);
      const MatrixView<double>& weight = trainer.parameters()[victim].value;
      CAPTURE(trainer.parameters()[victim].name);
      double& number = weight(c.batch.inputs[0] % weight.rows, 0);
      const double good = number;
      const TrainingState<double> sound(trainer);
      number = poison;
      const TrainingState<double> poisoned(trainer);
      const std::string message =
          message_of<TrainingError>([&] { trainer.step(c.batch.inputs, c.batch.targets, 0.01); });
      CHECK(contains(message, "step 3: the loss is "));
      CHECK(TrainingState<double>(trainer).resumes_as(poisoned));
      number = good;
      CHECK(TrainingState<double>(trainer).resumes_as(sound));
      CHECK(std::isfinite(trainer.step(c.batch.inputs, c.batch.targets, 0.01).loss));
      CHECK(trainer.optimizer().steps() == 4);
    }
  }
}

TEST_CASE("a step with a finite loss and gradients beyond all numbers throws as well", "[gpt][errors]") {
  // A stream so small that dividing it by its size makes gradients that overflow.
  GptConfig config = small_config;
  config.positions = PositionKind::rotary;
  config.norm_epsilon = 1e-38;
  config.tied = false;
  Gpt<double> model = stirred_model<double>(config, 16);
  model.tokens.table *= 1e-306;
  model.output *= 1e292;
  for (GptBlock<double>& block : model.blocks) {
    block.attention.w_o.setZero();
    block.feed_forward.down.w.setZero();
  }
  GptTrainer<double> trainer(model, {.batch_size = 1, .seq_len = 8});
  const TokenBatch batch = drawn_batch(8, 10, 17);
  CHECK(std::isfinite(trainer.loss(batch.inputs, batch.targets)));
  const TrainingState<double> before(trainer);
  const std::string message =
      message_of<TrainingError>([&] { trainer.step(batch.inputs, batch.targets, 0.1); });
  CHECK(contains(message, "step 0: the loss is "));
  CHECK((contains(message, "gradients inf") || contains(message, "gradients nan")));
  CHECK(TrainingState<double>(trainer).resumes_as(before));
}

TEST_CASE("a configuration that makes no model is refused by the name and value of what is wrong",
          "[gpt][errors]") {
  const GptConfig good{.vocab_size = 10, .num_heads = 4, .num_kv_heads = 2, .d_model = 16};
  check_config(good);
  const auto refusal = [&](auto change) {
    GptConfig config = good;
    change(config);
    const std::string shape = message_of<ShapeError>([&] { check_config(config); });
    Random random(1);
    const auto before = random.state();
    // The model refuses what the check does, in the same words, and draws nothing.
    CHECK(message_of<Error>([&] { Gpt<float>(config, random); }) ==
          message_of<Error>([&] { check_config(config); }));
    CHECK(random.state() == before);
    return shape == "another exception" ? message_of<ArgumentError>([&] { check_config(config); }) : shape;
  };
  struct Size {
    const char* name;
    void (*set)(GptConfig&, Index);
  };
  for (const Size& size : {Size{"vocab_size", [](GptConfig&c, Index n) { c.vocab_size = n; }},
                           Size{"context", [](GptConfig&c, Index n) { c.context = n; }},
                           Size{"num_layers", [](GptConfig&c, Index n) { c.num_layers = n; }},
                           Size{"num_heads", [](GptConfig&c, Index n) { c.num_heads = n; }},
                           Size{"num_kv_heads", [](GptConfig&c, Index n) { c.num_kv_heads = n; }},
                           Size{"d_model", [](GptConfig&c, Index n) { c.d_model = n; }},
                           Size{"d_ff", [](GptConfig&c, Index n) { c.d_ff = n; }}}) {
    for (const Index value : {Index{0}, Index{-3}, std::numeric_limits<Index>::min(), Index{1} << 50,
                              std::numeric_limits<Index>::max()}) {
      CAPTURE(value);
      CHECK(contains(refusal([&](GptConfig& c) { size.set(c, value); }),
                     std::string(size.name) + " is " + std::to_string(value)));
    }
  }
  using C = GptConfig;
  CHECK(contains(refusal([](C& c) { c.vocab_size = Index{1} << 31; }), "vocab_size is 2147483648"));
  CHECK(contains(refusal([](C& c) { c.d_model = 18; }), "d_model is 18, it must be a multiple of num_heads"));
  CHECK(contains(refusal([](C& c) { c.num_heads = 3; }), "num_heads, which is 3"));
  CHECK(contains(refusal([](C& c) { c.num_kv_heads = 3; }), "num_heads is 4, it must be a multiple"));
  CHECK(contains(refusal([](C& c) {
                   c.positions = PositionKind::rotary;
                   c.d_model = 12;
                 }),
                 "d_model 12 over num_heads 4 is odd"));
  for (const double dropout : {-0.1, 1.0, kNaN<double>, kInf<double>})
    CHECK(
        contains(refusal([&](C& c) { c.dropout = dropout; }), "dropout is " + detail::number_text(dropout)));
  for (const double epsilon : {0.0, -1.0, kNaN<double>, kInf<double>}) {
    CHECK(contains(refusal([&](C& c) { c.norm_epsilon = epsilon; }),
                   "norm_epsilon is " + detail::number_text(epsilon)));
  }
}

TEST_CASE("a trainer refuses options out of range by their names and values", "[gpt][errors]") {
  Gpt<float> model = stirred_model<float>(small_config, 18);
  const auto refusal = [&](const GptTrainerOptions& options) {
    return message_of<Error>([&] { GptTrainer<float>(model, options); });
  };
  CHECK(contains(refusal({.batch_size = 0}), "batch_size is 0"));
  CHECK(contains(refusal({.batch_size = -1, .seq_len = 8}), "batch_size is -1"));
  CHECK(contains(refusal({.seq_len = 0}), "seq_len is 0"));
  CHECK(contains(refusal({.seq_len = 9}), "seq_len is 9, the model's context is 8"));
  CHECK(contains(refusal({.batch_size = Index{1} << 61, .seq_len = 8}), "batch_size 2305843009213693952"));
  CHECK(contains(refusal({.seq_len = 8, .clip_norm = -1}), "clip_norm is -1"));
  CHECK(contains(refusal({.seq_len = 8, .clip_norm = kNaN<double>}), "clip_norm is nan"));
  CHECK(contains(refusal({.seq_len = 8, .optimizer = {.beta2 = 1}}), "beta2 is 1"));
}

TEST_CASE("tokens and targets outside the vocabulary are refused by place and number, before any change",
          "[gpt][errors]") {
  Gpt<float> model = stirred_model<float>(small_config, 19);
  GptTrainer<float> trainer(model, {.batch_size = 2, .seq_len = 4});
  const TokenBatch good{{0, 9, 0, 9, 1, 2, 3, 4}, {9, 0, 9, 0, 2, 3, 4, kIgnoredTarget}};
  trainer.step(good.inputs, good.targets, 0.01);
  const TrainingState<float> before(trainer);
  const auto refusals = [&](const TokenBatch& batch) {
    const std::array messages = {
        message_of<RangeError>([&] { trainer.loss(batch.inputs, batch.targets); }),
        message_of<RangeError>([&] { trainer.loss_and_gradients(batch.inputs, batch.targets); }),
        message_of<RangeError>([&] { trainer.step(batch.inputs, batch.targets, 0.01); })};
    CHECK(TrainingState<float>(trainer).is(before));
    CHECK(messages[0] == messages[1]);
    CHECK(messages[0] == messages[2]);
    return messages[0];
  };
  for (const TokenId wrong : {10, -1, kIgnoredTarget, INT32_MAX, INT32_MIN}) {
    CAPTURE(wrong);
    TokenBatch batch = good;
    batch.inputs[5] = wrong;
    CHECK(contains(refusals(batch), "id " + std::to_string(wrong) + " at position 5"));
    CHECK(contains(message_of<RangeError>([&] { model.forward(batch.inputs, 2); }), "at position 5"));
    CHECK(contains(message_of<RangeError>([&] { model.attention_weights(batch.inputs, 0); }), "position 5"));
    if (wrong == kIgnoredTarget) continue;
    batch = good;
    batch.targets[6] = wrong;
    CHECK(contains(refusals(batch), "target " + std::to_string(wrong) + " at position 6"));
  }
}

TEST_CASE("wrong numbers of tokens, positions and layers are refused", "[gpt][errors]") {
  Gpt<float> model = stirred_model<float>(small_config, 20);
  GptTrainer<float> trainer(model, {.batch_size = 2, .seq_len = 4});
  const std::vector<TokenId> ids(16, 1);
  const std::span<const TokenId> all(ids);
  for (const std::size_t inputs : {0U, 7U, 8U, 9U, 16U}) {
    for (const std::size_t targets : {0U, 8U, 12U}) {
      if (inputs == 8 && targets == 8) continue;
      const std::string message =
          message_of<ShapeError>([&] { trainer.step(all.first(inputs), all.first(targets), 0.01); });
      CHECK(
          contains(message, std::to_string(inputs) + " inputs and " + std::to_string(targets) + " targets"));
    }
  }
  CHECK(trainer.optimizer().steps() == 0);
  CHECK(contains(message_of<ArgumentError>([&] { trainer.step(all.first(8), all.first(8), -1); }),
                 "rate is -1"));
  CHECK(message_of<ArgumentError>([&] { trainer.step(all.first(8), all.first(8), kNaN<double>); }) !=
        "nothing");
  CHECK(trainer.optimizer().steps() == 0);

  CHECK(contains(message_of<RangeError>([&] { model.forward(all.first(9)); }), "9 tokens from position 0"));
  CHECK(
      contains(message_of<RangeError>([&] { model.embed(all.first(2), 1, 7); }), "2 tokens from position 7"));
  CHECK(contains(message_of<RangeError>([&] { model.embed(all.first(2), 1, -1); }), "from position -1"));
  CHECK(message_of<ShapeError>([&] { model.forward(all.first(7), 2); }) != "nothing");
  CHECK(message_of<ShapeError>([&] { model.forward(all.first(8), 0); }) != "nothing");
  for (const Index layer : {-1, 2}) {
    CHECK(contains(message_of<RangeError>([&] { model.attention_weights(all.first(4), layer); }),
                   "layer " + std::to_string(layer)));
  }
}
