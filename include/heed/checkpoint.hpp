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

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "heed/checkpoint_files.hpp"
#include "heed/gpt_trainer.hpp"
#include "heed/random.hpp"
#include "heed/safetensors.hpp"

namespace heed {

namespace detail {

/// Throws FileError unless the file's tensor has rows x cols numbers of type T, and copies them.
template <class T>
void read_matrix(const CheckpointFiles& files, const std::string& name, const MatrixView<T>& matrix) {
  const TensorInfo& info = files.tensors.at(name);
  if (info.shape != std::vector<std::ptrdiff_t>{matrix.rows, matrix.cols}) {
    throw_file_error("the checkpoint's " + name + " has other sizes than the model's, which is " +
                     size_of(matrix));
  }
  const std::vector<T> values = files.tensors.values<T>(name);
  for (Index i = 0; i < matrix.rows; ++i) {
    for (Index j = 0; j < matrix.cols; ++j)
      matrix(i, j) = values[static_cast<std::size_t>(i * matrix.cols + j)];
  }
}

inline constexpr const char* first_moments_name = "optimizer.first_moments";
inline constexpr const char* second_moments_name = "optimizer.second_moments";
inline constexpr const char* steps_name = "optimizer.steps";
inline constexpr const char* random_name = "random.state";

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
  moments(detail::first_moments_name, optimizer.first_moments());
  moments(detail::second_moments_name, optimizer.second_moments());
  const std::int64_t steps = optimizer.steps();
  tensors.push_back(tensor_bytes<std::int64_t>(detail::steps_name, {}, std::span(&steps, 1)));
  const auto words = random.state();
  const std::vector<std::int64_t> state(words.begin(), words.end());
  tensors.push_back(tensor_bytes<std::int64_t>(detail::random_name, {std::ssize(state)}, state));
  detail::write_checkpoint(folder, trainer.model().config(), tokenizer_json, tensors, notes);
}

/// The model of a checkpoint. Throws FileError, naming the file and what is wrong.
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
/// goes on bit for bit. Throws FileError, before anything is changed, if the checkpoint is not one of this
/// model and scalar.
template <class Scalar>
Notes resume(const std::filesystem::path& folder, GptTrainer<Scalar>& trainer, Random& random) {
  const detail::CheckpointFiles files = detail::read_checkpoint(folder);
  if (!(files.config == trainer.model().config()))
    throw_file_error("the checkpoint in " + folder.string() + " has another configuration than the model");
  // Everything is read before anything is set.
  Gpt<Scalar> model = trainer.model();
  for (const Parameter<Scalar>& weight : parameters(model))
    detail::read_matrix(files, weight.name, weight.value);
  const std::vector<Scalar> first = files.tensors.values<Scalar>(detail::first_moments_name);
  const std::vector<Scalar> second = files.tensors.values<Scalar>(detail::second_moments_name);
  const std::vector<std::int64_t> steps = files.tensors.values<std::int64_t>(detail::steps_name);
  const std::vector<std::int64_t> state = files.tensors.values<std::int64_t>(detail::random_name);
  if (steps.size() != 1 || first.size() != trainer.optimizer().first_moments().size() ||
      second.size() != first.size() ||
      files.tensors.at(detail::first_moments_name).dtype != dtype_of<Scalar>()) {
    throw_file_error("the checkpoint in " + folder.string() + " is of another optimizer or scalar");
  }
  std::vector<std::uint32_t> words;
  for (const std::int64_t word : state) words.push_back(static_cast<std::uint32_t>(word));
  Random restored(0);
  try {
    restored.restore(words);
  } catch (const ArgumentError& error) {
    throw_file_error("the checkpoint in " + folder.string() + ": " + error.what());
  }
  trainer.optimizer().restore(static_cast<Index>(steps.front()), first, second);
  random = restored;
  const std::vector<Parameter<Scalar>> read = parameters(model);
  for (std::size_t p = 0; p < read.size(); ++p)
    RowFunctions<Scalar>::scale(read[p].value, Scalar(1), trainer.parameters()[p].value);
  return files.tensors.metadata();
}

}  // namespace heed
