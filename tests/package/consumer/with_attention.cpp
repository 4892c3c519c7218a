// Links heed::attention alone: Eigen and threads, nothing else. With keys of zero, each row is the mean of
// the values it sees.

#include <Eigen/Core>
#include <heed/attention.hpp>
#include <iostream>

int main() {
  const Eigen::MatrixXf query = Eigen::MatrixXf::Ones(3, 2);
  const Eigen::MatrixXf key = Eigen::MatrixXf::Zero(3, 2);
  const Eigen::Vector3f value(1, 2, 3);
  heed::AttentionOptions options;
  options.mask = heed::causal();
  std::cout << heed::scaled_dot_product_attention(query, key, value, options).transpose() << '\n';
}
