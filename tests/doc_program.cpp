// Keeps documents true: the C++ in a page is compiled and run, and must print what the page says.
//
//   doc_program code PAGE.md OUT.cpp      writes the page's ```cpp blocks as one program: #include blocks
//   first, the rest as the body
//                                         of main, unless a block brings its own main
//   doc_program check PAGE.md PROGRAM     runs the program and compares what it prints with the page's
//   ```text blocks
//   doc_program quotes PAGE.md FILES...   every file is one of the page's ```cpp blocks, to the letter
//   doc_program lines PAGE.md FILES...    every statement in the page's tables, `like = this;`, or on an
//   line that is indented by six, stands in one of the files, whatever its spaces and line breaks

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> blocks(const std::string& page, const std::string& language) {
  std::vector<std::string> found;
  std::istringstream lines(page);
  std::string line;
  std::string* open = nullptr;
  bool other = false;
  while (std::getline(lines, line)) {
    if (line.rfind("```", 0) == 0) {
      if (open != nullptr || other) {
        open = nullptr;
        other = false;
      } else if (line == "```" + language) {
        open = &found.emplace_back();
      } else {
        other = true;
      }
    } else if (open != nullptr) {
      *open += line + "\n";
    }
  }
  return found;
}

std::string program(const std::string& page) {
  std::string includes;
  std::string body;
  bool has_main = false;
  for (const std::string& block : blocks(page, "cpp")) {
    if (block.find("int main") != std::string::npos) {
      has_main = true;
      body += block;
    } else {
      (block.rfind("#include", 0) == 0 ? includes : body) += block + "\n";
    }
  }
  return has_main ? includes + body : includes + "int main() {\n" + body + "}\n";
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed");
  return output;
}

int require_quotes(const std::vector<std::string>& files, const std::string& page) {
  const std::vector<std::string> code = blocks(page, "cpp");
  for (const std::string& file : files) {
    if (std::find(code.begin(), code.end(), read_file(file)) == code.end())
      throw std::runtime_error("the page has no block that is " + file);
  }
  return 0;
}

std::string without_spaces(std::string text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::remove_if(text.begin(), text.end(), is_space), text.end());
  return text;
}

/// What ends in a semicolon and stands between backticks in a table, or on an indented line outside of ```
/// blocks.
std::vector<std::string> loose_statements(const std::string& page) {
  std::vector<std::string> found;
  std::istringstream lines(page);
  std::string line;
  bool in_block = false;
  while (std::getline(lines, line)) {
    if (line.rfind("```", 0) == 0) in_block = !in_block;
    if (in_block || line.empty()) continue;
    if (line.rfind("      ", 0) == 0 && line.back() == ';') found.push_back(line);
    if (line[0] != '|') continue;
    std::size_t open = line.find('`');
    while (open != std::string::npos) {
      const std::size_t close = line.find('`', open + 1);
      if (close == std::string::npos) throw std::runtime_error("a backtick is left open: " + line);
      if (line[close - 1] == ';') found.push_back(line.substr(open + 1, close - open - 1));
      open = line.find('`', close + 1);
    }
  }
  return found;
}

int require_lines(const std::vector<std::string>& files, const std::string& page) {
  std::string code;
  for (const std::string& file : files) code += without_spaces(read_file(file)) + "\n";
  const std::vector<std::string> statements = loose_statements(page);
  if (statements.empty()) throw std::runtime_error("the page has no statement");
  for (const std::string& statement : statements) {
    if (code.find(without_spaces(statement)) == std::string::npos)
      throw std::runtime_error("no file has the page's " + statement);
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3)
    throw std::runtime_error("usage: doc_program code|check|quotes|lines PAGE.md FILE...");
  const std::string page = read_file(arguments[1]);
  if (arguments[0] == "quotes") return require_quotes({arguments.begin() + 2, arguments.end()}, page);
  if (arguments[0] == "lines") return require_lines({arguments.begin() + 2, arguments.end()}, page);
  if (arguments[0] == "code") {
    std::ofstream(arguments[2]) << program(page);
    return 0;
  }
  std::string expected;
  for (const std::string& block : blocks(page, "text")) expected += block;
  const std::string actual = output_of(arguments[2]);
  if (actual == expected && !expected.empty()) return 0;
  std::cerr << arguments[1] << " says:\n" << expected << "\nits code prints:\n" << actual;
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "doc_program: " << error.what() << '\n';
    return 2;
  }
}
