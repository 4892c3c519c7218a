#pragma once

// A model in a folder, and a training that goes on from there as if it had never stopped.
//
//   heed::save_checkpoint("run", trainer, random, tokenizer.to_json(), {{"steps", "2000"}});
//
//   heed::Gpt<float> model = heed::load_model<float>("run");
//   heed::GptTrainer<float> trainer(model, options, &pool);
//   const heed::Notes notes = heed::resume("run", trainer, random);
//
// The folder has checkpoint.safetensors, with the weights by their names and the state of the optimizer and
// of the generator, and beside it config.json (gpt_config.hpp) and tokenizer.json. Each file is replaced
// whole or not at all; the other two are the same in every checkpoint of a folder, so that a process killed
// at any moment leaves the last checkpoint or the one before it.

#include "heed/core/config.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heed/core/random.hpp"
#include "heed/io/safetensors.hpp"
#include "heed/models/detail/checkpoint_files.hpp"
#include "heed/models/gpt_trainer.hpp"

namespace heed {

namespace detail {

/// Copies a tensor that has the sizes of the matrix, as read_checkpoint() has seen. Throws FileError if its
/// numbers are of a kind that T does not hold.
template <class T>
void read_matrix(const CheckpointFiles& files, const std::string& name, const MatrixView<T>& matrix) {
  const std::vector<T> values = files.tensors.values<T>(name);
  for (Index i = 0; i < matrix.rows; ++i) {
    for (Index j = 0; j < matrix.cols; ++j)
      matrix(i, j) = values[static_cast<std::size_t>(i * matrix.cols + j)];
  }
}

/// Throws FileError unless the file's tensor was written as numbers of type T.
template <class T>
void require_type(const CheckpointFiles& files, const std::string& name) {
  const Dtype dtype = files.tensors.at(name).dtype;
  if (dtype != dtype_of<T>()) {
    throw_file_error(files.name + ": " + name + " is " + std::string(dtype_name(dtype)) +
                     ", this training needs " + std::string(dtype_name(dtype_of<T>())));
  }
}

/// Returns the numbers of a tensor that has `size` of them, of type T. Throws FileError if it has not.
template <class T>
std::vector<T> read_state(const CheckpointFiles& files, const std::string& name, std::size_t size) {
  require_type<T>(files, name);
  std::vector<T> values = files.tensors.values<T>(name);
  if (values.size() != size) {
    throw_file_error(files.name + ": " + name + " has " + std::to_string(values.size()) +
                     " numbers, this training needs " + std::to_string(size));
  }
  return values;
}

inline constexpr const char* kFirstMomentsName = "optimizer.first_moments";
inline constexpr const char* kSecondMomentsName = "optimizer.second_moments";
inline constexpr const char* kStepsName = "optimizer.steps";
inline constexpr const char* kRandomName = "random.state";

}  // namespace detail

/// Writes weights, the optimizer's state, the generator's state and notes. Throws as
/// detail::write_checkpoint. Memory: nothing to speak of, the weights are written from where they are.
template <class Scalar>
void save_checkpoint(const std::filesystem::path& folder, const GptTrainer<Scalar>& trainer,
                     const Random& random, const std::string& tokenizer_json, const Notes& notes = {}) {
  std::vector<TensorBytes> tensors;
  trainer.model().for_each_parameter([&](const std::string& name, const auto& matrix) {
    tensors.push_back(tensor_bytes<Scalar>(
        name, {matrix.rows(), matrix.cols()},
        std::span<const Scalar>(matrix.data(), static_cast<std::size_t>(matrix.size()))));
  });
  const AdamW<Scalar>& optimizer = trainer.optimizer();
  const auto moments = [&](const char* name, std::span<const Scalar> values) {
    tensors.push_back(tensor_bytes<Scalar>(name, {std::ssize(values)}, values));
  };
  moments(detail::kFirstMomentsName, optimizer.first_moments());
  moments(detail::kSecondMomentsName, optimizer.second_moments());
  const std::int64_t steps = optimizer.steps();
  tensors.push_back(tensor_bytes<std::int64_t>(detail::kStepsName, {}, std::span(&steps, 1)));
  const auto words = random.state();
  const std::vector<std::int64_t> state(words.begin(), words.end());
  tensors.push_back(tensor_bytes<std::int64_t>(detail::kRandomName, {std::ssize(state)}, state));
  detail::write_checkpoint(folder, trainer.model().config(), tokenizer_json, tensors, notes);
}

/// Returns the model of a checkpoint. Throws FileError, naming the file and what is wrong.
template <class Scalar>
Gpt<Scalar> load_model(const std::filesystem::path& folder) {
  const detail::CheckpointFiles files = detail::read_checkpoint(folder);
  Random random(0);  // the weights that it fills in are overwritten
  Gpt<Scalar> model(files.config, random);
  for (const Parameter<Scalar>& weight : parameters(model))
    detail::read_matrix(files, weight.name, weight.value);
  return model;
}

/// Sets a trainer and a generator to where the checkpoint was made, and returns its notes: the training then
/// goes on bit for bit. Throws FileError if the checkpoint is not one of this model and scalar,
/// std::bad_alloc if there is no memory to read it into, both before anything is changed.
template <class Scalar>
Notes resume(const std::filesystem::path& folder, GptTrainer<Scalar>& trainer, Random& random) {
  const detail::CheckpointFiles files = detail::read_checkpoint(folder);
  // As JSON, which has in numbers what one of both may have left at its default.
  if (config_to_json(files.config) != config_to_json(trainer.model().config()))
    throw_file_error(files.name + " is of another configuration than the model");
  // Everything is read, and all memory taken, before anything is set.
  Notes notes = files.tensors.metadata();
  trainer.model().check_weights();
  Gpt<Scalar> model = trainer.model();
  for (const Parameter<Scalar>& weight : parameters(model)) {
    detail::require_type<Scalar>(files, weight.name);
    detail::read_matrix(files, weight.name, weight.value);
  }
  const std::size_t size = trainer.optimizer().first_moments().size();
  const auto first = detail::read_state<Scalar>(files, detail::kFirstMomentsName, size);
  const auto second = detail::read_state<Scalar>(files, detail::kSecondMomentsName, size);
  const auto steps = detail::read_state<std::int64_t>(files, detail::kStepsName, 1).front();
  const auto state = detail::read_state<std::int64_t>(files, detail::kRandomName, Random::kStateSize);
  std::vector<std::uint32_t> words;
  for (const std::int64_t word : state) {
    if (!std::in_range<std::uint32_t>(word))
      throw_file_error(files.name + ": " + detail::kRandomName + " has " + std::to_string(word));
    words.push_back(static_cast<std::uint32_t>(word));
  }
  const std::vector<Parameter<Scalar>> from = parameters(model);
  const std::vector<Parameter<Scalar>> to = parameters(trainer.model());
  Random restored(0);
#if defined(__cpp_exceptions)
  try {
    restored.restore(words);
    trainer.optimizer().restore(static_cast<Index>(steps), first, second);
  } catch (const Error& error) {
    throw_file_error(files.name + ": " + error.what());
  }
#else
  restored.restore(words);
  trainer.optimizer().restore(static_cast<Index>(steps), first, second);
#endif
  random = restored;
  for (std::size_t w = 0; w < to.size(); ++w) {
    for (Index i = 0; i < to[w].value.rows; ++i) {
      for (Index j = 0; j < to[w].value.cols; ++j) to[w].value(i, j) = from[w].value(i, j);
    }
  }
  return notes;
}

}  // namespace heed
