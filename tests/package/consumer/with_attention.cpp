// Links heed::attention alone: Eigen and threads, nothing else.

#include <Eigen/Core>
#include <heed/error.hpp>
#include <iostream>

int main() {
  const Eigen::MatrixXd weights = Eigen::MatrixXd::Identity(2, 2);
  try {
    heed::throw_shape_error("weights has " + std::to_string(weights.rows()) + " rows");
  } catch (const heed::Error& error) {
    std::cout << error.what() << '\n';
    return 0;
  }
}
