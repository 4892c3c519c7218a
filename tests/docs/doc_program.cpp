// Keeps documents true. A page's code stands in fences that name what holds it:
//
//   ```cpp          is compiled, as one program with the page's other such blocks
//   ```text         is what that program prints, all such blocks one after another
//   ```cpp FILE     stands in FILE of this project, whatever its spaces; "// ..." leaves something out
//                   (also ```cmake FILE and the like)
//   ```text FILE    is compared with something else by the test FILE
//   ```sh           is run by doc_commands.sh beside this file, line by line
//
// A page with another kind of fence, or with code that is only indented, which nobody could hold, is refused.
//
//   doc_program code PAGE.md OUT.cpp      writes the program: blocks with a main of their own become
//   functions,
//                                         the others, put together, one more
//   doc_program check PAGE.md PROGRAM     runs the program and compares what it prints with the page
//   doc_program quotes PAGE.md ROOT       looks for the blocks that name a file below ROOT
//   doc_program commands PAGE.md          prints the lines of ```sh without their comments
//   doc_program lines PAGE.md FILES...    every statement in the page's tables, `like = this;`, stands in one
//   of
//                                         the files, whatever its spaces and line breaks

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
#include <string_view>
#include <vector>

namespace {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Block {
  std::string language;
  std::string file;  // that it names, or empty
  std::string text;
};

struct Page {
  std::vector<Block> blocks;
  std::vector<std::string> prose;  // the lines outside of blocks
};

Block opened(const std::string& info, const std::string& place) {
  std::istringstream words(info);
  Block block;
  std::string more;
  words >> block.language >> block.file >> more;
  const bool without_file = block.language == "cpp" || block.language == "text" || block.language == "sh";
  if (block.language.empty() || !more.empty() || (block.file.empty() && !without_file))
    throw std::runtime_error(place + "a fence of no known kind: ```" + info);
  return block;
}

Page parsed(const std::string& path) {
  Page page;
  std::istringstream lines(read_file(path));
  std::string line;
  bool open = false;
  std::size_t indent = 0;  // of the fence: in a list it is indented, and its lines with it
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = path + ", line " + std::to_string(number) + ": ";
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    if (start < 4 && line.compare(start, 3, "```") == 0) {
      if (!open) {
        page.blocks.push_back(opened(line.substr(start + 3), place));
        indent = start;
      } else if (line.size() != start + 3) {
        throw std::runtime_error(place + "the fence before it is not closed");
      }
      open = !open;
    } else if (open) {
      page.blocks.back().text += line.substr(std::min(indent, start)) + "\n";
    } else if ((start >= 4 && start < line.size()) || line[0] == '\t') {
      throw std::runtime_error(place + "indented by four or more: put code into a fence");
    } else {
      page.prose.push_back(line);
    }
  }
  if (open) throw std::runtime_error(path + ": the last fence is not closed");
  return page;
}

/// Moves the #include lines of a block to `includes`.
std::string without_includes(const std::string& code, std::string& includes) {
  std::istringstream lines(code);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    (line.starts_with("#include") ? includes : rest) += line + "\n";
  }
  return rest;
}

std::string program(const Page& page) {
  std::string includes;
  std::string functions;
  std::string calls;
  std::string body;
  for (const Block& block : page.blocks) {
    if (block.language != "cpp" || !block.file.empty()) continue;
    std::string code = without_includes(block.text, includes);
    constexpr std::string_view main = "int main() {\n";
    const std::size_t at = code.find(main);
    if (at == std::string::npos) {
      if (body.empty()) calls += "  page();\n";
      body += code + "\n";
      continue;
    }
    const std::string name = "block_" + std::to_string(std::count(calls.begin(), calls.end(), '\n'));
    functions += "namespace " + name + " {\n" + code.replace(at, main.size(), "void run() {\n") + "}\n\n";
    calls += "  " + name + "::run();\n";
  }
  return includes + "\n" + functions + "namespace {\n[[maybe_unused]] void page() {\n" + body +
         "}\n}  // namespace\n\nint main() {\n" + calls + "}\n";
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

int check(const std::string& path, const std::string& command) {
  std::string expected;
  for (const Block& block : parsed(path).blocks) {
    if (block.language == "text" && block.file.empty()) expected += block.text;
  }
  const std::string actual = output_of(command);
  if (actual == expected && !expected.empty()) return 0;
  std::cerr << path << " says:\n" << expected << "\nits code prints:\n" << actual;
  return 1;
}

std::string without_spaces(std::string text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::remove_if(text.begin(), text.end(), is_space), text.end());
  return text;
}

void require_quotes(const Page& page, const std::string& root) {
  for (const Block& block : page.blocks) {
    if (block.file.empty()) continue;
    const std::string file = without_spaces(read_file(root + "/" + block.file));
    if (block.language == "text") continue;
    constexpr std::string_view cut = "//...";
    const std::string code = without_spaces(block.text);
    for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + cut.size()) {
      end = code.find(cut, start);
      const std::string part = code.substr(start, end == std::string::npos ? end : end - start);
      if (part.empty() || file.find(part) == std::string::npos)
        throw std::runtime_error(block.file + " does not have the page's\n" + block.text);
    }
  }
}

void print_commands(const Page& page) {
  for (const Block& block : page.blocks) {
    if (block.language != "sh") continue;
    std::istringstream lines(block.text);
    for (std::string line; std::getline(lines, line);) {
      line.erase(std::min(line.find(" #"), line.size()));
      line.erase(line.find_last_not_of(' ') + 1);
      if (!line.empty()) std::cout << line << "\n";
    }
  }
}

/// What ends in a semicolon and stands between backticks in a table.
std::vector<std::string> statements_of(const Page& page) {
  std::vector<std::string> found;
  for (const std::string& line : page.prose) {
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

void require_lines(const std::vector<std::string>& files, const Page& page) {
  std::string code;
  for (const std::string& file : files) code += without_spaces(read_file(file)) + "\n";
  const std::vector<std::string> statements = statements_of(page);
  if (statements.empty()) throw std::runtime_error("the page has no statement");
  for (const std::string& statement : statements) {
    if (code.find(without_spaces(statement)) == std::string::npos)
      throw std::runtime_error("no file has the page's " + statement);
  }
}

int run(const std::vector<std::string>& arguments) {
  const auto is = [&](const char* mode, std::size_t size) {
    return !arguments.empty() && arguments[0] == mode && arguments.size() == size;
  };
  if (is("code", 3)) {
    std::ofstream file(arguments[2]);
    file << program(parsed(arguments[1]));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + arguments[2]);
  } else if (is("check", 3)) {
    return check(arguments[1], arguments[2]);
  } else if (is("quotes", 3)) {
    require_quotes(parsed(arguments[1]), arguments[2]);
  } else if (is("commands", 2)) {
    print_commands(parsed(arguments[1]));
  } else if (arguments.size() >= 3 && arguments[0] == "lines") {
    require_lines({arguments.begin() + 2, arguments.end()}, parsed(arguments[1]));
  } else {
    throw UsageError(
        "usage: doc_program code PAGE.md OUT.cpp | check PAGE.md PROGRAM | quotes PAGE.md ROOT | commands "
        "PAGE.md | "
        "lines PAGE.md FILE...");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const UsageError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "doc_program: " << error.what() << '\n';
    return 1;
  }
}
