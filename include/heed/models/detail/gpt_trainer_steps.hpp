#pragma once

// The steps of GptTrainer: included by gpt_trainer.hpp, which says what they are for.

#include "heed/core/config.hpp"

#include <cmath>
#include <cstdint>
#include <string>

#include "heed/core/float_bits.hpp"
#include "heed/layers/dropout.hpp"
#include "heed/layers/weights.hpp"
#include "heed/models/gpt_trainer.hpp"

namespace heed {

namespace detail {

/// Returns the shape of the attention of one sequence of a model.
template <class Scalar>
AttentionShape sequence_shape(const GptConfig& config, Index seq_len) {
  AttentionShape shape;
  shape.num_heads = config.num_heads;
  shape.num_kv_heads = config.kv_heads();
  shape.query_len = shape.kv_len = seq_len;
  shape.head_dim = shape.value_dim = config.d_model / config.num_heads;
  return shape;
}

inline GptTrainerOptions checked(const GptTrainerOptions& options, const GptConfig& config) {
  const Index seq_len = options.seq_len.value_or(config.context);
  require_batch(options.batch_size, seq_len);
  if (seq_len > config.context) {
    throw_shape_error("seq_len is " + std::to_string(seq_len) + ", the model's context is " +
                      std::to_string(config.context));
  }
  if (detail::is_nan(options.clip_norm) || options.clip_norm < 0) {
    throw_argument_error("clip_norm is " + detail::number_text(options.clip_norm) +
                         ", it must be positive, or 0 for none");
  }
  GptTrainerOptions known = options;
  known.seq_len = seq_len;
  return known;
}

/// Throws unless a trainer can be made: as GptTrainer's constructor, before any memory is taken.
template <class Scalar>
void require_trainer_memory(const Gpt<Scalar>& model, const GptTrainerOptions& options, Executor* executor) {
  model.check_weights();
  const GptConfig& config = model.config();
  const GptTrainerOptions known = checked(options, config);
  const std::uint64_t own =
      gpt_trainer_bytes<Scalar>(config, known.batch_size, known.seq_len, threads_of(executor));
  require_gpt_memory(plus_bytes(gpt_bytes<Scalar>(config), own),
                     ("training with batch_size " + std::to_string(known.batch_size) + " and seq_len " +
                      std::to_string(*known.seq_len) + " a GPT")
                         .c_str(),
                     config);
}

/// Returns false for a step of less than about 0.1 ms: the threads would take longer to meet than they save.
template <class Scalar>
bool step_is_worth_sharing(const Gpt<Scalar>& model, Index batch_size, Index seq_len) {
  constexpr double min_multiplications = 4e6;
  const double tokens = static_cast<double>(batch_size) * static_cast<double>(seq_len);
  return 3 * tokens * static_cast<double>(num_parameters(model)) >= min_multiplications;
}

}  // namespace detail

template <class Scalar>
GptTrainer<Scalar>::GptTrainer(Gpt<Scalar>& model, const GptTrainerOptions& options, Executor* executor)
    : model_(model),
      gradients_((detail::require_trainer_memory(model, options, executor), zeros_like(model))),
      options_(detail::checked(options, model.config())),
      seq_len_(*options_.seq_len),
      executor_(detail::step_is_worth_sharing(model, options.batch_size, seq_len_) ? executor : nullptr),
      parameters_(heed::parameters(model_, gradients_)),
      optimizer_(parameters_, options.optimizer),
      threads_(detail::threads_of(executor_)),
      sequences_shared_(options.batch_size >= threads_),
      attention_(detail::sequence_shape<Scalar>(model.config(), seq_len_), causal(),
                 model.attention_options(1, nullptr).score, sequences_shared_ ? 1 : threads_),
      attention_backward_(detail::sequence_shape<Scalar>(model.config(), seq_len_), causal(),
                          model.attention_options(1, nullptr).score, sequences_shared_ ? 1 : threads_) {
  make_records();
  make_weight_tasks();
  workspaces_.resize(static_cast<std::size_t>(threads_));
  const std::size_t bytes = workspace_bytes();
  for (Workspace& own : workspaces_) own.reserve(bytes);
}

/// Returns the bytes of a workspace, which serves one operation after another: the largest decides.
template <class Scalar>
std::size_t GptTrainer<Scalar>::workspace_bytes() const {
  std::size_t most = (std::max)(attention_.workspace_bytes(), attention_backward_.workspace_bytes());
  const auto need = [&](Index rows, Index depth, Index cols, Index threads) {
    most = (std::max)(most, product_workspace_bytes<Scalar>(rows, depth, cols, threads));
  };
  const Index d = config().d_model;
  const Index kv = d / config().num_heads * config().kv_heads();
  const Index ff = config().ff_size();
  const Index vocab = config().vocab_size;
  const Index rows = (options_.batch_size + num_shards() - 1) / num_shards() * seq_len_;
  const Index threads = sequences_shared_ ? 1 : threads_;
  for (const auto& [depth, cols] :
       {std::pair{d, d + 2 * kv}, std::pair{d, d}, std::pair{kv, d}, std::pair{d, ff}, std::pair{ff, d},
        std::pair{d, vocab}, std::pair{vocab, d}}) {
    need(rows, depth, cols, threads);
  }
  for (const WeightTask& task : weight_tasks_) {
    if (!task.input.empty()) need(task.grad_w.rows, task.input.rows, task.grad_w.cols, 1);
  }
  return most;
}

template <class Scalar>
void GptTrainer<Scalar>::make_records() {
  const Index rows = options_.batch_size * seq_len_;
  const Index d = config().d_model;
  const Index kv = d / config().num_heads * config().kv_heads();
  const Index ff = config().ff_size();
  records_.resize(static_cast<std::size_t>(config().num_layers));
  for (BlockRecord& r : records_) {
    for (Matrix<Scalar>* m : {&r.norm1, &r.query, &r.heads, &r.middle, &r.norm2, &r.out, &r.grad_norm1,
                              &r.grad_query, &r.grad_middle, &r.grad_norm2, &r.grad_out}) {
      m->setZero(rows, d);
    }
    for (Matrix<Scalar>* m : {&r.key, &r.value, &r.grad_key, &r.grad_value}) m->setZero(rows, kv);
    for (Matrix<Scalar>* m : {&r.up, &r.hidden, &r.grad_up}) m->setZero(rows, ff);
    if (config().gated) {
      for (Matrix<Scalar>* m : {&r.gate, &r.grad_gate}) m->setZero(rows, ff);
    }
    if (config().dropout > 0) {
      for (Matrix<Scalar>* m : {&r.grad_added, &r.grad_down}) m->setZero(rows, d);
    }
    r.logsumexp.setZero(rows, config().num_heads);
  }
  for (Matrix<Scalar>* m : {&embedded_, &grad_embedded_, &normed_, &grad_normed_}) m->setZero(rows, d);
  logits_.setZero(rows, config().vocab_size);
  inputs_.resize(static_cast<std::size_t>(rows));
  targets_.resize(static_cast<std::size_t>(rows));
  losses_.resize(static_cast<std::size_t>(rows));
}

template <class Scalar>
void GptTrainer<Scalar>::add_product(const Matrix<Scalar>& input, const Matrix<Scalar>& grad_out,
                                     Matrix<Scalar>& grad_w, RowVector<Scalar>* grad_b) {
  // Cut by the sizes alone, since the order in which squares are summed up follows the cuts.
  constexpr Index max_cols = 256;
  for (Index col = 0; col < grad_w.cols(); col += max_cols) {
    const Index cols = (std::min)(max_cols, grad_w.cols() - col);
    WeightTask task{WeightTask::Kind::product,
                    view(input),
                    view(grad_out).block(0, col, grad_out.rows(), cols),
                    mutable_view(grad_w).block(0, col, grad_w.rows(), cols),
                    {}};
    if (grad_b != nullptr && grad_b->size() > 0) task.grad_b = mutable_view(*grad_b).block(0, col, 1, cols);
    weight_tasks_.push_back(task);
  }
}

template <class Scalar>
void GptTrainer<Scalar>::add_norm(const Matrix<Scalar>& input, const Matrix<Scalar>& grad_out,
                                  Norm<Scalar>& grads) {
  weight_tasks_.push_back({WeightTask::Kind::norm, view(input), view(grad_out), mutable_view(grads.weight),
                           detail::mutable_view_unless_empty(grads.bias), grads.options});
}

template <class Scalar>
void GptTrainer<Scalar>::make_weight_tasks() {
  const bool dropout = config().dropout > 0;
  for (std::size_t l = 0; l < records_.size(); ++l) {
    const BlockRecord& r = records_[l];
    GptBlock<Scalar>& grads = gradients_.blocks[l];
    FeedForward<Scalar>& ff = grads.feed_forward;
    MultiHeadAttention<Scalar>& attention = grads.attention;
    add_product(r.hidden, dropout ? r.grad_down : r.grad_out, ff.down.w, &ff.down.b);
    add_product(r.norm2, r.grad_up, ff.up.w, &ff.up.b);
    if (ff.gate) add_product(r.norm2, r.grad_gate, ff.gate->w, &ff.gate->b);
    add_product(r.heads, dropout ? r.grad_added : r.grad_middle, attention.w_o, &attention.b_o);
    add_product(r.norm1, r.grad_query, attention.w_q, &attention.b_q);
    add_product(r.norm1, r.grad_key, attention.w_k, &attention.b_k);
    add_product(r.norm1, r.grad_value, attention.w_v, &attention.b_v);
    add_norm(r.middle, r.grad_norm2, grads.norm2);
    add_norm(stream_before(l), r.grad_norm1, grads.norm1);
  }
  add_norm(records_.back().out, grad_normed_, gradients_.final_norm);
  if (!config().tied) add_product(normed_, logits_, gradients_.output, nullptr);
  WeightTask table{WeightTask::Kind::table, {}, {}, mutable_view(gradients_.tokens.table), {}};
  table.grad_rows = view(grad_embedded_);
  if (config().tied) {
    table.input = view(logits_);
    table.grad_out = view(normed_);
  }
  weight_tasks_.push_back(table);
  if (config().positions == PositionKind::learned) {
    weight_tasks_.push_back(
        {WeightTask::Kind::positions, {}, view(grad_embedded_), mutable_view(gradients_.positions), {}});
  }
  squares_.resize(weight_tasks_.size());
}

template <class Scalar>
void GptTrainer<Scalar>::check_batch(std::span<const TokenId> inputs,
                                     std::span<const TokenId> targets) const {
  const std::size_t rows = losses_.size();
  if (inputs.size() != rows || targets.size() != rows) {
    throw_shape_error("there are " + std::to_string(inputs.size()) + " inputs and " +
                      std::to_string(targets.size()) + " targets, " + std::to_string(options_.batch_size) +
                      " sequences of " + std::to_string(seq_len_) + " need " + std::to_string(rows) +
                      " of each");
  }
  model_.tokens.check_ids(inputs);
}

/// Looks up matrices that were given other memory, as by assigning a model; none may have got another size.
template <class Scalar>
void GptTrainer<Scalar>::look_up_weights() {
  model_.check_weights();
  std::size_t count = 0;
  model_.for_each_matrix([&](auto& matrix) {
    const bool fits = count < parameters_.size() && parameters_[count].value.rows == matrix.rows() &&
                      parameters_[count].value.cols == matrix.cols();
    if (!fits) throw_shape_error("the model has other biases than when the trainer was made");
    parameters_[count++].value = mutable_view(matrix);
  });
  if (count != parameters_.size())
    throw_shape_error("the model has fewer biases than when the trainer was made");
}

template <class Scalar>
double GptTrainer<Scalar>::loss(std::span<const TokenId> inputs, std::span<const TokenId> targets) {
  return run(inputs, targets, false);
}

template <class Scalar>
double GptTrainer<Scalar>::loss(std::span<const TokenBatch> batches) {
  double sum = 0;
  Index counted = 0;
  for (const TokenBatch& batch : batches) {
    require_windows(batch);
    const Index own = detail::count_targets(batch.targets, config().vocab_size);
    sum += loss(batch.inputs, batch.targets) * static_cast<double>(own);
    counted += own;
  }
  return counted > 0 ? sum / static_cast<double>(counted) : 0;
}

template <class Scalar>
void GptTrainer<Scalar>::require_windows(const TokenBatch& batch) const {
  if (batch.seq_len == seq_len_ || batch.seq_len == 0) return;  // 0: not said
  throw_shape_error("the batch has windows of " + std::to_string(batch.seq_len) +
                    " tokens, the trainer takes sequences of " + std::to_string(seq_len_));
}

template <class Scalar>
TrainingStep GptTrainer<Scalar>::step(const TokenBatch& batch, double rate) {
  require_windows(batch);
  return step(batch.inputs, batch.targets, rate);
}

template <class Scalar>
double GptTrainer<Scalar>::loss_and_gradients(std::span<const TokenId> inputs,
                                              std::span<const TokenId> targets) {
  const double loss = run(inputs, targets, true);
  const Index tasks = static_cast<Index>(weight_tasks_.size());
  const auto work = [&](Index thread, Index item) {
    const WeightTask& task = weight_tasks_[static_cast<std::size_t>(item)];
    run_weight_task(task, thread);
    squares_[static_cast<std::size_t>(item)] =
        Rows::sum_of_squares(task.grad_w) + Rows::sum_of_squares(task.grad_b);
  };
  detail::share_items(executor_, threads_, tasks, work);
  return loss;
}

template <class Scalar>
double GptTrainer<Scalar>::norm_of_gradients() const {
  double sum = 0;
  for (const double square : squares_) sum += square;
  return detail::norm_of_squares<Scalar>(sum, parameters_);
}

template <class Scalar>
TrainingStep GptTrainer<Scalar>::step(std::span<const TokenId> inputs, std::span<const TokenId> targets,
                                      double rate) {
  optimizer_.check_rate(rate);
  TrainingStep step;
  step.loss = loss_and_gradients(inputs, targets);
  step.gradient_norm = norm_of_gradients();
  if (!detail::is_finite(step.loss) || !detail::is_finite(step.gradient_norm)) {
    throw_training_error("step " + std::to_string(optimizer_.steps()) + ": the loss is " +
                         detail::number_text(step.loss) + ", the norm of the gradients " +
                         detail::number_text(step.gradient_norm) +
                         "; the weights are those before this step");
  }
  const double factor = options_.clip_norm > 0 ? clip_factor(step.gradient_norm, options_.clip_norm) : 1;
  optimizer_.step(parameters_, rate, factor, executor_);
  return step;
}

/// Returns into how many shards the sequences are cut: as many rows at a time as stay in a second-level cache
/// with what is computed of them. No bit depends on it.
template <class Scalar>
Index GptTrainer<Scalar>::num_shards() const {
  if (!sequences_shared_) return 1;
  constexpr Index shard_rows = 384;
  const Index rows = options_.batch_size * seq_len_;
  const Index rounds = (std::max<Index>)(1, (rows + shard_rows * threads_ / 2) / (shard_rows * threads_));
  return (std::min)(options_.batch_size, rounds * threads_);
}

/// Runs forward, and if `training`, back to the embedding: all that can be done sequence by sequence.
template <class Scalar>
double GptTrainer<Scalar>::run(std::span<const TokenId> inputs, std::span<const TokenId> targets,
                               bool training) {
  look_up_weights();
  check_batch(inputs, targets);
  const Index counted = detail::count_targets(targets, config().vocab_size);
  std::copy(inputs.begin(), inputs.end(), inputs_.begin());
  std::copy(targets.begin(), targets.end(), targets_.begin());
  grad_factor_ = counted > 0 ? 1.0 / static_cast<double>(counted) : 0;
  const Index batch = options_.batch_size;
  const Index seq_len = seq_len_;
  if (!sequences_shared_) {
    run_shard({0, batch * seq_len, 0, executor_, training});
    return detail::mean_of(losses_, static_cast<double>(counted));
  }
  const Index shards = num_shards();
  const auto work = [&](Index thread, Index item) {
    const Index first = batch * item / shards;
    const Index last = batch * (item + 1) / shards;
    run_shard({first * seq_len, (last - first) * seq_len, thread, nullptr, training});
  };
  detail::share_items(executor_, threads_, shards, work);
  return detail::mean_of(losses_, static_cast<double>(counted));
}

template <class Scalar>
void GptTrainer<Scalar>::run_shard(const Shard& shard) {
  const Index seq_len = seq_len_;
  const TokenId* const ids = inputs_.data() + shard.first_row;
  const View x = rows_of(embedded_, shard);
  Rows::gather(view(model_.tokens.table), ids, x);
  const ConstView positions = model_.position_table();
  for (Index row = 0; !positions.empty() && row < shard.rows; row += seq_len) {
    const View sequence = x.block(row, 0, seq_len, x.cols);
    Rows::add(sequence, positions.block(0, 0, seq_len, x.cols), sequence, shard.executor);
  }
  drop(0, x, x, shard);
  for (std::size_t l = 0; l < records_.size(); ++l) forward_block(l, shard);

  const Norm<Scalar>& norm = model_.final_norm;
  const View stream = rows_of(records_.back().out, shard);
  const View normed = rows_of(normed_, shard);
  const View logits = rows_of(logits_, shard);
  Rows::norm(stream, view(norm.weight), detail::view_unless_empty(norm.bias), norm.options, normed,
             shard.executor);
  product(normed, model_.output_view(), logits, shard);
  Rows::cross_entropy(logits, targets_.data() + shard.first_row, {kIgnoredTarget, grad_factor_},
                      losses_.data() + shard.first_row, shard.training ? logits : View{}, shard.executor);
  if (!shard.training) return;

  const View grad_normed = rows_of(grad_normed_, shard);
  product(logits, model_.output_view().transposed(), grad_normed, shard);
  Rows::norm_backward(stream, view(norm.weight), norm.options, grad_normed, {},
                      rows_of(records_.back().grad_out, shard), shard.executor);
  for (std::size_t l = records_.size(); l-- > 0;) backward_block(l, shard);
  const View grad_embedded = rows_of(grad_embedded_, shard);
  drop(0, grad_embedded, grad_embedded, shard);
}

template <class Scalar>
void GptTrainer<Scalar>::forward_block(std::size_t layer, const Shard& shard) {
  const GptBlock<Scalar>& block = model_.blocks[layer];
  const MultiHeadAttention<Scalar>& attention = block.attention;
  const FeedForward<Scalar>& ff = block.feed_forward;
  BlockRecord& r = records_[layer];
  const View x = rows_of(stream_before(layer), shard);

  // 1. middle = x + attention(norm1(x))
  const View norm1 = rows_of(r.norm1, shard);
  const View query = rows_of(r.query, shard);
  const View key = rows_of(r.key, shard);
  const View value = rows_of(r.value, shard);
  const View heads = rows_of(r.heads, shard);
  const View logsumexp = rows_of(r.logsumexp, shard);
  const View middle = rows_of(r.middle, shard);
  Rows::norm(x, view(block.norm1.weight), detail::view_unless_empty(block.norm1.bias), block.norm1.options,
             norm1, shard.executor);
  const detail::ProjectionWeights<Scalar> w = attention.projections();
  const ProductTerm<Scalar> projections[] = {
      {w.w_q, query, w.b_q}, {w.w_k, key, w.b_k}, {w.w_v, value, w.b_v}};
  run_products<Scalar>(norm1, projections, 3, workspace(shard.thread), detail::threads_of(shard.executor),
                       shard.executor);
  for (Index row = 0; row < shard.rows; row += seq_len_) {
    const auto sequence = [&](const View& v) { return v.block(row, 0, seq_len_, v.cols); };
    AttentionTensors<Scalar> tensors;
    tensors.query = sequence(query);
    tensors.key = sequence(key);
    tensors.value = sequence(value);
    tensors.out = sequence(heads);
    tensors.logsumexp = sequence(logsumexp);
    attention_.run(tensors, workspace(shard.thread), shard.executor);
  }
  product(heads, w.w_o, middle, shard, w.b_o);
  drop(2 * layer + 1, middle, middle, shard);
  Rows::add(x, middle, middle, shard.executor);

  // 2. out = middle + feed_forward(norm2(middle))
  const View norm2 = rows_of(r.norm2, shard);
  const View up = rows_of(r.up, shard);
  const View hidden = rows_of(r.hidden, shard);
  const View out = rows_of(r.out, shard);
  Rows::norm(middle, view(block.norm2.weight), detail::view_unless_empty(block.norm2.bias),
             block.norm2.options, norm2, shard.executor);
  product(norm2, view(ff.up.w), up, shard, detail::view_unless_empty(ff.up.b));
  if (ff.gate) {
    const View gate = rows_of(r.gate, shard);
    product(norm2, view(ff.gate->w), gate, shard, detail::view_unless_empty(ff.gate->b));
    Rows::gated(ff.activation, gate, up, hidden, shard.executor);
  } else {
    Rows::activation(ff.activation, up, hidden, shard.executor);
  }
  product(hidden, view(ff.down.w), out, shard, detail::view_unless_empty(ff.down.b));
  drop(2 * layer + 2, out, out, shard);
  Rows::add(middle, out, out, shard.executor);
}

template <class Scalar>
void GptTrainer<Scalar>::backward_block(std::size_t layer, const Shard& shard) {
  const GptBlock<Scalar>& block = model_.blocks[layer];
  const FeedForward<Scalar>& ff = block.feed_forward;
  const bool dropout = config().dropout > 0;
  BlockRecord& r = records_[layer];

  // 2. back through out = middle + feed_forward(norm2(middle))
  const View grad_out = rows_of(r.grad_out, shard);
  const View grad_down = dropout ? rows_of(r.grad_down, shard) : grad_out;
  const View grad_up = rows_of(r.grad_up, shard);
  const View grad_norm2 = rows_of(r.grad_norm2, shard);
  const View grad_middle = rows_of(r.grad_middle, shard);
  drop(2 * layer + 2, grad_out, grad_down, shard);
  product(grad_down, view(ff.down.w).transposed(), grad_up, shard);
  if (ff.gate) {
    const View grad_gate = rows_of(r.grad_gate, shard);
    Rows::gated_backward(ff.activation, rows_of(r.gate, shard), rows_of(r.up, shard), grad_up, grad_gate,
                         grad_up, shard.executor);
    product(grad_gate, view(ff.gate->w).transposed(), grad_norm2, shard);
  } else {
    Rows::activation_backward(ff.activation, rows_of(r.up, shard), grad_up, grad_up, shard.executor);
  }
  product(grad_up, view(ff.up.w).transposed(), grad_norm2, shard, {}, ff.gate.has_value());
  Rows::norm_backward(rows_of(r.middle, shard), view(block.norm2.weight), block.norm2.options, grad_norm2,
                      grad_out, grad_middle, shard.executor);

  // 1. back through middle = x + attention(norm1(x))
  const detail::ProjectionWeights<Scalar> w = block.attention.projections();
  const View grad_added = dropout ? rows_of(r.grad_added, shard) : grad_middle;
  const View grad_norm1 = rows_of(r.grad_norm1, shard);
  const View grad_query = rows_of(r.grad_query, shard);
  const View grad_key = rows_of(r.grad_key, shard);
  const View grad_value = rows_of(r.grad_value, shard);
  drop(2 * layer + 1, grad_middle, grad_added, shard);
  // The heads' gradient is not needed beyond the attention: it stands where norm1's will be.
  const View grad_heads = grad_norm1;
  product(grad_added, w.w_o.transposed(), grad_heads, shard);
  for (Index row = 0; row < shard.rows; row += seq_len_) {
    const auto sequence = [&](const View& v) { return v.block(row, 0, seq_len_, v.cols); };
    AttentionBackwardTensors<Scalar> tensors;
    tensors.query = sequence(rows_of(r.query, shard));
    tensors.key = sequence(rows_of(r.key, shard));
    tensors.value = sequence(rows_of(r.value, shard));
    tensors.out = sequence(rows_of(r.heads, shard));
    tensors.logsumexp = sequence(rows_of(r.logsumexp, shard));
    tensors.grad_out = sequence(grad_heads);
    tensors.grad_query = sequence(grad_query);
    tensors.grad_key = sequence(grad_key);
    tensors.grad_value = sequence(grad_value);
    attention_backward_.run(tensors, workspace(shard.thread), shard.executor);
  }
  product(grad_query, w.w_q.transposed(), grad_norm1, shard);
  product(grad_key, w.w_k.transposed(), grad_norm1, shard, {}, true);
  product(grad_value, w.w_v.transposed(), grad_norm1, shard, {}, true);
  Rows::norm_backward(rows_of(stream_before(layer), shard), view(block.norm1.weight), block.norm1.options,
                      grad_norm1, grad_middle, rows_of(grad_stream_before(layer), shard), shard.executor);
}

/// Runs a task that sums over all tokens, in their order.
template <class Scalar>
void GptTrainer<Scalar>::run_weight_task(const WeightTask& task, Index thread) {
  const auto clear = [](const View& v) {
    for (Index i = 0; i < v.rows; ++i) std::fill_n(&v(i, 0), v.cols, Scalar(0));
  };
  const auto transposed_product = [&] {
    // The first product begins the sums: clearing them first would cost a pass over the weights.
    bool begun = false;
    detail::add_weight_gradient<Scalar>(task.input, task.grad_out, task.grad_w,
                                        [&](const ConstView& turned, ProductTerm<Scalar> term) {
                                          term.accumulate = begun;
                                          run_products<Scalar>(turned, &term, 1, workspace(thread));
                                          begun = true;
                                        });
    if (!begun) clear(task.grad_w);
  };
  if (!task.grad_b.empty()) clear(task.grad_b);
  switch (task.kind) {
    case WeightTask::Kind::product:
      transposed_product();
      if (!task.grad_b.empty()) Rows::column_sums(task.grad_out, task.grad_b);
      break;
    case WeightTask::Kind::norm:
      clear(task.grad_w);
      Rows::norm_weight_gradient(task.input, task.norm, task.grad_out, task.grad_w, task.grad_b);
      break;
    case WeightTask::Kind::table:
      if (task.input.empty()) {
        clear(task.grad_w);
      } else {
        transposed_product();
      }
      Rows::scatter_add(task.grad_rows, inputs_.data(), task.grad_w);
      break;
    case WeightTask::Kind::positions:
      clear(task.grad_w);
      for (Index row = 0; row < task.grad_out.rows; row += seq_len_) {
        const View own = task.grad_w.block(0, 0, seq_len_, task.grad_w.cols);
        Rows::add(own, task.grad_out.block(row, 0, seq_len_, own.cols), own);
      }
      break;
  }
}

}  // namespace heed
