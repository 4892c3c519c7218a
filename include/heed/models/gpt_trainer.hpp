#pragma once

// Training a Gpt: the loss of a batch, the gradients of all weights, and a step of AdamW.
//
//   heed::GptTrainer<float> trainer(model, {.batch_size = 12, .seq_len = 64}, &pool);
//   windows.draw(random, 12, batch);  // token_windows.hpp
//   const heed::TrainingStep step = trainer.step(batch, rate);
//   const double held_out = trainer.loss(others.in_order(12));
//
// docs/training.md derives the gradients; the order of the steps below is the chapter's.

#include "heed/core/config.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "heed/attention/backward_plan.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/share_work.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/optimizer.hpp"
#include "heed/models/gpt.hpp"
#include "heed/models/token_windows.hpp"

namespace heed {

/// The sizes of a batch, and what a step does beside following the gradient.
struct GptTrainerOptions {
  Index batch_size = 12;
  std::optional<Index> seq_len = std::nullopt;  ///< Tokens of each sequence; default: the model's context.
  AdamWOptions optimizer = {.beta2 = 0.99, .weight_decay = 0.1};
  double clip_norm = 1;            ///< Gradients of a larger norm are scaled down to it; 0: never.
  std::uint64_t dropout_seed = 1;  ///< Used if the model's configuration has dropout.
};

/// What a step reports.
struct TrainingStep {
  double loss = 0;           ///< Mean over the batch's targets, before the step.
  double gradient_norm = 0;  ///< The norm before it was clipped.
};

/// Works on a model of the caller's, which must outlive it and keep its matrices' sizes (each step looks).
///
/// All memory is taken by the constructor: about 27 * d_model numbers for each token of a batch and layer (35
/// with a gate, 2 more with dropout), the logits, three numbers for each weight, and scratch memory for each
/// thread, at most a few MB. After that nothing is allocated.
///
/// Runs on the executor, unless a step takes less than about 0.1 ms, where waking threads costs more than it
/// saves. Sequences are shared among them for the forward pass and the gradients that flow back; then weights
/// are, for their gradients, each a chain over all tokens in their order. So no bit depends on the number of
/// threads.
template <class Scalar>
class GptTrainer {
  static_assert(detail::require_kernels<Scalar>());

 public:
  /// Throws ShapeError or ArgumentError for sizes below 1, a seq_len beyond the context, options out of
  /// range, or more bytes than the machine has (gpt_memory.hpp counts them), before any is taken.
  explicit GptTrainer(Gpt<Scalar>& model, const GptTrainerOptions& options = {},
                      Executor* executor = nullptr);
  GptTrainer(const GptTrainer&) = delete;
  GptTrainer& operator=(const GptTrainer&) = delete;

  /// Returns the mean loss of a batch, without dropout: batch_size sequences of seq_len tokens, and for each
  /// token the one after it, or kIgnoredTarget. Throws ShapeError for another number of tokens, RangeError
  /// for one outside the vocabulary.
  double loss(std::span<const TokenId> inputs, std::span<const TokenId> targets);

  /// Returns the mean loss over all targets of several batches, each counted once: of a text that is held
  /// out, as TokenWindows::in_order(batch_size) cuts it. Throws ShapeError also for windows of another
  /// length.
  double loss(std::span<const TokenBatch> batches);

  /// Returns the mean loss of a batch and overwrites gradients(); with dropout, if the model has it.
  double loss_and_gradients(std::span<const TokenId> inputs, std::span<const TokenId> targets);

  /// Computes the gradients and takes a step of the optimizer. Throws TrainingError, and leaves weights and
  /// optimizer as they were, if the loss or the gradients' norm is not finite; ArgumentError, before any
  /// work, for a rate that is negative or not finite.
  TrainingStep step(std::span<const TokenId> inputs, std::span<const TokenId> targets, double rate);

  /// Computes the gradients of a batch of windows and takes a step of the optimizer. Throws ShapeError also
  /// if the windows are not as long as the trainer's sequences.
  TrainingStep step(const TokenBatch& batch, double rate);

  const Gpt<Scalar>& model() const noexcept { return model_; }
  Gpt<Scalar>& model() noexcept { return model_; }
  const GptTrainerOptions& options() const noexcept { return options_; }

  /// Returns the gradients of the last loss_and_gradients() or step(), before clipping.
  const Gpt<Scalar>& gradients() const noexcept { return gradients_; }

  AdamW<Scalar>& optimizer() noexcept { return optimizer_; }
  const AdamW<Scalar>& optimizer() const noexcept { return optimizer_; }

  /// Returns weights and gradients by name, as views of where the matrices were at the last step().
  const std::vector<Parameter<Scalar>>& parameters() const noexcept { return parameters_; }

 private:
  using View = MatrixView<Scalar>;
  using ConstView = MatrixView<const Scalar>;
  using Rows = RowFunctions<Scalar>;

  // What one block computes on its way forward, and the gradients on the way back. A row for each token.
  struct BlockRecord {
    Matrix<Scalar> norm1, query, key, value, heads, logsumexp;
    Matrix<Scalar> middle;  ///< The stream between attention and feed-forward layer.
    Matrix<Scalar> norm2, up, gate, hidden, out;
    Matrix<Scalar> grad_norm1, grad_query, grad_key, grad_value;
    Matrix<Scalar> grad_added;  ///< The gradient of what the attention adds to the stream.
    Matrix<Scalar> grad_middle, grad_norm2, grad_up, grad_gate;
    Matrix<Scalar> grad_down;  ///< The gradient of what the feed-forward layer adds.
    Matrix<Scalar> grad_out;   ///< The gradient of the stream behind the block.
  };

  // Sequences that one task takes through the whole model.
  struct Shard {
    Index first_row;
    Index rows;
    Index thread;  ///< Whose workspace it uses.
    Executor* executor;
    bool training;
  };

  // A gradient that is a sum over all tokens: w^T of a product, a norm's weights, or a table's rows.
  struct WeightTask {
    enum class Kind { product, norm, table, positions } kind;
    ConstView input;  ///< The input of a product or a norm; for a table that is also the output product, the
                      ///< logits'.
    ConstView grad_out;  ///< Gradients, with what the product was taken of.
    View grad_w;
    View grad_b;
    NormOptions norm = {};
    ConstView grad_rows = {};  ///< Gradients of the rows that were picked from a table.
  };

  void check_batch(std::span<const TokenId> inputs, std::span<const TokenId> targets) const;
  void look_up_weights();
  void require_windows(const TokenBatch& batch) const;
  void make_records();
  std::size_t workspace_bytes() const;
  Index num_shards() const;
  void make_weight_tasks();
  void add_product(const Matrix<Scalar>& input, const Matrix<Scalar>& grad_out, Matrix<Scalar>& grad_w,
                   RowVector<Scalar>* grad_b);
  void add_norm(const Matrix<Scalar>& input, const Matrix<Scalar>& grad_out, Norm<Scalar>& grads);
  double run(std::span<const TokenId> inputs, std::span<const TokenId> targets, bool training);
  void run_shard(const Shard& shard);
  void forward_block(std::size_t layer, const Shard& shard);
  void backward_block(std::size_t layer, const Shard& shard);
  void run_weight_task(const WeightTask& task, Index thread);
  double norm_of_gradients() const;

  View rows_of(Matrix<Scalar>& matrix, const Shard& shard) const {
    return mutable_view(matrix).block(shard.first_row, 0, shard.rows, matrix.cols());
  }
  // The stream in front of a block.
  Matrix<Scalar>& stream_before(std::size_t layer) {
    return layer == 0 ? embedded_ : records_[layer - 1].out;
  }
  Matrix<Scalar>& grad_stream_before(std::size_t layer) {
    return layer == 0 ? grad_embedded_ : records_[layer - 1].grad_out;
  }
  void product(ConstView a, ConstView b, View out, const Shard& shard, ConstView bias = {},
               bool accumulate = false) {
    const ProductTerm<Scalar> term{b, out, bias, accumulate};
    run_products<Scalar>(a, &term, 1, workspace(shard.thread), detail::threads_of(shard.executor),
                         shard.executor);
  }
  // Elements dropped where a layer adds to the stream; a no-op where the model has no dropout.
  void drop(std::size_t place, ConstView x, View out, const Shard& shard) const {
    if (config().dropout == 0 || !shard.training) return;
    const DropoutOptions options{config().dropout, options_.dropout_seed,
                                 static_cast<std::uint64_t>(optimizer_.steps()) << 32 | place};
    Rows::dropout(options, x, out, shard.first_row, shard.executor);
  }
  const GptConfig& config() const { return model_.config(); }
  void* workspace(Index thread) const { return workspaces_[static_cast<std::size_t>(thread)].data(); }

  Gpt<Scalar>& model_;
  Gpt<Scalar> gradients_;
  GptTrainerOptions options_;
  Index seq_len_;
  Executor* executor_;
  std::vector<Parameter<Scalar>> parameters_;
  AdamW<Scalar> optimizer_;
  Index threads_;
  bool sequences_shared_;  ///< Each thread takes sequences of its own; else all work on one operation.
  AttentionPlan<Scalar> attention_;
  AttentionBackwardPlan<Scalar> attention_backward_;
  std::vector<BlockRecord> records_;
  Matrix<Scalar> embedded_, grad_embedded_;
  Matrix<Scalar> normed_, grad_normed_;
  Matrix<Scalar> logits_;  ///< The logits, and then their gradients, which take their place.
  std::vector<TokenId> inputs_, targets_;
  std::vector<double> losses_;
  double grad_factor_ = 0;
  std::vector<WeightTask> weight_tasks_;
  mutable std::vector<double> squares_;  ///< The squares of each task's gradients.
  std::vector<Workspace> workspaces_;
};

}  // namespace heed

#include "heed/models/detail/gpt_trainer_steps.hpp"
